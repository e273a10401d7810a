#include "engine/device/cuda/graph_cache.hpp"

#include <algorithm>

namespace terrane::engine::cuda {

namespace {
// Of graphs that are kept, together: some twenty of a whole model.
constexpr std::size_t most_launches = 8192;
}  // namespace

recorded_graph::~recorded_graph() {
  (void)card.functions().cuCtxSetCurrent(card.handle());
  for (CUgraphExec piece : pieces) (void)card.functions().cuGraphExecDestroy(piece);
}

std::shared_ptr<recorded_graph> graph_cache::find(std::span<const dispatch> phases) {
  const auto at = std::ranges::find_if(
      recent_, [&](const auto& graph) { return std::ranges::equal(graph->phases, phases); });
  if (at == recent_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, at);
  return recent_.front();
}

void graph_cache::add(const std::shared_ptr<recorded_graph>& made) {
  recent_.push_front(made);
  launches_ += made->phases.size();
  while (launches_ > most_launches && recent_.size() > 1) {
    launches_ -= recent_.back()->phases.size();
    recent_.pop_back();
  }
}

}  // namespace terrane::engine::cuda

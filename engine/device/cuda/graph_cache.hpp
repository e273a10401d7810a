// Graphs of one card, kept while lists use them and for a while after.
//
// Making a graph of a few hundred launches takes milliseconds and holds the driver. A move back, or
// one that changes other parts, asks for the very same launches again: what a graph does follows
// from them alone. Used under a lock of its owner.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "engine/device/cuda/context.hpp"
#include "engine/device/cuda/run_time.hpp"

namespace terrane::engine::cuda {

// Launches in their order, in graphs that are launched one after another: the first is short, so
// that the card is at work while the driver is handed the rest. They may be launched again before
// their last run has ended; the driver keeps them until then when they are destroyed.
struct recorded_graph {
  recorded_graph(const context& on, std::span<const dispatch> from)
      : card(on), phases(from.begin(), from.end()) {}
  ~recorded_graph();
  recorded_graph(const recorded_graph&) = delete;
  recorded_graph& operator=(const recorded_graph&) = delete;

  const context& card;
  const std::vector<dispatch> phases;
  std::vector<CUgraphExec> pieces;
  run_time usual;  // for the thread that submits and waits
  std::atomic<bool> launched{false};
};

class graph_cache {
 public:
  // The graph of these launches, or null.
  std::shared_ptr<recorded_graph> find(std::span<const dispatch> phases);
  void add(const std::shared_ptr<recorded_graph>& made);
  void clear() { recent_.clear(); }

 private:
  std::list<std::shared_ptr<recorded_graph>> recent_;  // the latest first
  std::size_t launches_ = 0;                           // in all of them
};

}  // namespace terrane::engine::cuda

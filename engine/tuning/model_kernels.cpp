#include "engine/tuning/model_kernels.hpp"

#include "engine/model/part_recorder.hpp"

namespace terrane::engine {

namespace {

std::vector<resident_block_ptr> blocks_on_paper(const model& of, const model_part& part) {
  std::vector<resident_block_ptr> blocks;
  for (std::uint32_t b : part.blocks) {
    auto block = std::make_shared<resident_block>();
    block->description = &of.blocks()[b];
    blocks.push_back(std::move(block));
  }
  return blocks;
}

}  // namespace

std::vector<kernel_use> kernels_of(const model& of, device& on, const workspace_shape& shape) {
  const std::unique_ptr<workspace> space = workspace::on_paper(on, of, shape);
  std::vector<kernel_use> uses;
  for (const step_size& size : {step_size{1, 1, 1}, step_size{shape.rows, 1, 0}}) {
    part_recorder r(*space, of, size, [&](const kernel_shape& s) { uses.push_back({s, 1}); });
    for (const model_part& part : of.parts()) {
      if (part.kind == part_kind::head && size.logits == 0) continue;
      r.begin_part(part, blocks_on_paper(of, part));
      of.record(r, part, part_half::first);
      if (part.kind != part_kind::attention) continue;
      r.attend_here(part.layer, r.attention_passes().front());
      of.record(r, part, part_half::second);
    }
  }
  return uses;
}

}  // namespace terrane::engine

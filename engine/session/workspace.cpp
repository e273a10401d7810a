#include "engine/session/workspace.hpp"

#include <algorithm>

#include "kernels/contract/rope_table.hpp"

namespace terrane::engine {

namespace {

constexpr std::uint64_t area_alignment = 256;

std::vector<float> make_rope_table(const rope_settings& rope, std::uint32_t positions) {
  kernels::rope_parameters p;
  p.theta = rope.theta;
  p.rotated = rope.rotated;
  p.linear_factor = rope.linear_factor;
  p.factors = rope.factors;
  return kernels::rope_table(p, positions);
}

// What the model's matrices multiply with: activations of other kinds have no room.
kernels::activation_set activations_of(const model& of) {
  kernels::activation_set set;
  for (const weight_block& block : of.blocks())
    for (const block_tensor& t : block.tensors)
      if (t.format != nullptr) set.add(t.format->activations);
  return set;
}

result<void> write_zeros(device& on, device_memory& to, std::uint64_t bytes) {
  const std::vector<std::byte> zeros(std::min<std::uint64_t>(bytes, 4U << 20));
  for (std::uint64_t at = 0; at < bytes; at += zeros.size()) {
    const std::size_t n = std::min<std::uint64_t>(zeros.size(), bytes - at);
    if (result<void> ok = on.write(to, at, std::span(zeros).first(n)); !ok) return ok;
  }
  return {};
}

}  // namespace

workspace::workspace(device& on, const model& of, const workspace_shape& shape)
    : device_(on),
      shape_(shape),
      layers_(of.config().layers),
      partial_row_bytes_(kernels::partial_row_bytes(of.config().attention)) {
  const model_config& c = of.config();
  const kernels::attention_shape& a = c.attention;
  const std::uint64_t rows = shape.rows, q = std::uint64_t{a.heads} * a.head_size,
                      kv = std::uint64_t{a.kv_heads} * a.head_size;
  const auto widest =
      static_cast<std::uint32_t>(std::max<std::uint64_t>({c.hidden, q, c.feed_forward}));
  qkv_stride_ =
      round_up_32(static_cast<std::uint32_t>(q)) + 2 * round_up_32(static_cast<std::uint32_t>(kv));
  hidden_stride_ = c.hidden;
  attended_stride_ = static_cast<std::uint32_t>(q);
  gate_up_stride_ = 2 * round_up_32(c.feed_forward);
  logits_stride_ = round_up_32(c.vocabulary);
  peaks_ = kernels::peaks_of(c.vocabulary);

  std::uint64_t next = 0;
  auto area = [&](std::uint64_t bytes) {
    workspace_area made{next, bytes};
    next += (bytes + area_alignment - 1) / area_alignment * area_alignment;
    return made;
  };
  inputs_ = area(4 * (1 + 4 * rows));
  page_tables_ = area(std::uint64_t{c.layers} * shape.slots * shape.pages_per_slot() * 8);
  next = 0;
  for (const rope_settings& rope : c.ropes)
    areas_.ropes.push_back(area(std::uint64_t{shape.context_tokens} * rope.rotated * 4));
  areas_.hidden = area(rows * c.hidden * 4);
  areas_.branch = area(rows * c.hidden * 4);
  areas_.selected = area(std::uint64_t{shape.logit_rows()} * c.hidden * 4);
  const kernels::activation_set needed = activations_of(of);
  auto q8_area = [&](std::uint32_t block, bool is_needed) {
    std::uint32_t row = 0;
    if (!is_needed) return area(0);
    for (std::uint32_t k : {c.hidden, static_cast<std::uint32_t>(q), c.feed_forward})
      if (k % block == 0) row = std::max(row, kernels::q8_row_layout(k, block).row_bytes());
    return area(std::max<std::uint64_t>(rows, 2 * shape.logit_rows()) * row);
  };
  areas_.q8_by_32 = q8_area(32, needed.q8_by_32);
  areas_.q8_by_256 = q8_area(256, needed.q8_by_256);
  areas_.f16 = area(needed.f16 ? rows * widest * 4 : 0);
  areas_.f32 = area(needed.f32 ? rows * widest * 4 : 0);
  areas_.qkv = area(rows * qkv_stride_ * 4);
  areas_.q = area(rows * q * 4);
  areas_.attended = area(rows * q * 4);
  areas_.gate_up = area(rows * gate_up_stride_ * 4);
  areas_.products = area(2 * peaks_offset());
  const std::uint64_t of_a_row = std::uint64_t{shape.pages_per_slot()} * partial_row_bytes_;
  areas_.partials = area(std::max(of_a_row, std::min(rows * of_a_row, shape.attention_bytes)));
  areas_.total = next;
}

std::uint64_t usual_attention_bytes(const device_info& on) {
  constexpr std::uint64_t least = 64ULL << 20, share = 256;
  return on.host_memory ? least : std::max(least, on.memory_bytes / share);
}

std::uint64_t workspace::bytes(device& on, const model& of, const workspace_shape& shape) {
  const workspace on_paper(on, of, shape);
  return on_paper.areas_.total + on_paper.written_bytes() + on_paper.logits_bytes();
}

std::uint32_t workspace::rows_attended_together(std::uint32_t rows, std::uint32_t chunks) const {
  const std::uint64_t of_a_row =
      std::uint64_t{std::min(chunks, shape_.pages_per_slot())} * partial_row_bytes_;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(rows, std::bit_floor(areas_.partials.bytes / of_a_row)));
}

std::unique_ptr<workspace> workspace::on_paper(device& on, const model& of,
                                               const workspace_shape& shape) {
  return std::unique_ptr<workspace>(new workspace(on, of, shape));
}

result<std::unique_ptr<workspace>> workspace::make(device& on, const model& of,
                                                   const workspace_shape& shape) {
  std::unique_ptr<workspace> w(new workspace(on, of, shape));
  result<std::unique_ptr<device_memory>> memory = on.allocate(w->areas_.total, memory_use::scratch);
  if (!memory) return tl::unexpected<error>(memory.error());
  w->memory_ = std::move(*memory);
  memory = on.allocate(w->written_bytes(), memory_use::staging);
  if (!memory) return tl::unexpected<error>(memory.error());
  w->written_ = std::move(*memory);
  memory = on.allocate_results(w->logits_bytes());
  if (!memory) return tl::unexpected<error>(memory.error());
  w->logits_ = std::move(*memory);
  // Everything starts as zero, as kernels may read rows that no step has written yet; but not the
  // partials: of a long context they are much, and a host gives memory only to what is written.
  result<void> zeroed = write_zeros(on, *w->memory_, w->areas_.partials.offset);
  if (zeroed) zeroed = write_zeros(on, *w->written_, w->written_bytes());
  if (!zeroed) return tl::unexpected<error>(zeroed.error());
  for (std::size_t r = 0; r < w->areas_.ropes.size(); r++) {
    const std::vector<float> rope = make_rope_table(of.config().ropes[r], shape.context_tokens);
    result<void> ok =
        on.write(*w->memory_, w->areas_.ropes[r].offset, std::as_bytes(std::span(rope)));
    if (!ok) return tl::unexpected<error>(ok.error());
  }
  return w;
}

std::uint64_t workspace::logits_bytes() const {
  return peaks_offset() + std::uint64_t{4} * shape_.logit_rows() * peaks_;
}

step_logits workspace::read_logits(std::uint32_t row, std::span<float> copy) const {
  const std::size_t at = std::size_t{row} * logits_stride_ * 4;
  if (const std::byte* host = logits_->host()) {
    const auto* logits = reinterpret_cast<const float*>(host + at);
    const auto* peaks = reinterpret_cast<const float*>(host + peaks_offset());
    return {{logits, copy.size()}, {peaks + std::size_t{row} * peaks_, peaks_}};
  }
  if (!device_.read(*logits_, at, std::as_writable_bytes(copy))) return {};
  return {copy, {}};
}

result<void> workspace::write_inputs(const step_inputs& inputs) {
  return device_.write_for_next(*written_, inputs_.offset, std::as_bytes(std::span(inputs.words)));
}

result<void> workspace::write_page_tables(std::uint32_t slot,
                                          std::span<const std::uint64_t> addresses) {
  const std::uint64_t entry = std::uint64_t{slot} * page_table_stride();
  return device_.write(*written_, page_tables_.offset + entry * 8, std::as_bytes(addresses));
}

}  // namespace terrane::engine

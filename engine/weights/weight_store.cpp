#include "engine/weights/weight_store.hpp"

#include <algorithm>

#include "kernels/formats/finite.hpp"

namespace terrane::engine {

namespace {
constexpr std::size_t slice_bytes = 4U << 20;  // what is read, packed and sent at a time

// Vectors (norms) are numbers in F32.
const kernels::weight_format& f32_vector() {
  return *kernels::find_weight_format(static_cast<std::uint32_t>(gguf::ggml_type::f32));
}

}  // namespace

weight_store::weight_store(device& on, const model& of)
    : device_(on), model_(of), blocks_(of.blocks().size()) {}

resident_block_ptr weight_store::find(std::uint32_t block) const {
  std::lock_guard lock(guard_);
  return blocks_[block].lock();
}

std::uint64_t weight_store::missing_bytes(const std::vector<std::uint32_t>& blocks) const {
  std::uint64_t sum = 0;
  for (std::uint32_t b : blocks)
    if (find(b) == nullptr) sum += model_.blocks()[b].bytes;
  return sum;
}

result<resident_block_ptr> weight_store::bring(std::uint32_t block,
                                               const resident_block_ptr& source, device* from,
                                               const copy_progress& progress) {
  if (resident_block_ptr here = find(block)) return here;
  const weight_block& description = model_.blocks()[block];
  result<std::unique_ptr<device_memory>> memory =
      device_.allocate(description.bytes, memory_use::weights);
  if (!memory) return tl::unexpected<error>(memory.error());
  result<void> filled = source != nullptr ? copy_between(*from, *source->memory, 0, device_,
                                                         **memory, 0, description.bytes, progress)
                                          : load(description, **memory, progress);
  if (!filled) return tl::unexpected<error>(filled.error());
  auto made = std::make_shared<resident_block>();
  made->description = &description;
  made->memory = std::move(*memory);
  std::lock_guard lock(guard_);
  blocks_[block] = made;
  return resident_block_ptr(made);
}

result<void> weight_store::read(const block_tensor& tensor, std::uint64_t row, std::uint64_t rows,
                                std::span<std::byte> stored) const {
  result<void> ok = model_.file().read_rows(*tensor.source, row, rows, stored);
  if (!ok || !check_numbers_) return ok;
  const bool is_matrix = tensor.format != nullptr;
  const kernels::weight_format& format = is_matrix ? *tensor.format : f32_vector();
  const auto found = kernels::find_not_finite(format, is_matrix ? tensor.k : tensor.n, stored);
  if (!found) return ok;
  return fail(error_code::not_finite,
              "row " + std::to_string(row + found->row) + ", block " +
                  std::to_string(found->block) + " of " + std::to_string(format.block_elements) +
                  " weights: number " + std::to_string(found->index) + " is " + found->value +
                  "; the file is damaged",
              model_.file().paths()[tensor.source->split] + ", tensor " + tensor.source->name);
}

result<void> weight_store::load(const weight_block& block, device_memory& to,
                                const copy_progress& progress) {
  std::uint64_t done = 0;
  for (const block_tensor& t : block.tensors) {
    result<void> ok = load_tensor(t, to, progress, done);
    if (!ok) return ok;
  }
  return {};
}

result<void> weight_store::load_tensor(const block_tensor& tensor, device_memory& to,
                                       const copy_progress& progress, std::uint64_t& done) {
  std::vector<std::byte> stored, packed;
  if (tensor.format == nullptr) {
    stored.resize(tensor.bytes);
    result<void> ok = read(tensor, 0, 1, stored);
    if (ok) ok = device_.write(to, tensor.offset, stored);
    done += tensor.bytes;
    return ok;
  }
  const std::uint64_t group_bytes = kernels::packed_group_bytes(*tensor.format, tensor.k);
  const std::uint64_t groups_at_once = std::max<std::uint64_t>(1, slice_bytes / group_bytes);
  for (std::uint64_t row = 0; row < tensor.n; row += groups_at_once * 32) {
    const std::uint64_t rows = std::min(groups_at_once * 32, tensor.n - row),
                        groups = (rows + 31) / 32;
    stored.resize(rows * tensor.source->row_bytes());
    result<void> ok = read(tensor, row, rows, stored);
    if (!ok) return ok;
    const std::uint64_t at = tensor.offset + row / 32 * group_bytes;
    if (to.host() != nullptr) {
      kernels::pack_rows(*tensor.format, tensor.k, stored, {to.host() + at, groups * group_bytes});
    } else {
      packed.resize(groups * group_bytes);
      kernels::pack_rows(*tensor.format, tensor.k, stored, packed);
      ok = device_.write(to, at, packed);
      if (!ok) return ok;
    }
    done += groups * group_bytes;
    if (progress && !progress(done)) return fail(error_code::cancelled, "loading was given up");
  }
  return {};
}

}  // namespace terrane::engine

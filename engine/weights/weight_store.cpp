#include "engine/weights/weight_store.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "kernels/formats/finite.hpp"

namespace terrane::engine {

namespace {
constexpr std::size_t slice_bytes = 512U << 10;  // what is read, packed and sent at a time

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
  // The device may have it still, from before the part left.
  const std::uint64_t content = std::uint64_t{block} + 1;
  result<std::unique_ptr<device_memory>> memory =
      device_.allocate(description.bytes, memory_use::weights, content);
  if (!memory) return tl::unexpected<error>(memory.error());
  result<void> filled;
  double copied_ms = 0;
  if ((*memory)->content() == content) {
    if (progress && !progress(description.bytes))
      filled = fail(error_code::cancelled, "the move was given up");
  } else if (source != nullptr) {
    const auto begin = std::chrono::steady_clock::now();
    filled =
        copy_between(*from, *source->memory, 0, device_, **memory, 0, description.bytes, progress);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    copied_ms = took.count();
  } else {
    filled = load(description, **memory, progress);
  }
  if (!filled) return tl::unexpected<error>(filled.error());
  (*memory)->set_content(content);
  auto made = std::make_shared<resident_block>();
  made->description = &description;
  made->memory = std::move(*memory);
  made->copied_ms = copied_ms;
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

// A matrix on its way from the file to a device, some rows at a time, by several threads.
class weight_store::slices {
 public:
  slices(const weight_store& store, const block_tensor& tensor, device_memory& to)
      : store_(store),
        tensor_(tensor),
        to_(to),
        group_bytes_(kernels::packed_group_bytes(*tensor.format, tensor.k)),
        groups_(std::max<std::uint64_t>(1, slice_bytes / group_bytes_)),
        count_((tensor.n + groups_ * 32 - 1) / (groups_ * 32)) {}

  result<void> load(unsigned threads, const std::function<bool(std::uint64_t done)>& progress) {
    std::vector<std::thread> others;
    try {
      for (unsigned t = 1; t < std::min<std::uint64_t>(threads, count_); t++)
        others.emplace_back([this] { take({}); });
    } catch (const std::system_error&) {  // the system gives no more threads: fewer do it
    }
    take(progress);
    for (std::thread& t : others) t.join();
    if (failure_) return tl::unexpected<error>(*failure_);
    return {};
  }

 private:
  void take(const std::function<bool(std::uint64_t done)>& progress) {
    std::vector<std::byte> stored, packed;
    while (!stopped_) {
      const std::uint64_t slice = next_++;
      if (slice >= count_) return;
      result<void> ok;
      try {
        ok = load_slice(slice * groups_ * 32, stored, packed);
      } catch (const std::bad_alloc&) {
        ok = fail(error_code::no_room, "no memory for the rows on their way to the device");
      }
      if (ok && progress && !progress(done_))
        ok = fail(error_code::cancelled, "loading was given up");
      if (ok) continue;
      std::lock_guard lock(guard_);
      if (!failure_) failure_ = ok.error();
      stopped_ = true;
    }
  }

  result<void> load_slice(std::uint64_t row, std::vector<std::byte>& stored,
                          std::vector<std::byte>& packed) {
    const std::uint64_t rows = std::min(groups_ * 32, tensor_.n - row);
    const std::uint64_t bytes = (rows + 31) / 32 * group_bytes_;
    const std::uint64_t at = tensor_.offset + row / 32 * group_bytes_;
    stored.resize(rows * tensor_.source->row_bytes());
    result<void> ok = store_.read(tensor_, row, rows, stored);
    if (!ok) return ok;
    if (to_.host() != nullptr) {
      kernels::pack_rows(*tensor_.format, tensor_.k, stored, {to_.host() + at, bytes});
    } else {
      packed.resize(bytes);
      kernels::pack_rows(*tensor_.format, tensor_.k, stored, packed);
      ok = store_.device_.write(to_, at, packed);
    }
    done_ += bytes;
    return ok;
  }

  const weight_store& store_;
  const block_tensor& tensor_;
  device_memory& to_;
  const std::uint64_t group_bytes_, groups_, count_;  // groups of 32 rows in a slice; slices
  std::atomic<std::uint64_t> next_{0}, done_{0};
  std::atomic<bool> stopped_{false};
  std::mutex guard_;
  std::optional<error> failure_;
};

result<void> weight_store::load_tensor(const block_tensor& tensor, device_memory& to,
                                       const copy_progress& progress, std::uint64_t& done) {
  if (tensor.format == nullptr) {
    std::vector<std::byte> stored(tensor.bytes);
    result<void> ok = read(tensor, 0, 1, stored);
    if (ok) ok = device_.write(to, tensor.offset, stored);
    done += tensor.bytes;
    return ok;
  }
  const std::uint64_t before = done;
  std::function<bool(std::uint64_t)> told;
  if (progress) told = [&](std::uint64_t so_far) { return progress(before + so_far); };
  result<void> ok = slices(*this, tensor, to).load(threads_, told);
  done += tensor.bytes;
  return ok;
}

}  // namespace terrane::engine

#include "tests/bench/corrupting_device.hpp"

#include <mutex>
#include <set>
#include <vector>

#include "kernels/ops/ops.hpp"
#include "tests/bench/forwarding_device.hpp"

namespace terrane::bench {

namespace {

class corrupting_device final : public forwarding_device {
 public:
  corrupting_device(std::unique_ptr<engine::device> inner, const engine::model& of,
                    std::shared_ptr<std::atomic<bool>> flipped)
      : forwarding_device(std::move(inner)),
        shape_(of.config().attention),
        told_(std::move(flipped)) {}

  // Pages come one at a time or several side by side. One that is still being written comes again:
  // the bit is flipped each time.
  result<void> write(engine::device_memory& to, std::size_t offset,
                     std::span<const std::byte> from) override {
    const std::size_t page = kernels::page_bytes(shape_);
    const std::uint64_t begin = to.address() + offset;
    {
      const std::lock_guard lock(guard_);
      if (kv_.count(to.address()) == 0) return forwarding_device::write(to, offset, from);
      if (flipped_ == 0 && from.size() >= page) flipped_ = begin;
      if (flipped_ < begin || flipped_ + page > begin + from.size())
        return forwarding_device::write(to, offset, from);
    }
    // The highest mantissa bit of dimension 0 of the first value: finite whatever it was.
    std::vector<std::byte> pages(from.begin(), from.end());
    const std::size_t values =
        std::size_t{shape_.kv_heads} * shape_.head_size * kernels::page_positions * 2;
    pages[flipped_ - begin + values + 1] ^= std::byte{2};
    *told_ = true;
    return forwarding_device::write(to, offset, pages);
  }

 private:
  result<std::unique_ptr<engine::device_memory>> allocate_memory(std::size_t bytes,
                                                                 engine::memory_use use) override {
    auto made = inner().allocate(bytes, engine::memory_use::staging);
    const std::lock_guard lock(guard_);
    if (made && use == engine::memory_use::kv) kv_.insert((*made)->address());
    return made;
  }

  const kernels::attention_shape shape_;
  const std::shared_ptr<std::atomic<bool>> told_;
  std::mutex guard_;
  std::set<std::uint64_t> kv_;  // where memory for pages begins
  std::uint64_t flipped_ = 0;   // address of the page
};

}  // namespace

std::unique_ptr<engine::device> make_corrupting_device(std::unique_ptr<engine::device> inner,
                                                       const engine::model& of,
                                                       std::shared_ptr<std::atomic<bool>> flipped) {
  return std::make_unique<corrupting_device>(std::move(inner), of, std::move(flipped));
}

}  // namespace terrane::bench

#include "tests/bench/corrupting_device.hpp"

#include <vector>

#include "kernels/ops/ops.hpp"
#include "tests/bench/forwarding_device.hpp"

namespace terrane::bench {

namespace {

class corrupting_device final : public forwarding_device {
 public:
  corrupting_device(std::unique_ptr<engine::device> inner, const engine::model& of)
      : forwarding_device(std::move(inner)), shape_(of.config().attention) {}

  result<void> write(engine::device_memory& to, std::size_t offset,
                     std::span<const std::byte> from) override {
    if (flipped_ || from.size() != kernels::page_bytes(shape_))
      return forwarding_device::write(to, offset, from);
    flipped_ = true;
    // The highest mantissa bit of dimension 0 of the first value: finite whatever it was.
    std::vector<std::byte> page(from.begin(), from.end());
    const std::size_t values =
        std::size_t{shape_.kv_heads} * shape_.head_size * kernels::page_positions * 2;
    page[values + 1] ^= std::byte{2};
    return forwarding_device::write(to, offset, page);
  }

 private:
  kernels::attention_shape shape_;
  bool flipped_ = false;
};

}  // namespace

std::unique_ptr<engine::device> make_corrupting_device(std::unique_ptr<engine::device> inner,
                                                       const engine::model& of) {
  return std::make_unique<corrupting_device>(std::move(inner), of);
}

}  // namespace terrane::bench

#include "tests/bench/corrupting_device.hpp"

#include <vector>

#include "kernels/ops/ops.hpp"

namespace terrane::bench {

namespace {

// The device inside keeps its card's account.
engine::device_info without_card(engine::device_info info) {
  info.card.clear();
  return info;
}

class corrupting_device final : public engine::device {
 public:
  corrupting_device(std::unique_ptr<engine::device> inner, const engine::model& of)
      : engine::device(without_card(inner->info())),
        inner_(std::move(inner)),
        shape_(of.config().attention) {}

  result<const engine::device_kernel*> compile(const kernels::program& p) override {
    return inner_->compile(p);
  }
  result<std::unique_ptr<engine::command_list>> record(
      std::span<const engine::dispatch> phases) override {
    return inner_->record(phases);
  }
  result<void> submit(engine::command_list& list) override {
    count_launches(list.launches);
    return inner_->submit(list);
  }
  result<void> wait() override { return inner_->wait(); }
  result<void> read(const engine::device_memory& from, std::size_t offset,
                    std::span<std::byte> to) override {
    return inner_->read(from, offset, to);
  }
  result<void> write(engine::device_memory& to, std::size_t offset,
                     std::span<const std::byte> from) override {
    if (flipped_ || from.size() != kernels::page_bytes(shape_))
      return inner_->write(to, offset, from);
    flipped_ = true;
    // The highest mantissa bit of dimension 0 of the first value: finite whatever it was.
    std::vector<std::byte> page(from.begin(), from.end());
    const std::size_t values =
        std::size_t{shape_.kv_heads} * shape_.head_size * kernels::page_positions * 2;
    page[values + 1] ^= std::byte{2};
    return inner_->write(to, offset, page);
  }

 private:
  result<std::unique_ptr<engine::device_memory>> allocate_memory(std::size_t bytes) override {
    return inner_->allocate(bytes, engine::memory_use::staging);
  }

  std::unique_ptr<engine::device> inner_;
  kernels::attention_shape shape_;
  bool flipped_ = false;
};

}  // namespace

std::unique_ptr<engine::device> make_corrupting_device(std::unique_ptr<engine::device> inner,
                                                       const engine::model& of) {
  return std::make_unique<corrupting_device>(std::move(inner), of);
}

}  // namespace terrane::bench

#include "tests/bench/forwarding_device.hpp"

namespace terrane::bench {

namespace {

engine::device_info without_card(engine::device_info info) {
  info.card.clear();
  return info;
}

}  // namespace

forwarding_device::forwarding_device(std::unique_ptr<engine::device> inner)
    : engine::device(without_card(inner->info())), inner_(std::move(inner)) {}

result<const engine::device_kernel*> forwarding_device::compile(const kernels::program& p) {
  return inner_->compile(p);
}

result<std::unique_ptr<engine::command_list>> forwarding_device::record(
    std::span<const engine::dispatch> phases) {
  return inner_->record(phases);
}

result<void> forwarding_device::submit(engine::command_list& list) {
  count_launches(list.launches);
  return inner_->submit(list);
}

result<void> forwarding_device::wait() { return inner_->wait(); }

result<void> forwarding_device::write(engine::device_memory& to, std::size_t offset,
                                      std::span<const std::byte> from) {
  return inner_->write(to, offset, from);
}

result<void> forwarding_device::read(const engine::device_memory& from, std::size_t offset,
                                     std::span<std::byte> to) {
  return inner_->read(from, offset, to);
}

result<std::unique_ptr<engine::device_memory>> forwarding_device::allocate_memory(
    std::size_t bytes, engine::memory_use) {
  return inner_->allocate(bytes, engine::memory_use::staging);
}

}  // namespace terrane::bench

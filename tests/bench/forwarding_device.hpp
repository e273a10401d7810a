// A device that hands every call to the one it owns: the base of devices that change or watch one
// thing. The account of bytes is kept by both; the card's only by the device inside.
#pragma once

#include <memory>

#include "engine/device/device.hpp"

namespace terrane::bench {

class forwarding_device : public engine::device {
 public:
  explicit forwarding_device(std::unique_ptr<engine::device> inner);

  result<const engine::device_kernel*> compile(const kernels::program& p) override;
  result<std::unique_ptr<engine::command_list>> record(
      std::span<const engine::dispatch> phases) override;
  result<void> submit(engine::command_list& list) override;
  result<void> wait() override;
  result<void> write(engine::device_memory& to, std::size_t offset,
                     std::span<const std::byte> from) override;
  result<void> read(const engine::device_memory& from, std::size_t offset,
                    std::span<std::byte> to) override;
  std::optional<error> lost() const override { return inner_->lost(); }

 protected:
  engine::device& inner() { return *inner_; }

 private:
  result<std::unique_ptr<engine::device_memory>> allocate_memory(std::size_t bytes,
                                                                 engine::memory_use) override;

  std::unique_ptr<engine::device> inner_;
};

}  // namespace terrane::bench

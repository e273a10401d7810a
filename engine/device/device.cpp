#include "engine/device/device.hpp"

namespace terrane::engine {

const char* to_string(device_kind kind) {
  switch (kind) {
    case device_kind::cpu:
      return "cpu";
    case device_kind::vulkan:
      return "vulkan";
    case device_kind::cuda:
      return "cuda";
  }
  return "unknown";
}

const char* to_string(memory_use use) {
  switch (use) {
    case memory_use::weights:
      return "weights";
    case memory_use::kv:
      return "kv";
    case memory_use::scratch:
      return "scratch";
    case memory_use::staging:
      return "staging";
  }
  return "unknown";
}

// Wraps a device's own memory so that its bytes leave the account when it goes.
class device::accounted_memory : public device_memory {
 public:
  accounted_memory(std::unique_ptr<device_memory> inner, std::atomic<std::uint64_t>& account)
      : device_memory(inner->address(), inner->bytes(), inner->host()),
        inner_(std::move(inner)),
        account_(account) {}
  ~accounted_memory() override { account_ -= bytes(); }

 private:
  std::unique_ptr<device_memory> inner_;
  std::atomic<std::uint64_t>& account_;
};

std::uint64_t device::used_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& u : used_) sum += u.load();
  return sum;
}

result<std::unique_ptr<device_memory>> device::allocate(std::size_t bytes, memory_use use) {
  if (bytes == 0) bytes = 1;
  std::lock_guard lock(admission_);
  const std::uint64_t limit = limit_bytes();
  std::uint64_t held = used_bytes();
  if (bytes > limit || held > limit - bytes) {
    return fail_short(error_code::no_room, bytes, limit > held ? limit - held : 0,
                      std::string("no room for ") + std::to_string(bytes) + " bytes of " +
                          to_string(use) + ": " + std::to_string(held) + " of " +
                          std::to_string(limit) + " bytes are in use",
                      info_.name);
  }
  result<std::unique_ptr<device_memory>> made = allocate_memory(bytes);
  if (!made) return made;
  std::atomic<std::uint64_t>& account = used_[static_cast<std::size_t>(use)];
  account += (*made)->bytes();
  return std::make_unique<accounted_memory>(std::move(*made), account);
}

}  // namespace terrane::engine

#include "engine/device/cuda/pinned_memory.hpp"

#include <cstring>

namespace terrane::engine::cuda {

namespace {

class pinned_memory : public device_memory {
 public:
  // With unified addressing, which every 64-bit card has, both sides use one address (CUDA Driver
  // API, "Unified Addressing").
  pinned_memory(const context& card, void* at, std::size_t bytes)
      : device_memory(reinterpret_cast<std::uint64_t>(at), bytes, static_cast<std::byte*>(at)),
        card_(card) {}
  ~pinned_memory() override {
    (void)card_.functions().cuCtxSetCurrent(card_.handle());
    (void)card_.functions().cuMemFreeHost(host());
  }

 private:
  const context& card_;
};

}  // namespace

result<std::unique_ptr<device_memory>> allocate_pinned(const context& card, std::size_t bytes) {
  if (result<void> ready = card.enter(); !ready) return tl::unexpected<error>(ready.error());
  void* at = nullptr;
  result<void> ok =
      card.check_refusal(card.functions().cuMemHostAlloc(
                             &at, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                         "cuMemHostAlloc");
  if (!ok) return tl::unexpected<error>(ok.error());
  std::memset(at, 0, bytes);
  return std::make_unique<pinned_memory>(card, at, bytes);
}

}  // namespace terrane::engine::cuda

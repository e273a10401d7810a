#include "engine/device/cuda/foreign_memory.hpp"

#include <unistd.h>

namespace terrane::engine::cuda {

class foreign_memory::mapping : public foreign_mapping {
 public:
  mapping(std::uint64_t address, CUexternalMemory memory, std::shared_ptr<open_mappings> among)
      : foreign_mapping(address), memory_(memory), among_(std::move(among)) {}
  ~mapping() override {
    const std::lock_guard lock(among_->access);
    if (among_->card == nullptr) return;
    unmap(*among_->card);
    among_->all.erase(this);
  }
  bool is_open() const override {
    const std::lock_guard lock(among_->access);
    return among_->card != nullptr;
  }
  void unmap(const context& card) const {
    const driver_functions& cu = card.functions();
    (void)cu.cuCtxSetCurrent(card.handle());
    (void)cu.cuMemFree(address());
    (void)cu.cuDestroyExternalMemory(memory_);
  }

 private:
  CUexternalMemory memory_;
  const std::shared_ptr<open_mappings> among_;
};

foreign_memory::foreign_memory(const context& card) : open_(std::make_shared<open_mappings>()) {
  open_->card = &card;
}

foreign_memory::~foreign_memory() {
  const std::lock_guard lock(open_->access);
  for (mapping* m : open_->all) m->unmap(*open_->card);
  open_->all.clear();
  open_->card = nullptr;
}

// What the driver does not take is a refusal, whatever it calls it, while the card still answers.
result<void> foreign_memory::check(CUresult r, const char* call) const {
  const context& card = *open_->card;
  if (r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY || !card.answers())
    return card.check(r, call);
  return fail(error_code::unsupported,
              std::string(call) + " failed with " + name_of(card.functions(), r),
              card.physical().info.name);
}

result<std::unique_ptr<foreign_mapping>> foreign_memory::map(int descriptor, std::uint64_t bytes) {
  const driver_functions& cu = open_->card->functions();
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC what{};
  what.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  what.handle.fd = descriptor;
  what.size = bytes;
  CUexternalMemory memory = nullptr;
  result<void> ok = open_->card->enter();
  if (ok) ok = check(cu.cuImportExternalMemory(&memory, &what), "cuImportExternalMemory");
  if (!ok) {  // the descriptor is the driver's only once it is imported
    ::close(descriptor);
    return tl::unexpected<error>(ok.error());
  }
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC whole{};
  whole.size = bytes;
  CUdeviceptr address = 0;
  ok = check(cu.cuExternalMemoryGetMappedBuffer(&address, memory, &whole),
             "cuExternalMemoryGetMappedBuffer");
  if (!ok) {
    (void)cu.cuDestroyExternalMemory(memory);
    return tl::unexpected<error>(ok.error());
  }
  auto made = std::make_unique<mapping>(address, memory, open_);
  const std::lock_guard lock(open_->access);
  open_->all.insert(made.get());
  return made;
}

}  // namespace terrane::engine::cuda

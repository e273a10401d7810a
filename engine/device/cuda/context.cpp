#include "engine/device/cuda/context.hpp"

#include <chrono>
#include <thread>

namespace terrane::engine::cuda {

namespace {

// A thread that sleeps is woken some 50 microseconds late: too much for a copy of ten.
constexpr std::chrono::microseconds look_for{600};

// What a call says of its arguments, of a kernel or of a pair of cards, not of this card.
bool is_refusal(CUresult r) {
  switch (r) {
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_INVALID_VALUE:
      return true;
    default:
      return false;
  }
}

}  // namespace

result<std::unique_ptr<context>> context::open(const driver& d, const physical_device& p) {
  std::unique_ptr<context> made(new context(d, p));
  if (result<void> ok = made->create(); !ok) return tl::unexpected<error>(ok.error());
  return made;
}

result<void> context::create() {
  const driver_functions& cu = functions();
  // Threads that wait sleep. Refused where the context exists already, which has been set so then.
  (void)cu.cuDevicePrimaryCtxSetFlags(physical_.handle, CU_CTX_SCHED_BLOCKING_SYNC);
  result<void> ok =
      check(cu.cuDevicePrimaryCtxRetain(&handle_, physical_.handle), "cuDevicePrimaryCtxRetain");
  if (ok) ok = enter();
  if (!ok) return ok;
  probe_memory();
  result<CUstream> steps = make_stream(true);
  if (!steps) return tl::unexpected<error>(steps.error());
  steps_ = *steps;
  return {};
}

// A driver may offer what the machine around it does not let it do (a container, a sandbox).
void context::probe_memory() {
  if (physical_.exportable && !can_map_memory()) physical_.exportable = false;
  if (physical_.mapped_by_hand && !can_map_memory()) physical_.mapped_by_hand = false;
}

bool context::can_map_memory() const {
  const driver_functions& cu = functions();
  const CUmemAllocationProp kind = memory_kind(physical_);
  const std::size_t bytes = physical_.granule;
  CUmemGenericAllocationHandle memory = 0;
  const CUresult created = cu.cuMemCreate(&memory, bytes, &kind, 0);
  if (created == CUDA_ERROR_OUT_OF_MEMORY) return true;  // full, which says nothing
  if (created != CUDA_SUCCESS) return false;
  CUdeviceptr at = 0;
  bool mapped = false, open = false;
  if (cu.cuMemAddressReserve(&at, bytes, bytes, 0, 0) == CUDA_SUCCESS) {
    mapped = cu.cuMemMap(at, bytes, 0, memory, 0) == CUDA_SUCCESS;
    CUmemAccessDesc access{};
    access.location = kind.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    open = mapped && cu.cuMemSetAccess(at, bytes, &access, 1) == CUDA_SUCCESS;
    if (mapped) (void)cu.cuMemUnmap(at, bytes);
    (void)cu.cuMemAddressFree(at, bytes);
  }
  (void)cu.cuMemRelease(memory);
  return open;
}

context::~context() {
  const driver_functions& cu = functions();
  if (handle_ == nullptr) return;
  (void)cu.cuCtxSetCurrent(handle_);
  if (steps_ != nullptr) (void)cu.cuStreamDestroy(steps_);
  (void)cu.cuDevicePrimaryCtxRelease(physical_.handle);
}

result<void> context::enter() const {
  if (result<void> whole = fault(); !whole) return whole;
  return check(functions().cuCtxSetCurrent(handle_), "cuCtxSetCurrent");
}

result<void> context::check(CUresult r, const char* call) const {
  if (r == CUDA_SUCCESS) return {};
  const std::string what = std::string(call) + " failed with " + name_of(functions(), r);
  if (r == CUDA_ERROR_OUT_OF_MEMORY) return fail(error_code::no_room, what, physical_.info.name);
  std::lock_guard lock(fault_access_);
  if (!fault_) {
    fault_ = error{error_code::device_fault,
                   what + "; the device is not used again until the program restarts",
                   physical_.info.name};
  }
  return tl::unexpected<error>(*fault_);
}

result<void> context::check_refusal(CUresult r, const std::string& call) const {
  if (is_refusal(r))
    return fail(error_code::unsupported, call + " failed with " + name_of(functions(), r),
                physical_.info.name);
  return check(r, call.c_str());
}

result<void> context::fault() const {
  std::lock_guard lock(fault_access_);
  if (fault_) return tl::unexpected<error>(*fault_);
  return {};
}

bool context::answers() const {
  std::size_t left = 0, all = 0;
  return fault().has_value() && functions().cuCtxSetCurrent(handle_) == CUDA_SUCCESS &&
         functions().cuMemGetInfo(&left, &all) == CUDA_SUCCESS;
}

result<CUstream> context::make_stream(bool urgent) const {
  // Lower numbers go first; a driver cuts what lies outside its range.
  constexpr int urgent_priority = -5, usual_priority = 0;
  CUstream made = nullptr;
  result<void> ok =
      check(functions().cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING,
                                                   urgent ? urgent_priority : usual_priority),
            "cuStreamCreateWithPriority");
  if (!ok) return tl::unexpected<error>(ok.error());
  return made;
}

result<CUevent> context::make_event() const {
  CUevent made = nullptr;
  result<void> ok =
      check(functions().cuEventCreate(&made, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING),
            "cuEventCreate");
  if (!ok) return tl::unexpected<error>(ok.error());
  return made;
}

result<void> context::wait(CUevent event) const {
  const auto until = std::chrono::steady_clock::now() + look_for;
  do {
    const CUresult r = functions().cuEventQuery(event);
    if (r != CUDA_ERROR_NOT_READY) return check(r, "cuEventQuery");
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < until);
  return check(functions().cuEventSynchronize(event), "cuEventSynchronize");
}

}  // namespace terrane::engine::cuda

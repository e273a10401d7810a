#include "engine/device/cuda/driver.hpp"

#include <fstream>

#include <dlfcn.h>

namespace terrane::engine::cuda {

namespace {

constexpr const char* library = "libcuda.so.1";

#define TERRANE_CUDA_QUOTED(name) #name
#define TERRANE_CUDA_SYMBOL(name) TERRANE_CUDA_QUOTED(name)

result<driver> load() {
  void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    return fail(error_code::unsupported,
                std::string("there is no NVIDIA driver here: ") + library + " cannot be opened",
                "cuda");
  }
  driver d;
  std::string missing;
#define TERRANE_CUDA_RESOLVE(name)                                                            \
  d.functions.name =                                                                          \
      reinterpret_cast<decltype(d.functions.name)>(dlsym(opened, TERRANE_CUDA_SYMBOL(name))); \
  if (d.functions.name == nullptr && missing.empty()) missing = TERRANE_CUDA_SYMBOL(name);
  TERRANE_CUDA_FUNCTIONS(TERRANE_CUDA_RESOLVE)
#undef TERRANE_CUDA_RESOLVE
  // A driver that is too old says so by its version where it can; that is the better message.
  if (!missing.empty() && (d.functions.cuInit == nullptr ||
                           d.functions.cuDriverGetVersion == nullptr || start(d).has_value())) {
    return fail(error_code::unsupported,
                std::string("the NVIDIA driver is too old: ") + library + " lacks " + missing +
                    "; CUDA " + version_text(oldest_driver) + " or newer is needed",
                "cuda");
  }
  std::ifstream("/sys/module/nvidia/version") >> d.release;
  if (result<void> started = start(d); !started) return tl::unexpected<error>(started.error());
  return d;
}

}  // namespace

result<void> start(driver& d) {
  // The version first: it is answered without a GPU, and an old driver is the better reason.
  if (d.functions.cuDriverGetVersion(&d.version) != CUDA_SUCCESS) d.version = 0;
  if (d.version < oldest_driver) {
    return fail(error_code::unsupported,
                "the NVIDIA driver is too old: it offers CUDA " + version_text(d.version) + ", " +
                    version_text(oldest_driver) + " (driver 525) or newer is needed",
                "cuda");
  }
  const CUresult r = d.functions.cuInit(0);
  if (r == CUDA_ERROR_NO_DEVICE)
    return fail(error_code::unsupported, "the NVIDIA driver finds no GPU", "cuda");
  if (r != CUDA_SUCCESS) {
    return fail(error_code::unsupported,
                "the NVIDIA driver does not start: cuInit failed with " + name_of(d.functions, r),
                "cuda");
  }
  return {};
}

result<const driver*> open_driver() {
  static const result<driver> opened = load();
  if (!opened) return tl::unexpected<error>(opened.error());
  return &*opened;
}

std::string name_of(const driver_functions& cu, CUresult r) {
  const char* name = nullptr;
  if (cu.cuGetErrorName != nullptr && cu.cuGetErrorName(r, &name) == CUDA_SUCCESS &&
      name != nullptr)
    return name;
  return "CUresult " + std::to_string(static_cast<int>(r));
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace terrane::engine::cuda

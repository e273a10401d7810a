// In place of the device where this build found no cuda.h.
#include "engine/device/cuda/cuda_device.hpp"

namespace terrane::engine {

namespace {

tl::unexpected<error> not_built_in() {
  return fail(error_code::unsupported,
              "CUDA is not built in: cuda.h was not found when this program was configured (see "
              "TERRANE_CUDA_INCLUDE)",
              "cuda");
}

}  // namespace

result<std::vector<cuda_candidate>> list_cuda_devices() { return not_built_in(); }

result<std::unique_ptr<device>> open_cuda_device(const std::string&, const cuda_options&) {
  return not_built_in();
}

}  // namespace terrane::engine

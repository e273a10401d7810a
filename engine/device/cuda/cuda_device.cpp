#include "engine/device/cuda/cuda_device.hpp"

#include "engine/device/cuda/gpu.hpp"

namespace terrane::engine {

result<std::vector<cuda_candidate>> list_cuda_devices() {
  result<const cuda::driver*> d = cuda::open_driver();
  if (!d) return tl::unexpected<error>(d.error());
  std::vector<cuda_candidate> found;
  for (const cuda::physical_device& p : cuda::survey(**d)) found.push_back({p.info, p.refused});
  return found;
}

result<std::unique_ptr<device>> open_cuda_device(const std::string& name,
                                                 const cuda_options& options) {
  result<const cuda::driver*> d = cuda::open_driver();
  if (!d) return tl::unexpected<error>(d.error());
  std::string others;
  for (const cuda::physical_device& p : cuda::survey(**d)) {
    others += (others.empty() ? "" : ", ") + p.info.name;
    if (p.info.name != name) continue;
    if (p.refused.empty()) return cuda::gpu::open(**d, p, options);
    return fail(error_code::unsupported, "the device cannot be used: " + p.refused, name);
  }
  return fail(error_code::not_found,
              "the NVIDIA driver offers no such card; there is " +
                  (others.empty() ? std::string("none") : others),
              name);
}

}  // namespace terrane::engine

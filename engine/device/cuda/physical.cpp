#include "engine/device/cuda/physical.hpp"

#include <cstdio>

namespace terrane::engine::cuda {

namespace {

// As Vulkan writes the same card's UUID.
std::string as_text(const CUuuid& uuid) {
  std::string text;
  for (std::size_t k = 0; k < sizeof uuid.bytes; k++) {
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(uuid.bytes[k]));
    if (k == 4 || k == 6 || k == 8 || k == 10) text += '-';
    text += byte;
  }
  return text;
}

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

// Answers of one card; the first call that fails is kept.
class questions {
 public:
  questions(const driver_functions& cu, CUdevice card) : cu_(cu), card_(card) {}

  void note(CUresult r, const char* call) {
    if (r != CUDA_SUCCESS && failed_.empty())
      failed_ = std::string(call) + " failed with " + name_of(cu_, r);
  }
  std::uint32_t number(CUdevice_attribute which) {
    int value = 0;
    note(cu_.cuDeviceGetAttribute(&value, which, card_), "cuDeviceGetAttribute");
    return static_cast<std::uint32_t>(value);
  }
  // Of an attribute that older drivers may not know.
  bool offers(CUdevice_attribute which) {
    int value = 0;
    return cu_.cuDeviceGetAttribute(&value, which, card_) == CUDA_SUCCESS && value != 0;
  }
  const std::string& failed() const { return failed_; }

 private:
  const driver_functions& cu_;
  CUdevice card_;
  std::string failed_;
};

void describe(const driver& d, questions& ask, physical_device& p) {
  char name[256] = "";
  ask.note(d.functions.cuDeviceGetName(name, sizeof name, p.handle), "cuDeviceGetName");
  CUuuid uuid{};
  ask.note(d.functions.cuDeviceGetUuid(&uuid, p.handle), "cuDeviceGetUuid");
  std::size_t bytes = 0;
  ask.note(d.functions.cuDeviceTotalMem(&bytes, p.handle), "cuDeviceTotalMem");
  p.capability = static_cast<int>(10 * ask.number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                                  ask.number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  const std::string release = d.release.empty() ? "" : "NVIDIA driver " + d.release + ", ";
  p.info.kind = device_kind::cuda;
  p.info.name = "cuda:" + as_text(uuid);
  p.info.card = as_text(uuid);
  p.info.memory_bytes = bytes;
  // Tensor cores take 8 tokens at a time; of twice as many, weights are unpacked half as often.
  p.info.product_columns = 16;
  p.info.host_memory = ask.number(CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0;
  p.info.driver = release + "CUDA " + version_text(d.version) + ", sm_" +
                  std::to_string(p.capability) + ", " + name;
  p.info.description = std::string(name) + " (" + release + "CUDA " + version_text(d.version) +
                       ", compute capability " + capability_text(p.capability) + ")";
}

std::string unusable(const driver_functions& cu, const physical_device& p) {
  if (p.capability < oldest_capability)
    return "its compute capability is " + capability_text(p.capability) + "; " +
           capability_text(oldest_capability) + " or newer is needed";
  int mode = 0;
  if (cu.cuDeviceGetAttribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, p.handle) == CUDA_SUCCESS &&
      mode == CU_COMPUTEMODE_PROHIBITED)
    return "its compute mode is 'prohibited'; an administrator sets it with nvidia-smi -c DEFAULT";
  return "";
}

physical_device judge(const driver& d, int ordinal) {
  const driver_functions& cu = d.functions;
  physical_device p;
  const CUresult found = cu.cuDeviceGet(&p.handle, ordinal);
  questions ask(cu, p.handle);
  ask.note(found, "cuDeviceGet");
  describe(d, ask, p);
  p.most_threads = ask.number(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  p.most_groups_x = ask.number(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  p.most_groups_y = ask.number(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  p.most_shared_bytes = ask.number(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  p.mapped_by_hand = ask.offers(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  p.exportable = p.mapped_by_hand &&
                 ask.offers(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  if (p.mapped_by_hand) {
    const CUmemAllocationProp kind = memory_kind(p);
    ask.note(
        cu.cuMemGetAllocationGranularity(&p.granule, &kind, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
        "cuMemGetAllocationGranularity");
  }
  p.refused = ask.failed().empty() ? unusable(cu, p) : ask.failed();
  return p;
}

}  // namespace

CUmemAllocationProp memory_kind(const physical_device& p) {
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, p.handle};
  if (p.exportable) kind.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return kind;
}

std::vector<physical_device> survey(const driver& d) {
  int count = 0;
  if (d.functions.cuDeviceGetCount(&count) != CUDA_SUCCESS) count = 0;
  std::vector<physical_device> found;
  for (int k = 0; k < count; k++) found.push_back(judge(d, k));
  return found;
}

}  // namespace terrane::engine::cuda

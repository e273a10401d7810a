#include "engine/device/vulkan/physical.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>

namespace terrane::engine::vulkan {

namespace {

// Properties and features, each with its chain; not to be moved.
struct reported {
  VkPhysicalDeviceProperties2 properties{};
  VkPhysicalDeviceVulkan11Properties properties11{};
  VkPhysicalDeviceVulkan12Properties properties12{};
  VkPhysicalDeviceSubgroupSizeControlProperties subgroup{};
  VkPhysicalDeviceShaderIntegerDotProductProperties dot{};
  VkPhysicalDeviceFeatures2 features{};
  VkPhysicalDeviceVulkan11Features features11{};
  VkPhysicalDeviceVulkan12Features features12{};
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_features{};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot_features{};
  std::set<std::string> extensions;

  reported() = default;
  reported(const reported&) = delete;
  bool at_least(std::uint32_t version) const { return properties.properties.apiVersion >= version; }
  bool offers(std::uint32_t since, const char* extension) const {
    return at_least(since) || extensions.count(extension) != 0;
  }
};

template <class Struct>
void chain(void**& tail, Struct& s, VkStructureType type) {
  s.sType = type;
  *tail = &s;
  tail = &s.pNext;
}

void ask(const instance_functions& vk, VkPhysicalDevice device, reported& r) {
  std::uint32_t count = 0;
  vk.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  vk.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, extensions.data());
  for (const VkExtensionProperties& e : extensions) r.extensions.insert(e.extensionName);

  r.properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  r.features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  vk.vkGetPhysicalDeviceProperties2(device, &r.properties);
  if (!r.at_least(VK_API_VERSION_1_2)) return;
  void** properties = &r.properties.pNext;
  void** features = &r.features.pNext;
  chain(properties, r.properties11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
  chain(properties, r.properties12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES);
  chain(features, r.features11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
  chain(features, r.features12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  if (r.offers(VK_API_VERSION_1_3, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME)) {
    chain(properties, r.subgroup,
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
    chain(features, r.subgroup_features,
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
  }
  if (r.offers(VK_API_VERSION_1_3, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME)) {
    chain(properties, r.dot,
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES);
    chain(features, r.dot_features,
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES);
  }
  vk.vkGetPhysicalDeviceProperties2(device, &r.properties);
  vk.vkGetPhysicalDeviceFeatures2(device, &r.features);
}

std::string as_text(const std::uint8_t (&uuid)[VK_UUID_SIZE]) {
  std::string text;
  for (std::size_t k = 0; k < VK_UUID_SIZE; k++) {
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", uuid[k]);
    if (k == 4 || k == 6 || k == 8 || k == 10) text += '-';
    text += byte;
  }
  return text;
}

std::string as_text_version(std::uint32_t v) {
  return std::to_string(VK_API_VERSION_MAJOR(v)) + "." + std::to_string(VK_API_VERSION_MINOR(v));
}

void describe(const reported& r, device_info& info) {
  const VkPhysicalDeviceProperties& p = r.properties.properties;
  info.kind = device_kind::vulkan;
  info.host_memory = p.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
                     p.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  info.description = p.deviceName;
  if (!r.at_least(VK_API_VERSION_1_2)) {
    // Too old to name itself for good; it is refused under the name of its product.
    info.name = std::string("vulkan:") + p.deviceName;
    return;
  }
  std::string driver = std::string(r.properties12.driverName) + " " + r.properties12.driverInfo;
  info.name = "vulkan:" + as_text(r.properties11.deviceUUID);
  if (!info.host_memory) info.card = as_text(r.properties11.deviceUUID);
  // Many a device is called by its driver's name, which need not be told twice.
  const std::string_view of(r.properties12.driverName);
  const bool named = !of.empty() && info.description.starts_with(of);
  const std::string told = named ? std::string(r.properties12.driverInfo) : driver;
  if (!told.empty()) info.description += ", driver " + told;
  info.driver =
      driver + " " + as_text(r.properties11.driverUUID) + " " + std::to_string(p.driverVersion);
}

// What is missing, or nothing.
std::string missing(const reported& r) {
  const VkPhysicalDeviceProperties& p = r.properties.properties;
  if (!r.at_least(VK_API_VERSION_1_2))
    return "its driver offers Vulkan " + as_text_version(p.apiVersion) + "; 1.2 is needed";
  const struct {
    VkBool32 offered;
    const char* name;
  } needed[] = {{r.features.features.shaderInt64, "shaderInt64"},
                {r.features11.storageBuffer16BitAccess, "storageBuffer16BitAccess"},
                {r.features12.storageBuffer8BitAccess, "storageBuffer8BitAccess"},
                {r.features12.bufferDeviceAddress, "bufferDeviceAddress"},
                {r.features12.vulkanMemoryModel, "vulkanMemoryModel"},
                {r.features12.timelineSemaphore, "timelineSemaphore"}};
  std::string names;
  for (const auto& n : needed)
    if (!n.offered) names += (names.empty() ? "" : ", ") + std::string(n.name);
  if (!names.empty()) return "its driver does not offer " + names;
  constexpr std::uint32_t push_bytes = 8 * kernels::max_arguments;
  if (p.limits.maxPushConstantsSize < push_bytes)
    return "it takes " + std::to_string(p.limits.maxPushConstantsSize) +
           " bytes of push constants; " + std::to_string(push_bytes) + " are needed";
  return "";
}

void choose_code(const reported& r, physical_device& d) {
  const VkPhysicalDeviceProperties& p = r.properties.properties;
  const bool software = p.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  // Where widths are not independent, 16 and 64 bits would have to be declared too.
  d.code.float_controls =
      r.properties12.shaderRoundingModeRTEFloat32 &&
      r.properties12.shaderSignedZeroInfNanPreserveFloat32 &&
      r.properties12.roundingModeIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
  d.code.integer_dot = r.dot_features.shaderIntegerDotProduct &&
                       r.dot.integerDotProduct4x8BitPackedSignedAccelerated;
  d.portable_code.integer_dot = r.dot_features.shaderIntegerDotProduct;
  d.dot_product_extension = !r.at_least(VK_API_VERSION_1_3);
  d.code.fuse_exact = !software;
  d.code.unpack_half = true;  // unless the device shows that it does not
  // Other devices have not been measured with short distances.
  d.code.lavapipe = r.properties12.driverID == VK_DRIVER_ID_MESA_LLVMPIPE &&
                    r.features12.shaderSubgroupExtendedTypes;
  d.code.short_distances = d.code.lavapipe;

  const bool able =
      (r.properties11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
      (r.properties11.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) != 0 &&
      r.subgroup_features.subgroupSizeControl && r.subgroup_features.computeFullSubgroups;
  if (!able) return;
  const std::uint32_t least = r.subgroup.minSubgroupSize, most = r.subgroup.maxSubgroupSize;
  const bool settable = (r.subgroup.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  constexpr std::uint32_t wanted = kernels::warp_lanes;
  if (least == most) {
    d.code.subgroup_lanes = least;
  } else if (settable) {
    d.code.subgroup_lanes = std::clamp(wanted, least, most);
    d.size_subgroups = true;
  }
  // Other devices have not been measured with early loads.
  d.code.load_early =
      r.properties12.driverID == VK_DRIVER_ID_NVIDIA_PROPRIETARY && d.code.subgroup_lanes == wanted;
  d.subgroup_extension = !r.at_least(VK_API_VERSION_1_3);
}

// The step loop takes the first family that computes. Copies take a family that only transfers,
// else a second queue of the step loop's family, else share its queue.
bool choose_queues(const instance_functions& vk, physical_device& d) {
  std::uint32_t count = 0;
  vk.vkGetPhysicalDeviceQueueFamilyProperties(d.handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vk.vkGetPhysicalDeviceQueueFamilyProperties(d.handle, &count, families.data());
  std::optional<std::uint32_t> computes, transfers;
  for (std::uint32_t k = 0; k < count; k++) {
    VkQueueFlags flags = families[k].queueFlags;
    if ((flags & VK_QUEUE_COMPUTE_BIT) != 0 && !computes) computes = k;
    constexpr VkQueueFlags more =
        VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_VIDEO_DECODE_BIT_KHR;
    if ((flags & VK_QUEUE_TRANSFER_BIT) != 0 && (flags & more) == 0 && !transfers) transfers = k;
  }
  if (!computes) return false;
  d.step_family = *computes;
  d.copy_family = transfers.value_or(*computes);
  d.copy_index = !transfers && families[*computes].queueCount > 1 ? 1 : 0;
  return true;
}

std::optional<std::uint32_t> find_type(const VkPhysicalDeviceMemoryProperties& m,
                                       VkMemoryPropertyFlags flags,
                                       std::optional<std::uint32_t> heap) {
  for (std::uint32_t k = 0; k < m.memoryTypeCount; k++) {
    if ((m.memoryTypes[k].propertyFlags & flags) == flags &&
        (!heap || m.memoryTypes[k].heapIndex == *heap))
      return k;
  }
  return std::nullopt;
}

// The largest heap of the device's own. Where all of it is visible to the host, memory is mapped.
bool choose_memory(const instance_functions& vk, physical_device& d) {
  VkPhysicalDeviceMemoryProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  vk.vkGetPhysicalDeviceMemoryProperties2(d.handle, &properties);
  const VkPhysicalDeviceMemoryProperties& m = properties.memoryProperties;
  std::optional<std::uint32_t> heap;
  for (std::uint32_t k = 0; k < m.memoryHeapCount; k++) {
    if ((m.memoryHeaps[k].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0 &&
        (!heap || m.memoryHeaps[k].size > m.memoryHeaps[*heap].size))
      heap = k;
  }
  if (!heap) return false;
  d.heap = *heap;
  d.info.memory_bytes = m.memoryHeaps[*heap].size;
  constexpr VkMemoryPropertyFlags own = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  constexpr VkMemoryPropertyFlags host =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  constexpr VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  std::optional<std::uint32_t> quick = find_type(m, own | host | cached, heap);
  std::optional<std::uint32_t> visible = find_type(m, own | host, heap);
  std::optional<std::uint32_t> plain = find_type(m, own, heap);
  if (!plain) return false;
  d.quick_to_read = quick.has_value();
  d.memory = {quick ? *quick : visible ? *visible : *plain, visible.has_value(), false};
  d.exported = {*plain, false, true};
  std::optional<std::uint32_t> staging = find_type(m, host | cached, std::nullopt);
  d.staging_is_cached = staging.has_value();
  if (!staging) staging = find_type(m, host, std::nullopt);
  if (!staging) return false;
  d.staging = {*staging, true, false};
  return true;
}

// Memory of a card is exported to the other drivers of it as file descriptors. Only CUDA is known
// to import it, and exported memory is not mapped: other cards are better off without.
std::string why_no_export(const instance_functions& vk, const reported& r,
                          const physical_device& d) {
  if (r.properties12.driverID != VK_DRIVER_ID_NVIDIA_PROPRIETARY)
    return "no other driver of its card imports memory";
  if (r.extensions.count(VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME) == 0)
    return std::string("its Vulkan driver has no ") + VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME;
  VkPhysicalDeviceExternalBufferInfo asked{};
  asked.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO;
  asked.usage = arena_usage;
  asked.handleType = exported_handle;
  VkExternalBufferProperties offered{};
  offered.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES;
  vk.vkGetPhysicalDeviceExternalBufferProperties(d.handle, &asked, &offered);
  const VkExternalMemoryFeatureFlags features =
      offered.externalMemoryProperties.externalMemoryFeatures;
  const bool exports = (features & VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT) != 0,
             dedicated = (features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) != 0;
  return exports && !dedicated ? "" : "its Vulkan driver does not export buffers like these";
}

physical_device judge(const instance_functions& vk, VkPhysicalDevice handle) {
  reported r;
  ask(vk, handle, r);
  physical_device d;
  d.handle = handle;
  d.limits = r.properties.properties.limits;
  std::copy_n(r.properties.properties.pipelineCacheUUID, VK_UUID_SIZE, d.cache_uuid.begin());
  describe(r, d.info);
  d.refused = missing(r);
  if (!d.refused.empty()) return d;
  d.largest_allocation = r.properties11.maxMemoryAllocationSize;
  d.memory_budget = r.extensions.count(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) != 0;
  choose_code(r, d);
  if (!choose_queues(vk, d))
    d.refused = "it has no queue that computes";
  else if (!choose_memory(vk, d))
    d.refused = "it has no memory of its own that buffers may use";
  d.no_export = why_no_export(vk, r, d);
  return d;
}

}  // namespace

std::vector<physical_device> survey(const instance& i) {
  const instance_functions& vk = i.functions();
  std::uint32_t count = 0;
  vk.vkEnumeratePhysicalDevices(i.handle(), &count, nullptr);
  std::vector<VkPhysicalDevice> handles(count);
  if (vk.vkEnumeratePhysicalDevices(i.handle(), &count, handles.data()) < 0) count = 0;
  std::vector<physical_device> found;
  for (std::uint32_t k = 0; k < count; k++) {
    physical_device d = judge(vk, handles[k]);
    for (const physical_device& other : found)
      if (d.refused.empty() && other.refused.empty() && other.info.name == d.info.name)
        d.refused = "another driver offers the same device: " + other.info.description;
    found.push_back(std::move(d));
  }
  return found;
}

std::uint64_t used_by_everybody(const instance& i, const physical_device& p) {
  if (!p.memory_budget) return 0;
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
  budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
  VkPhysicalDeviceMemoryProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  properties.pNext = &budget;
  i.functions().vkGetPhysicalDeviceMemoryProperties2(p.handle, &properties);
  // The budget is what this process may have in all, so the rest of the heap is others'.
  std::uint64_t size = properties.memoryProperties.memoryHeaps[p.heap].size;
  std::uint64_t ours = budget.heapUsage[p.heap], allowed = budget.heapBudget[p.heap];
  return std::min(size, (size > allowed ? size - allowed : 0) + ours);
}

}  // namespace terrane::engine::vulkan

#include "engine/device/vulkan/loader.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include <dlfcn.h>

namespace terrane::engine::vulkan {

namespace {

constexpr const char* library = "libvulkan.so.1";
constexpr const char* validation_layer = "VK_LAYER_KHRONOS_validation";

// Opened once; drivers do not like to be unloaded.
PFN_vkGetInstanceProcAddr loader_entry() {
  static const auto entry = [] {
    void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void* symbol = opened == nullptr ? nullptr : dlsym(opened, "vkGetInstanceProcAddr");
    return reinterpret_cast<PFN_vkGetInstanceProcAddr>(symbol);
  }();
  return entry;
}

template <class Function>
bool resolve(PFN_vkVoidFunction found, Function& into) {
  into = reinterpret_cast<Function>(found);
  return found != nullptr;
}

bool has_layer(PFN_vkEnumerateInstanceLayerProperties enumerate, const char* name) {
  std::uint32_t count = 0;
  if (enumerate == nullptr || enumerate(&count, nullptr) != VK_SUCCESS) return false;
  std::vector<VkLayerProperties> layers(count);
  if (enumerate(&count, layers.data()) < 0) return false;
  return std::any_of(layers.begin(), layers.begin() + count, [&](const VkLayerProperties& l) {
    return std::strcmp(l.layerName, name) == 0;
  });
}

}  // namespace

result<std::shared_ptr<instance>> instance::create(bool validation) {
  PFN_vkGetInstanceProcAddr get = loader_entry();
  if (get == nullptr) {
    return fail(error_code::unsupported,
                std::string("the Vulkan loader ") + library +
                    " cannot be opened; install the libvulkan1 package and a GPU driver",
                "vulkan");
  }
  PFN_vkCreateInstance create = nullptr;
  PFN_vkEnumerateInstanceVersion version = nullptr;
  PFN_vkEnumerateInstanceLayerProperties layers = nullptr;
  resolve(get(nullptr, "vkCreateInstance"), create);
  resolve(get(nullptr, "vkEnumerateInstanceLayerProperties"), layers);
  std::uint32_t offered = VK_API_VERSION_1_0;
  if (resolve(get(nullptr, "vkEnumerateInstanceVersion"), version)) version(&offered);
  if (create == nullptr || offered < VK_API_VERSION_1_2)
    return fail(error_code::unsupported,
                std::string(library) + " is older than Vulkan 1.2; update libvulkan1", "vulkan");
  if (validation && !has_layer(layers, validation_layer)) {
    return fail(error_code::unsupported,
                std::string("validation was asked for, but the layer ") + validation_layer +
                    " is not installed (package vulkan-validationlayers)",
                "vulkan");
  }

  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "terrane";
  application.apiVersion = std::min<std::uint32_t>(offered, VK_API_VERSION_1_3);
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  info.enabledLayerCount = validation ? 1 : 0;
  info.ppEnabledLayerNames = &validation_layer;
  std::shared_ptr<instance> made(new instance);
  VkResult r = create(&info, nullptr, &made->handle_);
  if (r != VK_SUCCESS) {
    return fail(error_code::unsupported,
                "no Vulkan driver can be started (" + name_of(r) +
                    "); see VK_LOADER_DEBUG=all for the loader's reasons",
                "vulkan");
  }
  bool complete = true;
#define TERRANE_RESOLVE(name) complete &= resolve(get(made->handle_, #name), made->vk_.name);
  TERRANE_VULKAN_INSTANCE_FUNCTIONS(TERRANE_RESOLVE)
#undef TERRANE_RESOLVE
  if (!complete)
    return fail(error_code::unsupported, "the Vulkan loader lacks entry points of Vulkan 1.2",
                "vulkan");
  return made;
}

instance::~instance() {
  if (handle_ != VK_NULL_HANDLE && vk_.vkDestroyInstance != nullptr)
    vk_.vkDestroyInstance(handle_, nullptr);
}

result<device_functions> instance::functions_of(VkDevice device) const {
  device_functions functions;
  bool complete = true;
#define TERRANE_RESOLVE(name) \
  complete &= resolve(vk_.vkGetDeviceProcAddr(device, #name), functions.name);
  TERRANE_VULKAN_DEVICE_FUNCTIONS(TERRANE_RESOLVE)
#undef TERRANE_RESOLVE
  if (!complete)
    return fail(error_code::unsupported, "the Vulkan driver lacks entry points of Vulkan 1.2",
                "vulkan");
  resolve(vk_.vkGetDeviceProcAddr(device, "vkGetMemoryFdKHR"), functions.vkGetMemoryFdKHR);
  return functions;
}

std::string name_of(VkResult r) {
  switch (r) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST:
      return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED:
      return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT:
      return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS:
      return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_UNKNOWN:
      return "VK_ERROR_UNKNOWN";
    default:
      return "VkResult " + std::to_string(static_cast<int>(r));
  }
}

}  // namespace terrane::engine::vulkan

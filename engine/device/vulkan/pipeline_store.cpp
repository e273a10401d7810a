#include "engine/device/vulkan/pipeline_store.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <vector>

#include <unistd.h>

#include "kernels/spirv/emit_spirv.hpp"

namespace terrane::engine::vulkan {

namespace {

// The driver's cache is one entry of the code cache: of no program in particular.
kernels::code_key key_of(const physical_device& p) {
  std::string uuid;
  for (std::uint8_t byte : p.cache_uuid) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", byte);
    uuid += text;
  }
  return {"vulkan pipelines " + uuid + " " + p.info.driver, 0, 0};
}

}  // namespace

pipeline::~pipeline() { device_.functions().vkDestroyPipeline(device_.handle(), handle_, nullptr); }

result<std::unique_ptr<pipeline_store>> pipeline_store::open(logical_device& device,
                                                             const std::filesystem::path& folder) {
  std::unique_ptr<pipeline_store> made(new pipeline_store(device, folder));
  if (auto ok = made->prepare(); !ok) return tl::unexpected(ok.error());
  return made;
}

result<void> pipeline_store::prepare() {
  const device_functions& vk = device_.functions();
  VkPushConstantRange arguments{VK_SHADER_STAGE_COMPUTE_BIT, 0, 8 * kernels::max_arguments};
  VkPipelineLayoutCreateInfo layout{};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &arguments;
  if (auto ok =
          device_.check(vk.vkCreatePipelineLayout(device_.handle(), &layout, nullptr, &layout_),
                        "vkCreatePipelineLayout");
      !ok)
    return ok;
  std::vector<std::byte> data =
      disk_.get(key_of(device_.physical())).value_or(std::vector<std::byte>{});
  VkPipelineCacheCreateInfo cache{};
  cache.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  cache.initialDataSize = data.size();
  cache.pInitialData = data.data();
  saved_bytes_ = data.size();
  return device_.check(vk.vkCreatePipelineCache(device_.handle(), &cache, nullptr, &cache_),
                       "vkCreatePipelineCache");
}

pipeline_store::~pipeline_store() {
  const device_functions& vk = device_.functions();
  pipelines_.clear();
  vk.vkDestroyPipelineCache(device_.handle(), cache_, nullptr);
  vk.vkDestroyPipelineLayout(device_.handle(), layout_, nullptr);
}

result<const pipeline*> pipeline_store::get(const kernels::program& p) {
  if (auto whole = device_.fault(); !whole) return tl::unexpected(whole.error());
  const std::uint64_t key = kernels::fingerprint(p);
  {
    std::lock_guard lock(access_);
    if (auto found = pipelines_.find(key); found != pipelines_.end()) return found->second.get();
  }
  if (auto fits = check_limits(p); !fits) return tl::unexpected(fits.error());
  result<VkPipeline> compiled = compile(p);
  if (!compiled) return tl::unexpected(compiled.error());
  auto made = std::make_unique<pipeline>(device_, *compiled);
  if (auto ready = warm_up(*compiled); !ready) return tl::unexpected(ready.error());
  const pipeline* kept = nullptr;
  {
    // Another thread may have been quicker; then this one's work goes.
    std::lock_guard lock(access_);
    kept = pipelines_.try_emplace(key, std::move(made)).first->second.get();
  }
  save();
  return kept;
}

result<void> pipeline_store::check_limits(const kernels::program& p) const {
  const physical_device& d = device_.physical();
  auto refuse = [&](const char* what, std::uint32_t wanted, std::uint32_t offered) {
    return fail(error_code::unsupported,
                "kernel '" + p.name + "' wants " + std::to_string(wanted) + " " + what +
                    "; the device offers " + std::to_string(offered),
                d.info.name);
  };
  std::uint32_t shared = kernels::spirv_shared_bytes(p, d.code);
  if (shared > d.limits.maxComputeSharedMemorySize)
    return refuse("bytes of shared memory", shared, d.limits.maxComputeSharedMemorySize);
  auto lanes = static_cast<std::uint32_t>(kernels::warp_lanes * p.warps);
  std::uint32_t most =
      std::min(d.limits.maxComputeWorkGroupInvocations, d.limits.maxComputeWorkGroupSize[0]);
  if (lanes > most) return refuse("lanes in a workgroup", lanes, most);
  return {};
}

result<VkPipeline> pipeline_store::compile(const kernels::program& p) {
  const device_functions& vk = device_.functions();
  const physical_device& d = device_.physical();
  std::vector<std::uint32_t> code = kernels::emit_spirv(p, d.code);
  VkShaderModuleCreateInfo source{};
  source.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  source.codeSize = 4 * code.size();
  source.pCode = code.data();
  VkShaderModule module = VK_NULL_HANDLE;
  if (auto ok = device_.check(vk.vkCreateShaderModule(device_.handle(), &source, nullptr, &module),
                              "vkCreateShaderModule");
      !ok)
    return tl::unexpected(ok.error());

  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size{};
  size.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
  size.requiredSubgroupSize = d.code.subgroup_lanes;
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.layout = layout_;
  auto lanes = static_cast<std::uint32_t>(kernels::warp_lanes * p.warps);
  if (d.size_subgroups && d.code.subgroup_lanes != 0) info.stage.pNext = &size;
  if (d.code.subgroup_lanes != 0 && lanes % d.code.subgroup_lanes == 0)
    info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  VkPipeline made = VK_NULL_HANDLE;
  VkResult r = vk.vkCreateComputePipelines(device_.handle(), cache_, 1, &info, nullptr, &made);
  vk.vkDestroyShaderModule(device_.handle(), module, nullptr);
  if (auto ok = device_.check(r, "vkCreateComputePipelines"); !ok)
    return tl::unexpected(
        error{ok.error().code, "kernel '" + p.name + "': " + ok.error().message, ok.error().where});
  return made;
}

// Some drivers (lavapipe) finish a pipeline when it first runs. A run of no workgroups does that
// now instead of in a step.
result<void> pipeline_store::warm_up(VkPipeline made) {
  const device_functions& vk = device_.functions();
  VkDevice d = device_.handle();
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.queueFamilyIndex = device_.physical().step_family;
  VkCommandPool commands = VK_NULL_HANDLE;
  if (auto ok = device_.check(vk.vkCreateCommandPool(d, &pool, nullptr, &commands),
                              "vkCreateCommandPool");
      !ok)
    return ok;
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = commands;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  VkCommandBuffer run = VK_NULL_HANDLE;
  result<void> ok =
      device_.check(vk.vkAllocateCommandBuffers(d, &info, &run), "vkAllocateCommandBuffers");
  if (ok) ok = device_.check(vk.vkBeginCommandBuffer(run, &begin), "vkBeginCommandBuffer");
  if (ok) {
    const std::array<std::uint64_t, kernels::max_arguments> none{};
    vk.vkCmdBindPipeline(run, VK_PIPELINE_BIND_POINT_COMPUTE, made);
    vk.vkCmdPushConstants(run, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof none, none.data());
    vk.vkCmdDispatch(run, 0, 0, 0);
    ok = device_.check(vk.vkEndCommandBuffer(run), "vkEndCommandBuffer");
  }
  if (ok) {
    result<std::uint64_t> number = device_.steps().submit(run);
    ok = number ? device_.steps().wait(*number) : tl::unexpected(number.error());
  }
  vk.vkDestroyCommandPool(d, commands, nullptr);
  return ok;
}

// After each new pipeline, so that a killed daemon keeps what it compiled. A cache that did not
// grow holds nothing new.
void pipeline_store::save() {
  if (disk_.folder().empty()) return;
  std::lock_guard lock(saving_);
  const device_functions& vk = device_.functions();
  std::size_t bytes = 0;
  if (vk.vkGetPipelineCacheData(device_.handle(), cache_, &bytes, nullptr) != VK_SUCCESS) return;
  if (bytes <= saved_bytes_) return;
  std::vector<std::byte> data(bytes);
  if (vk.vkGetPipelineCacheData(device_.handle(), cache_, &bytes, data.data()) != VK_SUCCESS)
    return;
  data.resize(bytes);
  disk_.put(key_of(device_.physical()), data);
  saved_bytes_ = bytes;
}

}  // namespace terrane::engine::vulkan

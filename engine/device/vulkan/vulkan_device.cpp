#include "engine/device/vulkan/vulkan_device.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "engine/device/host_copies.hpp"
#include "engine/device/shared_memory.hpp"
#include "engine/device/vulkan/copier.hpp"
#include "engine/device/vulkan/half_probe.hpp"
#include "engine/device/vulkan/pipeline_store.hpp"

namespace terrane::engine {

namespace vulkan {
namespace {

// Where command buffers come from. Vulkan wants one thread at a time in it, also while a buffer is
// recorded; the step loop, moves that prepare and whoever frees an old plan meet here.
struct list_pool {
  VkCommandPool handle = VK_NULL_HANDLE;
  std::mutex access;
};

// A command buffer that may be submitted again before its last run has ended.
class recorded_list : public command_list {
 public:
  recorded_list(logical_device& device, list_pool& pool) : device_(device), pool_(pool) {}
  ~recorded_list() override {
    (void)device_.steps().wait(last_run);
    std::lock_guard lock(pool_.access);
    if (commands != VK_NULL_HANDLE)
      device_.functions().vkFreeCommandBuffers(device_.handle(), pool_.handle, 1, &commands);
  }
  VkCommandBuffer commands = VK_NULL_HANDLE;
  std::uint64_t last_run = 0;
  std::vector<const pipeline*> pipelines;  // each once

 private:
  logical_device& device_;
  list_pool& pool_;
};

class gpu : public device, public copies_many, public exports_memory {
 public:
  static result<std::unique_ptr<device>> open(std::shared_ptr<instance> i, const physical_device& p,
                                              const vulkan_options& options);
  ~gpu() override;

  result<const device_kernel*> compile(const kernels::program& p) override;
  result<std::unique_ptr<command_list>> record(std::span<const dispatch> phases) override;
  result<void> submit(command_list& list) override;
  result<void> wait() override { return device_->steps().wait(device_->steps().last()); }
  result<void> write(device_memory& to, std::size_t offset,
                     std::span<const std::byte> from) override;
  result<void> read(const device_memory& from, std::size_t offset,
                    std::span<std::byte> to) override;
  result<void> read_many(std::span<const host_range> ranges, host_copier& by) override;
  result<void> write_many(std::span<const host_range> ranges, host_copier& by) override;
  const std::string& no_export() const override { return no_export_; }
  result<std::uint64_t> address_elsewhere(const device_memory& of,
                                          const map_exported& map) override {
    if (auto whole = device_->fault(); !whole) return tl::unexpected(whole.error());
    return pool_.address_elsewhere(of.address(), map);
  }
  std::uint64_t driver_used_bytes() const override {
    return used_by_everybody(device_->owner(), device_->physical());
  }
  std::optional<error> lost() const override {
    const result<void> whole = device_->fault();
    return whole ? std::nullopt : std::optional(whole.error());
  }
  void trim() override { pool_.trim(); }
  result<std::unique_ptr<device_memory>> allocate_results(std::size_t bytes) override;

 protected:
  result<std::unique_ptr<device_memory>> allocate_memory(std::size_t bytes,
                                                         memory_use use) override {
    return pool_.allocate(bytes, exports(use));
  }
  std::unique_ptr<device_memory> take_kept(std::size_t bytes, memory_use use,
                                           std::uint64_t content) override {
    return pool_.take_kept(bytes, content, exports(use));
  }

 private:
  explicit gpu(std::unique_ptr<logical_device> opened)
      : device(opened->physical().info),
        device_(std::move(opened)),
        pool_(*device_),
        copier_(*device_, pool_),
        no_export_(device_->physical().no_export) {
    if (no_export_.empty()) try_export();
    keeps_memory(true);
  }
  // What this process writes in each step need not be seen elsewhere, and is mapped.
  bool exports(memory_use use) const { return no_export_.empty() && use != memory_use::staging; }
  void try_export();
  result<void> prepare(const vulkan_options& options);
  result<void> check_phases(std::span<const dispatch> phases) const;
  result<void> check_range(const device_memory& m, std::size_t offset, std::size_t bytes) const;
  void record_phases(VkCommandBuffer commands, std::span<const dispatch> phases) const;

  std::unique_ptr<logical_device> device_;
  arena_pool pool_;
  copier copier_;
  std::unique_ptr<pipeline_store> pipelines_;
  list_pool lists_;
  std::string no_export_;
};

result<std::unique_ptr<device>> gpu::open(std::shared_ptr<instance> i, const physical_device& p,
                                          const vulkan_options& options) {
  auto opened = logical_device::open(std::move(i), p);
  if (!opened) return tl::unexpected(opened.error());
  std::unique_ptr<gpu> made(new gpu(std::move(*opened)));
  if (auto ok = made->prepare(options); !ok) return tl::unexpected(ok.error());
  return made;
}

// Of which kinds a driver exports memory is known once it is asked to allocate some. A card that is
// full now says nothing about it.
void gpu::try_export() {
  if (device_->functions().vkGetMemoryFdKHR == nullptr) {
    no_export_ = "its Vulkan driver lacks vkGetMemoryFdKHR";
    return;
  }
  const auto made = pool_.allocate(1, true);
  if (!made && made.error().code != error_code::no_room) no_export_ = made.error().message;
}

result<void> gpu::prepare(const vulkan_options& options) {
  auto pipelines = pipeline_store::open(*device_, options.cache_folder);
  if (!pipelines) return tl::unexpected(pipelines.error());
  pipelines_ = std::move(*pipelines);
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.queueFamilyIndex = device_->physical().step_family;
  return device_->check(
      device_->functions().vkCreateCommandPool(device_->handle(), &pool, nullptr, &lists_.handle),
      "vkCreateCommandPool");
}

gpu::~gpu() {
  keeps_memory(false);
  device_->functions().vkDeviceWaitIdle(device_->handle());
  if (lists_.handle != VK_NULL_HANDLE)
    device_->functions().vkDestroyCommandPool(device_->handle(), lists_.handle, nullptr);
}

// An arena by itself, where this process reads at its own speed.
class host_arena : public device_memory {
 public:
  explicit host_arena(std::unique_ptr<arena> memory)
      : device_memory(memory->address(), memory->bytes(), memory->host()),
        memory_(std::move(memory)) {}

 private:
  std::unique_ptr<arena> memory_;
};

result<std::unique_ptr<device_memory>> gpu::allocate_results(std::size_t bytes) {
  const physical_device& p = device_->physical();
  if (p.quick_to_read || !p.staging_is_cached) return device::allocate_results(bytes);
  auto made = arena::create(*device_, bytes, p.staging);
  if (!made) return device::allocate_results(bytes);  // not every driver lets kernels write there
  std::memset((*made)->host(), 0, bytes);
  return std::make_unique<host_arena>(std::move(*made));
}

result<const device_kernel*> gpu::compile(const kernels::program& p) { return pipelines_->get(p); }

result<void> gpu::check_phases(std::span<const dispatch> phases) const {
  const auto& most = device_->physical().limits.maxComputeWorkGroupCount;
  for (const dispatch& d : phases) {
    if (d.groups_x > most[0] || d.groups_y > most[1]) {
      return fail(error_code::unsupported,
                  "a grid of " + std::to_string(d.groups_x) + " by " + std::to_string(d.groups_y) +
                      " workgroups is larger than the device's " + std::to_string(most[0]) +
                      " by " + std::to_string(most[1]),
                  info().name);
    }
  }
  return {};
}

result<std::unique_ptr<command_list>> gpu::record(std::span<const dispatch> phases) {
  if (auto whole = device_->fault(); !whole) return tl::unexpected(whole.error());
  if (auto fits = check_phases(phases); !fits) return tl::unexpected(fits.error());
  const device_functions& vk = device_->functions();
  auto list = std::make_unique<recorded_list>(*device_, lists_);
  std::lock_guard lock(lists_.access);  // let go before a list that failed locks it to go
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = lists_.handle;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  if (auto ok =
          device_->check(vk.vkAllocateCommandBuffers(device_->handle(), &info, &list->commands),
                         "vkAllocateCommandBuffers");
      !ok)
    return tl::unexpected(ok.error());
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  if (auto ok =
          device_->check(vk.vkBeginCommandBuffer(list->commands, &begin), "vkBeginCommandBuffer");
      !ok)
    return tl::unexpected(ok.error());
  record_phases(list->commands, phases);
  if (auto ok = device_->check(vk.vkEndCommandBuffer(list->commands), "vkEndCommandBuffer"); !ok)
    return tl::unexpected(ok.error());
  list->launches = static_cast<std::uint32_t>(phases.size());
  std::set<const pipeline*> used;
  for (const dispatch& d : phases) used.insert(static_cast<const pipeline*>(d.kernel));
  list->pipelines.assign(used.begin(), used.end());
  list->is_warm = std::ranges::all_of(used, &pipeline::ran);
  return list;
}

// A barrier before each phase orders it after the one before, and the first after the last list;
// one at the end shows the results to copies and to the host.
void gpu::record_phases(VkCommandBuffer commands, std::span<const dispatch> phases) const {
  const device_functions& vk = device_->functions();
  auto order = [&](VkPipelineStageFlags after, VkAccessFlags written, VkPipelineStageFlags before,
                   VkAccessFlags used) {
    VkMemoryBarrier barrier{};
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = written;
    barrier.dstAccessMask = used;
    vk.vkCmdPipelineBarrier(commands, after, before, 0, 1, &barrier, 0, nullptr, 0, nullptr);
  };
  constexpr VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  constexpr VkPipelineStageFlags transfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
  constexpr VkAccessFlags both = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
  const pipeline* bound = nullptr;
  for (const dispatch& d : phases) {
    if (bound == nullptr)
      order(compute | transfer, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, compute,
            both);
    else
      order(compute, VK_ACCESS_SHADER_WRITE_BIT, compute, both);
    auto* kernel = static_cast<const pipeline*>(d.kernel);
    if (kernel != bound)
      vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->handle());
    bound = kernel;
    vk.vkCmdPushConstants(commands, pipelines_->layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                          sizeof d.arguments, d.arguments.data());
    vk.vkCmdDispatch(commands, d.groups_x, d.groups_y, 1);
  }
  order(compute, VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT | transfer,
        VK_ACCESS_HOST_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
}

result<void> gpu::submit(command_list& list) {
  auto& recorded = static_cast<recorded_list&>(list);
  result<std::uint64_t> number = device_->steps().submit(recorded.commands);
  if (!number) return tl::unexpected(number.error());
  if (recorded.last_run == 0)
    for (const pipeline* p : recorded.pipelines) p->set_ran();
  recorded.last_run = *number;
  count_launches(list.launches);
  return {};
}

result<void> gpu::check_range(const device_memory& m, std::size_t offset, std::size_t bytes) const {
  if (auto whole = device_->fault(); !whole) return whole;
  if (offset > m.bytes() || bytes > m.bytes() - offset) {
    return fail(error_code::invalid_input,
                "a copy of " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                    " leaves a piece of " + std::to_string(m.bytes()),
                info().name);
  }
  return {};
}

result<void> gpu::write(device_memory& to, std::size_t offset, std::span<const std::byte> from) {
  if (auto ok = check_range(to, offset, from.size()); !ok || from.empty()) return ok;
  std::byte* mapped = pool_.find(to.address()).mapped;
  if (mapped == nullptr) return copier_.write(to.address() + offset, from);
  std::memcpy(mapped + offset, from.data(), from.size());
  return {};
}

// Mapped memory that is not cached is slow to read a word at a time; the device copies it quicker.
result<void> gpu::read(const device_memory& from, std::size_t offset, std::span<std::byte> to) {
  if (auto ok = check_range(from, offset, to.size()); !ok || to.empty()) return ok;
  if (from.host() == nullptr) return copier_.read(from.address() + offset, to);
  std::memcpy(to.data(), from.host() + offset, to.size());
  return {};
}

result<void> gpu::read_many(std::span<const host_range> ranges, host_copier& by) {
  if (auto whole = device_->fault(); !whole) return whole;
  return copier_.copy(ranges, false, by);
}

result<void> gpu::write_many(std::span<const host_range> ranges, host_copier& by) {
  if (auto whole = device_->fault(); !whole) return whole;
  std::vector<host_range> staged;
  std::vector<host_copy> reachable;
  for (const host_range& r : ranges) {
    if (std::byte* mapped = pool_.find(r.address).mapped)
      reachable.push_back({mapped, r.host, r.bytes});
    else
      staged.push_back(r);
  }
  by.copy(reachable);
  return staged.empty() ? result<void>{} : copier_.copy(staged, true, by);
}

// With code as quick as the device shows that it can take.
result<std::unique_ptr<device>> open_probed(const std::shared_ptr<instance>& i, physical_device p,
                                            const vulkan_options& options) {
  auto opened = gpu::open(i, p, options);
  if (!opened || !p.code.unpack_half) return opened;
  const result<bool> exact = halves_are_exact(**opened);
  if (!exact && exact.error().code == error_code::device_fault)
    return tl::unexpected(exact.error());
  if (exact && *exact) return opened;
  opened->reset();
  p.code.unpack_half = false;
  return gpu::open(i, p, options);
}

}  // namespace
}  // namespace vulkan

result<std::vector<vulkan_candidate>> list_vulkan_devices(const vulkan_options& options) {
  auto i = vulkan::instance::create(options.validation);
  if (!i) return tl::unexpected(i.error());
  std::vector<vulkan_candidate> found;
  for (const vulkan::physical_device& p : vulkan::survey(**i)) found.push_back({p.info, p.refused});
  return found;
}

result<std::unique_ptr<device>> open_vulkan_device(const std::string& name,
                                                   const vulkan_options& options) {
  auto i = vulkan::instance::create(options.validation);
  if (!i) return tl::unexpected(i.error());
  std::string refused, others;
  for (vulkan::physical_device& p : vulkan::survey(**i)) {
    others += (others.empty() ? "" : ", ") + p.info.name;
    if (p.info.name != name) continue;
    if (options.portable_code) p.code = p.portable_code;
    if (options.load_early) p.code.load_early = true;
    if (p.refused.empty()) return vulkan::open_probed(*i, p, options);
    refused = p.refused;
  }
  if (!refused.empty())
    return fail(error_code::unsupported, "the device cannot be used: " + refused, name);
  return fail(error_code::not_found,
              "no Vulkan driver offers this device; there is " +
                  (others.empty() ? std::string("none") : others),
              name);
}

}  // namespace terrane::engine

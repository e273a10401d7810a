#include "engine/device/vulkan/copier.hpp"

#include <algorithm>
#include <cstring>

namespace terrane::engine::vulkan {

namespace {

constexpr std::uint64_t half_bytes = 4u << 20;

}  // namespace

copier::~copier() {
  for (half& h : halves_) (void)device_.copies().wait(h.number);
  if (commands_ != VK_NULL_HANDLE)
    device_.functions().vkDestroyCommandPool(device_.handle(), commands_, nullptr);
}

// Staging is made by the first copy: a device whose memory is mapped never needs it.
result<void> copier::prepare() {
  if (staging_ != nullptr) return {};
  const device_functions& vk = device_.functions();
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = device_.physical().copy_family;
  if (commands_ == VK_NULL_HANDLE) {
    if (auto ok =
            device_.check(vk.vkCreateCommandPool(device_.handle(), &pool, nullptr, &commands_),
                          "vkCreateCommandPool");
        !ok)
      return ok;
  }
  for (half& h : halves_) {
    if (h.commands != VK_NULL_HANDLE) continue;
    VkCommandBufferAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    info.commandPool = commands_;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    if (auto ok = device_.check(vk.vkAllocateCommandBuffers(device_.handle(), &info, &h.commands),
                                "vkAllocateCommandBuffers");
        !ok)
      return ok;
  }
  auto staging = arena::create(device_, 2 * half_bytes, device_.physical().staging);
  if (!staging) return tl::unexpected(staging.error());
  staging_ = std::move(*staging);
  return {};
}

std::uint64_t copier::offset_of(const half& h) const { return &h == &halves_[0] ? 0 : half_bytes; }

result<void> copier::send(half& h, std::span<const piece> pieces, bool to_device) {
  const device_functions& vk = device_.functions();
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  if (auto ok = device_.check(vk.vkBeginCommandBuffer(h.commands, &begin), "vkBeginCommandBuffer");
      !ok)
    return ok;
  for (const piece& p : pieces) {
    arena_pool::place place = pool_.find(p.address);
    VkBuffer staging = staging_->buffer();
    std::uint64_t staged = staging_->offset() + offset_of(h) + p.staged;
    VkBufferCopy range{to_device ? staged : place.offset, to_device ? place.offset : staged,
                       p.bytes};
    vk.vkCmdCopyBuffer(h.commands, to_device ? staging : place.buffer,
                       to_device ? place.buffer : staging, 1, &range);
  }
  // Complete on return means: seen by the host, and by any later work on any queue.
  VkMemoryBarrier seen{};
  seen.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  seen.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  seen.dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_MEMORY_READ_BIT;
  vk.vkCmdPipelineBarrier(h.commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                          VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1,
                          &seen, 0, nullptr, 0, nullptr);
  if (auto ok = device_.check(vk.vkEndCommandBuffer(h.commands), "vkEndCommandBuffer"); !ok)
    return ok;
  result<std::uint64_t> number = device_.copies().submit(h.commands);
  if (!number) return tl::unexpected(number.error());
  h.number = *number;
  return {};
}

result<void> copier::finish(half& h, host_copier& by) {
  result<void> ended = device_.copies().wait(h.number);
  std::vector<host_copy> copies;
  std::size_t at = 0;
  for (std::span<std::byte> into : h.into) {
    copies.push_back({into.data(), staging_->host() + offset_of(h) + at, into.size()});
    at += into.size();
  }
  if (ended) by.copy(copies);
  h.into.clear();
  return ended;
}

result<void> copier::write(std::uint64_t address, std::span<const std::byte> from) {
  // Only read from.
  const host_range all{address, const_cast<std::byte*>(from.data()), from.size()};
  return copy({&all, 1}, true, copier_of_caller());
}

result<void> copier::copy(std::span<const host_range> ranges, bool to_device, host_copier& by) {
  std::lock_guard lock(access_);
  if (auto ok = prepare(); !ok) return ok;
  result<void> outcome;
  host_range left = ranges.empty() ? host_range{} : ranges.front();
  for (std::size_t turn = 0; !ranges.empty() && outcome; turn++) {
    half& h = halves_[turn % 2];
    if (outcome = finish(h, by); !outcome) break;
    std::vector<piece> pieces;
    std::vector<host_copy> filling;
    std::uint64_t staged = 0;
    while (!ranges.empty() && staged < half_bytes) {
      const std::size_t bytes = std::min<std::size_t>(left.bytes, half_bytes - staged);
      pieces.push_back({left.address, staged, bytes});
      if (to_device)
        filling.push_back({staging_->host() + offset_of(h) + staged, left.host, bytes});
      else
        h.into.emplace_back(left.host, bytes);
      staged += bytes;
      left = {left.address + bytes, left.host + bytes, left.bytes - bytes};
      if (left.bytes != 0) continue;
      ranges = ranges.subspan(1);
      if (!ranges.empty()) left = ranges.front();
    }
    by.copy(filling);
    outcome = send(h, pieces, to_device);
    if (!outcome) h.into.clear();
  }
  // Also after a failure: nothing may be brought into the caller's memory later.
  for (half& h : halves_)
    if (result<void> ended = finish(h, by); !ended && outcome) outcome = ended;
  return outcome;
}

}  // namespace terrane::engine::vulkan

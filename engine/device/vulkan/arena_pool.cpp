#include "engine/device/vulkan/arena_pool.hpp"

#include <algorithm>
#include <cassert>

namespace terrane::engine::vulkan {

namespace {

constexpr std::uint64_t piece_alignment = 256;
constexpr std::uint64_t arena_granule = 64u << 10;
constexpr std::uint64_t shared_arena_bytes = 16u << 20;
constexpr std::uint64_t largest_piece = 1u << 20;  // more gets an arena of its own

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

result<std::unique_ptr<arena>> arena::create(logical_device& device, std::uint64_t bytes,
                                             std::uint32_t memory_type, bool mapped) {
  const physical_device& p = device.physical();
  if (bytes > p.largest_allocation) {
    return fail(error_code::no_room,
                "the driver allocates at most " + std::to_string(p.largest_allocation) +
                    " bytes at once; " + std::to_string(bytes) + " were asked for",
                p.info.name);
  }
  std::unique_ptr<arena> made(new arena(device));
  result<void> filled = made->fill(bytes, memory_type, mapped);
  if (!filled) {
    error e = filled.error();
    e.message += " (for " + std::to_string(bytes) + " bytes)";
    return tl::unexpected(e);
  }
  return made;
}

result<void> arena::fill(std::uint64_t bytes, std::uint32_t memory_type, bool mapped) {
  const device_functions& vk = device_.functions();
  const physical_device& p = device_.physical();
  const std::uint32_t families[] = {p.step_family, p.copy_family};
  const bool two = families[0] != families[1];
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes + piece_alignment;  // some drivers align buffers by less
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
               VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  info.sharingMode = two ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE;
  info.queueFamilyIndexCount = two ? 2 : 0;
  info.pQueueFamilyIndices = families;
  VkDevice d = device_.handle();
  if (auto ok = device_.check(vk.vkCreateBuffer(d, &info, nullptr, &buffer_), "vkCreateBuffer");
      !ok)
    return ok;
  VkMemoryRequirements needs{};
  vk.vkGetBufferMemoryRequirements(d, buffer_, &needs);

  if ((needs.memoryTypeBits >> memory_type & 1U) == 0) {
    return fail(error_code::unsupported, "the driver does not let kernels use this kind of memory",
                p.info.name);
  }

  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo request{};
  request.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  request.pNext = &flags;
  request.allocationSize = needs.size;
  request.memoryTypeIndex = memory_type;
  if (auto ok =
          device_.check(vk.vkAllocateMemory(d, &request, nullptr, &memory_), "vkAllocateMemory");
      !ok)
    return ok;
  if (auto ok = device_.check(vk.vkBindBufferMemory(d, buffer_, memory_, 0), "vkBindBufferMemory");
      !ok)
    return ok;
  if (mapped) {
    void* host = nullptr;
    if (auto ok =
            device_.check(vk.vkMapMemory(d, memory_, 0, VK_WHOLE_SIZE, 0, &host), "vkMapMemory");
        !ok)
      return ok;
    host_ = static_cast<std::byte*>(host);
  }
  VkBufferDeviceAddressInfo which{};
  which.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  which.buffer = buffer_;
  std::uint64_t start = vk.vkGetBufferDeviceAddress(d, &which);
  address_ = round_up(start, piece_alignment);
  offset_ = address_ - start;
  bytes_ = bytes;
  if (host_ != nullptr) host_ += offset_;
  return {};
}

arena::~arena() {
  const device_functions& vk = device_.functions();
  vk.vkDestroyBuffer(device_.handle(), buffer_, nullptr);
  vk.vkFreeMemory(device_.handle(), memory_, nullptr);
}

// Bytes of an arena; goes back to the pool, which outlives it.
class arena_pool::piece : public device_memory {
 public:
  piece(arena_pool& pool, std::uint64_t address, std::uint64_t bytes, std::byte* host)
      : device_memory(address, bytes, host), pool_(pool) {}
  ~piece() override { pool_.give_back(address(), bytes(), content()); }

 private:
  arena_pool& pool_;
};

arena_pool::~arena_pool() { assert(arenas_.empty() && "a device outlives its memory"); }

result<std::unique_ptr<device_memory>> arena_pool::allocate(std::uint64_t bytes) {
  if (result<void> whole = device_.fault(); !whole) return tl::unexpected(whole.error());
  bytes = round_up(std::max<std::uint64_t>(bytes, 1), piece_alignment);
  std::lock_guard lock(access_);
  if (bytes > largest_piece) return own_arena(bytes);
  for (auto& [address, a] : arenas_)
    if (std::unique_ptr<device_memory> found = cut(a, bytes)) return found;
  result<std::unique_ptr<arena>> made = new_arena(shared_arena_bytes);
  if (!made) {
    // Where a whole arena finds no room, the piece alone may.
    if (made.error().code == error_code::no_room) return own_arena(bytes);
    return tl::unexpected(made.error());
  }
  std::uint64_t address = (*made)->address();
  shared_arena made_arena{std::move(*made), gaps(shared_arena_bytes)};
  return cut(arenas_.emplace(address, std::move(made_arena)).first->second, bytes);
}

std::uint64_t arena_pool::arena_bytes(std::uint64_t bytes) const {
  const std::uint64_t whole = bytes > largest_piece ? round_up(bytes, arena_granule) : bytes;
  // The last part of the rounding is not worth a refusal.
  return whole > device_.physical().largest_allocation ? bytes : whole;
}

// One that is kept, if there is one of this size, else from the driver.
result<std::unique_ptr<arena>> arena_pool::new_arena(std::uint64_t bytes) {
  if (std::unique_ptr<arena> kept = kept_.take(bytes, 0)) return kept;
  const physical_device& p = device_.physical();
  auto made = arena::create(device_, bytes, p.memory_type, p.mapped);
  if (made || made.error().code != error_code::no_room || !kept_.trim()) return made;
  return arena::create(device_, bytes, p.memory_type, p.mapped);
}

std::unique_ptr<device_memory> arena_pool::give_out(std::unique_ptr<arena> whole) {
  const std::uint64_t address = whole->address(), bytes = whole->bytes();
  std::byte* host = readable(whole->host());
  arenas_.emplace(address, shared_arena{std::move(whole), gaps::none(bytes)});
  return std::make_unique<piece>(*this, address, bytes, host);
}

result<std::unique_ptr<device_memory>> arena_pool::own_arena(std::uint64_t bytes) {
  result<std::unique_ptr<arena>> made = new_arena(arena_bytes(bytes));
  if (!made) return tl::unexpected(made.error());
  return give_out(std::move(*made));
}

std::unique_ptr<device_memory> arena_pool::take_kept(std::uint64_t bytes, std::uint64_t content) {
  if (!device_.fault()) return nullptr;
  std::lock_guard lock(access_);
  std::unique_ptr<arena> memory =
      kept_.take(arena_bytes(round_up(bytes, piece_alignment)), content);
  if (memory == nullptr) return nullptr;
  std::unique_ptr<device_memory> out = give_out(std::move(memory));
  out->set_content(content);
  return out;
}

// Null if no gap is large enough.
std::unique_ptr<device_memory> arena_pool::cut(shared_arena& a, std::uint64_t bytes) {
  std::optional<std::uint64_t> offset = a.free.take(bytes);
  if (!offset) return nullptr;
  std::byte* host = readable(a.memory->host());
  return std::make_unique<piece>(*this, a.memory->address() + *offset, bytes,
                                 host == nullptr ? nullptr : host + *offset);
}

// Memory of a card may be mapped through its bus, where writing is quick, but reading takes a
// microsecond a word: nobody else is to know of it.
std::byte* arena_pool::readable(std::byte* mapped) const {
  return device_.physical().quick_to_read ? mapped : nullptr;
}

void arena_pool::give_back(std::uint64_t address, std::uint64_t bytes, std::uint64_t content) {
  std::lock_guard lock(access_);
  auto at = std::prev(arenas_.upper_bound(address));
  shared_arena& a = at->second;
  const bool whole = bytes == a.memory->bytes();
  a.free.give_back(address - at->first, bytes);
  if (!a.free.all_free()) return;
  kept_.keep(std::move(a.memory), whole ? content : 0);
  arenas_.erase(at);
}

arena_pool::place arena_pool::find(std::uint64_t address) const {
  std::lock_guard lock(access_);
  auto at = std::prev(arenas_.upper_bound(address));
  const arena& a = *at->second.memory;
  const std::uint64_t within = address - at->first;
  return {a.buffer(), a.offset() + within, a.host() == nullptr ? nullptr : a.host() + within};
}

std::size_t arena_pool::arenas() const {
  std::lock_guard lock(access_);
  return arenas_.size();
}

}  // namespace terrane::engine::vulkan

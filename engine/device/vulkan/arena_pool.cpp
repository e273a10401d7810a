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
                                             const arena_kind& kind) {
  const physical_device& p = device.physical();
  if (bytes > p.largest_allocation) {
    return fail(error_code::no_room,
                "the driver allocates at most " + std::to_string(p.largest_allocation) +
                    " bytes at once; " + std::to_string(bytes) + " were asked for",
                p.info.name);
  }
  std::unique_ptr<arena> made(new arena(device, kind));
  result<void> filled = made->fill(bytes);
  if (!filled) {
    error e = filled.error();
    e.message += " (for " + std::to_string(bytes) + " bytes)";
    return tl::unexpected(e);
  }
  return made;
}

result<void> arena::fill(std::uint64_t bytes) {
  const device_functions& vk = device_.functions();
  const physical_device& p = device_.physical();
  const std::uint32_t families[] = {p.step_family, p.copy_family};
  const bool two = families[0] != families[1];
  VkExternalMemoryBufferCreateInfo outside{};
  outside.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO;
  outside.handleTypes = exported_handle;
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  if (kind_.exported) info.pNext = &outside;
  info.size = bytes + piece_alignment;  // some drivers align buffers by less
  info.usage = arena_usage;
  info.sharingMode = two ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE;
  info.queueFamilyIndexCount = two ? 2 : 0;
  info.pQueueFamilyIndices = families;
  VkDevice d = device_.handle();
  result<void> ok = device_.check(vk.vkCreateBuffer(d, &info, nullptr, &buffer_), "vkCreateBuffer");
  if (!ok) return ok;
  VkMemoryRequirements needs{};
  vk.vkGetBufferMemoryRequirements(d, buffer_, &needs);
  ok = allocate(needs);
  if (ok) ok = device_.check(vk.vkBindBufferMemory(d, buffer_, memory_, 0), "vkBindBufferMemory");
  void* host = nullptr;
  if (ok && kind_.mapped)
    ok = device_.check(vk.vkMapMemory(d, memory_, 0, VK_WHOLE_SIZE, 0, &host), "vkMapMemory");
  if (!ok) return ok;
  VkBufferDeviceAddressInfo which{};
  which.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  which.buffer = buffer_;
  const std::uint64_t start = vk.vkGetBufferDeviceAddress(d, &which);
  address_ = round_up(start, piece_alignment);
  offset_ = address_ - start;
  bytes_ = bytes;
  if (host != nullptr) host_ = static_cast<std::byte*>(host) + offset_;
  return {};
}

result<void> arena::allocate(const VkMemoryRequirements& needs) {
  const device_functions& vk = device_.functions();
  if ((needs.memoryTypeBits >> kind_.memory_type & 1U) == 0) {
    return fail(error_code::unsupported, "the driver does not let kernels use this kind of memory",
                device_.physical().info.name);
  }
  VkExportMemoryAllocateInfo handles{};
  handles.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO;
  handles.handleTypes = exported_handle;
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  if (kind_.exported) flags.pNext = &handles;
  VkMemoryAllocateInfo request{};
  request.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  request.pNext = &flags;
  request.allocationSize = needs.size;
  request.memoryTypeIndex = kind_.memory_type;
  allocated_ = needs.size;
  return device_.check(vk.vkAllocateMemory(device_.handle(), &request, nullptr, &memory_),
                       "vkAllocateMemory");
}

result<std::uint64_t> arena::address_elsewhere(const map_exported& map) {
  if (!kind_.exported)
    return fail(error_code::unsupported, "this memory is not exported",
                device_.physical().info.name);
  const std::lock_guard lock(mapping_);
  if (elsewhere_ != nullptr && elsewhere_->is_open()) return elsewhere_->address() + offset_;
  const device_functions& vk = device_.functions();
  VkMemoryGetFdInfoKHR which{};
  which.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR;
  which.memory = memory_;
  which.handleType = exported_handle;
  int descriptor = -1;
  const VkResult r = vk.vkGetMemoryFdKHR(device_.handle(), &which, &descriptor);
  if (result<void> ok = device_.check(r, "vkGetMemoryFdKHR"); !ok)
    return tl::unexpected(ok.error());
  result<std::unique_ptr<foreign_mapping>> mapped = map(descriptor, allocated_);
  if (!mapped) return tl::unexpected(mapped.error());
  elsewhere_ = std::move(*mapped);
  return elsewhere_->address() + offset_;
}

arena::~arena() {
  elsewhere_.reset();
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

result<std::unique_ptr<device_memory>> arena_pool::allocate(std::uint64_t bytes, bool exported) {
  if (result<void> whole = device_.fault(); !whole) return tl::unexpected(whole.error());
  bytes = round_up(std::max<std::uint64_t>(bytes, 1), piece_alignment);
  std::lock_guard lock(access_);
  if (bytes > largest_piece) return own_arena(bytes, exported);
  for (auto& [address, a] : arenas_) {
    if (a.memory->kind().exported != exported) continue;
    if (std::unique_ptr<device_memory> found = cut(a, bytes)) return found;
  }
  result<std::unique_ptr<arena>> made = new_arena(shared_arena_bytes, exported);
  if (!made) {
    // Where a whole arena finds no room, the piece alone may.
    if (made.error().code == error_code::no_room) return own_arena(bytes, exported);
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
result<std::unique_ptr<arena>> arena_pool::new_arena(std::uint64_t bytes, bool exported) {
  if (std::unique_ptr<arena> unused = kept(exported).take(bytes, 0)) return unused;
  const physical_device& p = device_.physical();
  const arena_kind& kind = exported ? p.exported : p.memory;
  auto made = arena::create(device_, bytes, kind);
  if (made || made.error().code != error_code::no_room || !trim()) return made;
  return arena::create(device_, bytes, kind);
}

bool arena_pool::trim() {
  const bool plain = kept_.trim(), exported = kept_exported_.trim();
  return plain || exported;
}

std::unique_ptr<device_memory> arena_pool::give_out(std::unique_ptr<arena> whole) {
  const std::uint64_t address = whole->address(), bytes = whole->bytes();
  std::byte* host = readable(whole->host());
  arenas_.emplace(address, shared_arena{std::move(whole), gaps::none(bytes)});
  return std::make_unique<piece>(*this, address, bytes, host);
}

result<std::unique_ptr<device_memory>> arena_pool::own_arena(std::uint64_t bytes, bool exported) {
  result<std::unique_ptr<arena>> made = new_arena(arena_bytes(bytes), exported);
  if (!made) return tl::unexpected(made.error());
  return give_out(std::move(*made));
}

std::unique_ptr<device_memory> arena_pool::take_kept(std::uint64_t bytes, std::uint64_t content,
                                                     bool exported) {
  if (!device_.fault()) return nullptr;
  std::lock_guard lock(access_);
  std::unique_ptr<arena> memory =
      kept(exported).take(arena_bytes(round_up(bytes, piece_alignment)), content);
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
  kept(a.memory->kind().exported).keep(std::move(a.memory), whole ? content : 0);
  arenas_.erase(at);
}

arena_pool::place arena_pool::find(std::uint64_t address) const {
  std::lock_guard lock(access_);
  auto at = std::prev(arenas_.upper_bound(address));
  const arena& a = *at->second.memory;
  const std::uint64_t within = address - at->first;
  return {a.buffer(), a.offset() + within, a.host() == nullptr ? nullptr : a.host() + within};
}

result<std::uint64_t> arena_pool::address_elsewhere(std::uint64_t address,
                                                    const map_exported& map) const {
  arena* around = nullptr;
  std::uint64_t within = 0;
  {
    std::lock_guard lock(access_);
    auto at = std::prev(arenas_.upper_bound(address));
    around = at->second.memory.get();
    within = address - at->first;
  }
  result<std::uint64_t> start = around->address_elsewhere(map);
  return start ? *start + within : start;
}

std::size_t arena_pool::arenas() const {
  std::lock_guard lock(access_);
  return arenas_.size();
}

}  // namespace terrane::engine::vulkan

#include "engine/device/cuda/arena_pool.hpp"

#include <algorithm>
#include <cassert>

namespace terrane::engine::cuda {

namespace {

constexpr std::uint64_t piece_alignment = 256;
constexpr std::uint64_t shared_arena_bytes = 16u << 20;
constexpr std::uint64_t largest_piece = 1u << 20;  // more gets an arena of its own

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

result<std::unique_ptr<arena>> arena::create(const context& card, std::uint64_t bytes) {
  std::unique_ptr<arena> made(new arena(card));
  if (result<void> filled = made->fill(bytes); !filled) {
    error e = filled.error();
    e.message += " (for " + std::to_string(bytes) + " bytes)";
    return tl::unexpected<error>(e);
  }
  return made;
}

result<void> arena::fill(std::uint64_t bytes) {
  bytes_ = bytes;
  const driver_functions& cu = card_.functions();
  const physical_device& p = card_.physical();
  if (!p.mapped_by_hand) {
    CUdeviceptr at = 0;
    result<void> ok = card_.check(cu.cuMemAlloc(&at, bytes), "cuMemAlloc");
    if (ok) address_ = at;
    return ok;
  }
  bytes_ = round_up(bytes, p.granule);
  const CUmemAllocationProp kind = memory_kind(p);
  result<void> ok = card_.check(cu.cuMemCreate(&memory_, bytes_, &kind, 0), "cuMemCreate");
  if (!ok) return ok;
  created_ = true;
  return map();
}

result<void> arena::map() {
  const driver_functions& cu = card_.functions();
  CUdeviceptr at = 0;
  result<void> ok = card_.check(cu.cuMemAddressReserve(&at, bytes_, card_.physical().granule, 0, 0),
                                "cuMemAddressReserve");
  if (!ok) return ok;
  address_ = at;
  ok = card_.check(cu.cuMemMap(at, bytes_, 0, memory_, 0), "cuMemMap");
  if (!ok) return ok;
  mapped_ = true;
  return let_in(card_.physical());
}

result<void> arena::let_in(const physical_device& other) {
  if (!mapped_ || let_in_.count(other.handle) != 0) return {};
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, other.handle};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const CUresult r = card_.functions().cuMemSetAccess(address_, bytes_, &access, 1);
  const bool own = other.handle == card_.physical().handle;
  result<void> ok =
      own ? card_.check(r, "cuMemSetAccess") : card_.check_refusal(r, "cuMemSetAccess");
  if (ok) let_in_.insert(other.handle);
  return ok;
}

arena::~arena() {
  const driver_functions& cu = card_.functions();
  (void)cu.cuCtxSetCurrent(card_.handle());
  if (!created_) {
    if (address_ != 0) (void)cu.cuMemFree(address_);
    return;
  }
  if (mapped_) (void)cu.cuMemUnmap(address_, bytes_);
  if (address_ != 0) (void)cu.cuMemAddressFree(address_, bytes_);
  (void)cu.cuMemRelease(memory_);
}

// Bytes of an arena; goes back to the pool, which outlives it.
class arena_pool::piece : public device_memory {
 public:
  piece(arena_pool& pool, std::uint64_t address, std::uint64_t bytes)
      : device_memory(address, bytes, nullptr), pool_(pool) {}
  ~piece() override { pool_.give_back(address(), bytes(), content()); }

 private:
  arena_pool& pool_;
};

arena_pool::~arena_pool() { assert(arenas_.empty() && "a device outlives its memory"); }

result<std::unique_ptr<device_memory>> arena_pool::allocate(std::uint64_t bytes) {
  if (result<void> ready = card_.enter(); !ready) return tl::unexpected<error>(ready.error());
  bytes = round_up(std::max<std::uint64_t>(bytes, 1), piece_alignment);
  std::lock_guard lock(access_);
  if (bytes > largest_piece) return own_arena(bytes);
  for (auto& [address, a] : arenas_)
    if (std::unique_ptr<device_memory> found = cut(a, bytes)) return found;
  result<std::unique_ptr<arena>> made = new_arena(shared_arena_bytes);
  if (!made) {
    // Where a whole arena finds no room, the piece alone may.
    if (made.error().code == error_code::no_room) return own_arena(bytes);
    return tl::unexpected<error>(made.error());
  }
  const std::uint64_t address = (*made)->address(), whole = (*made)->bytes();
  shared_arena made_arena{std::move(*made), gaps(whole)};
  return cut(arenas_.emplace(address, std::move(made_arena)).first->second, bytes);
}

std::uint64_t arena_pool::arena_bytes(std::uint64_t bytes) const {
  const physical_device& p = card_.physical();
  return p.mapped_by_hand ? round_up(bytes, p.granule) : bytes;
}

// One that is kept, if there is one of this size, else from the driver.
result<std::unique_ptr<arena>> arena_pool::new_arena(std::uint64_t bytes) {
  if (std::unique_ptr<arena> kept = kept_.take(arena_bytes(bytes), 0)) return kept;
  result<std::unique_ptr<arena>> made = arena::create(card_, bytes);
  if (made || made.error().code != error_code::no_room || !kept_.trim()) return made;
  return arena::create(card_, bytes);
}

std::unique_ptr<device_memory> arena_pool::give_out(std::unique_ptr<arena> whole) {
  const std::uint64_t address = whole->address(), bytes = whole->bytes();
  arenas_.emplace(address, shared_arena{std::move(whole), gaps::none(bytes)});
  return std::make_unique<piece>(*this, address, bytes);
}

result<std::unique_ptr<device_memory>> arena_pool::own_arena(std::uint64_t bytes) {
  result<std::unique_ptr<arena>> made = new_arena(bytes);
  if (!made) return tl::unexpected<error>(made.error());
  return give_out(std::move(*made));
}

std::unique_ptr<device_memory> arena_pool::take_kept(std::uint64_t bytes, std::uint64_t content) {
  if (!card_.enter()) return nullptr;
  std::lock_guard lock(access_);
  std::unique_ptr<arena> memory = kept_.take(arena_bytes(bytes), content);
  if (memory == nullptr) return nullptr;
  std::unique_ptr<device_memory> out = give_out(std::move(memory));
  out->set_content(content);
  return out;
}

// Null if no gap is large enough.
std::unique_ptr<device_memory> arena_pool::cut(shared_arena& a, std::uint64_t bytes) {
  std::optional<std::uint64_t> offset = a.free.take(bytes);
  if (!offset) return nullptr;
  return std::make_unique<piece>(*this, a.memory->address() + *offset, bytes);
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

result<void> arena_pool::let_in(std::uint64_t address, const physical_device& other) {
  std::lock_guard lock(access_);
  return std::prev(arenas_.upper_bound(address))->second.memory->let_in(other);
}

std::size_t arena_pool::arenas() const {
  std::lock_guard lock(access_);
  return arenas_.size();
}

}  // namespace terrane::engine::cuda

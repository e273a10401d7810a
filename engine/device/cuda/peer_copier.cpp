#include "engine/device/cuda/peer_copier.hpp"

#include <algorithm>
#include <vector>

namespace terrane::engine::cuda {

namespace {

constexpr std::size_t few_bytes = std::size_t{16} << 20;
constexpr std::size_t probe_bytes = (std::size_t{1} << 20) + 4096;

std::vector<std::byte> noise(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> out(bytes);
  std::uint32_t state = seed;
  for (std::byte& b : out) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<std::byte>(state >> 24);
  }
  return out;
}

}  // namespace

peer_copier::~peer_copier() {
  const driver_functions& cu = here_.card.functions();
  (void)cu.cuCtxSetCurrent(here_.card.handle());
  for (lane* l : {&few_, &many_}) {
    if (l->stream != nullptr) {
      (void)cu.cuStreamSynchronize(l->stream);
      (void)cu.cuStreamDestroy(l->stream);
    }
    if (l->copied != nullptr) (void)cu.cuEventDestroy(l->copied);
  }
}

const std::string& peer_copier::no_path(const card_parts& from) {
  const std::string& name = from.card.physical().info.name;
  std::lock_guard lock(probing_);
  if (auto known = no_path_.find(name); known != no_path_.end()) return known->second;
  result<void> ok = probe(from);
  // A card that is full now need not be so for ever.
  static const std::string full = "a card has no room to try it";
  if (!ok && ok.error().code == error_code::no_room) return full;
  return no_path_.emplace(name, ok ? "" : to_string(ok.error())).first->second;
}

result<void> peer_copier::probe(const card_parts& from) {
  const driver_functions& cu = here_.card.functions();
  const physical_device &here = here_.card.physical(), &there = from.card.physical();
  int reachable = 1;
  if (here.handle != there.handle &&
      cu.cuDeviceCanAccessPeer(&reachable, here.handle, there.handle) != CUDA_SUCCESS)
    reachable = 0;
  if (reachable == 0)
    return fail(error_code::unsupported, "the driver has no peer access between these cards",
                there.info.name);
  result<std::unique_ptr<device_memory>> source = from.pool.allocate(probe_bytes);
  if (!source) return tl::unexpected<error>(source.error());
  result<std::unique_ptr<device_memory>> target = here_.pool.allocate(probe_bytes);
  if (!target) return tl::unexpected<error>(target.error());
  const std::vector<std::byte> sent = noise(probe_bytes, 1);
  std::vector<std::byte> arrived = noise(probe_bytes, 2);
  result<void> ok = from.host_copies.write((*source)->address(), sent);
  if (ok) ok = here_.host_copies.write((*target)->address(), arrived);
  const copy_range whole{source->get(), 0, target->get(), 0, probe_bytes};
  if (ok) ok = copy(from, {&whole, 1});
  if (ok) ok = here_.host_copies.read((*target)->address(), arrived);
  if (ok && arrived != sent)
    ok = fail(error_code::contract, "what was copied from the other card did not arrive whole",
              there.info.name);
  return ok;
}

result<void> peer_copier::prepare(lane& l) {
  if (l.copied != nullptr) return {};
  if (l.stream == nullptr) {
    result<CUstream> stream = here_.card.make_stream(&l == &few_);
    if (!stream) return tl::unexpected<error>(stream.error());
    l.stream = *stream;
  }
  result<CUevent> event = here_.card.make_event();
  if (!event) return tl::unexpected<error>(event.error());
  l.copied = *event;
  return {};
}

result<void> peer_copier::enqueue(lane& l, const card_parts& from, std::uint64_t to,
                                  std::uint64_t source, std::size_t bytes) {
  constexpr const char* call = "cuMemcpyPeerAsync";
  const CUresult r = here_.card.functions().cuMemcpyPeerAsync(to, here_.card.handle(), source,
                                                              from.card.handle(), bytes, l.stream);
  if (r == CUDA_SUCCESS) return {};
  // A card that is gone must not take the one along that its memory was to go to.
  const bool source_answers = from.card.answers(), target_answers = here_.card.answers();
  const context& at_fault = !source_answers && target_answers ? from.card : here_.card;
  return at_fault.check_refusal(r, call);
}

result<void> peer_copier::copy(const card_parts& from, std::span<const copy_range> ranges) {
  std::size_t bytes = 0;
  for (const copy_range& r : ranges) bytes += r.bytes;
  lane& l = bytes <= few_bytes ? few_ : many_;
  std::lock_guard lock(l.access);
  result<void> ok = from.card.enter();
  for (const copy_range& r : ranges)
    if (ok) ok = from.pool.let_in(r.from->address(), here_.card.physical());
  if (ok) ok = here_.card.enter();
  if (ok) ok = prepare(l);
  for (const copy_range& r : ranges) {
    if (ok && r.bytes != 0)
      ok = enqueue(l, from, r.to->address() + r.to_offset, r.from->address() + r.from_offset,
                   r.bytes);
  }
  // What was enqueued is waited for even if the rest was refused: its memory may go otherwise.
  result<void> ended;
  if (l.copied != nullptr)
    ended =
        here_.card.check(here_.card.functions().cuEventRecord(l.copied, l.stream), "cuEventRecord");
  if (ended && l.copied != nullptr) ended = here_.card.wait(l.copied);
  return ok ? ended : ok;
}

}  // namespace terrane::engine::cuda

#include "engine/device/cuda/copier.hpp"

#include <algorithm>
#include <cstring>

namespace terrane::engine::cuda {

copier::~copier() {
  const driver_functions& cu = card_.functions();
  (void)cu.cuCtxSetCurrent(card_.handle());
  for (lane& l : lanes_) {
    if (l.stream != nullptr) {
      (void)cu.cuStreamSynchronize(l.stream);
      (void)cu.cuStreamDestroy(l.stream);
    }
    for (half& h : l.halves)
      if (h.copied != nullptr) (void)cu.cuEventDestroy(h.copied);
    if (l.staging != nullptr) (void)cu.cuMemFreeHost(l.staging);
  }
}

// A lane that nobody uses; where all are in use, the first one when it is free.
std::unique_lock<std::mutex> copier::take(lane*& free) {
  for (lane& l : lanes_) {
    if (std::unique_lock held(l.access, std::try_to_lock); held) {
      free = &l;
      return held;
    }
  }
  free = &lanes_.front();
  return std::unique_lock(free->access);
}

// A lane is made by its first copy. The calling thread may have been at work on another card.
result<void> copier::prepare(lane& l) {
  if (result<void> ready = card_.enter(); !ready) return ready;
  if (l.halves.back().staging != nullptr) return {};
  if (l.stream == nullptr) {
    result<CUstream> stream = card_.make_stream(false);
    if (!stream) return tl::unexpected<error>(stream.error());
    l.stream = *stream;
  }
  for (half& h : l.halves) {
    if (h.copied != nullptr) continue;
    result<CUevent> event = card_.make_event();
    if (!event) return tl::unexpected<error>(event.error());
    h.copied = *event;
  }
  void* pinned = nullptr;
  result<void> ok =
      card_.check(card_.functions().cuMemHostAlloc(&pinned, 2 * half_bytes, 0), "cuMemHostAlloc");
  if (!ok) return ok;
  l.staging = static_cast<std::byte*>(pinned);
  l.halves[0].staging = l.staging;
  l.halves[1].staging = l.staging + half_bytes;
  return {};
}

// Where each range of a half lies in it, as a copy into or out of it.
std::vector<host_copy> copier::staged(const half& h, bool to_card) {
  std::vector<host_copy> copies;
  std::byte* at = h.staging;
  for (const host_range& r : h.ranges) {
    copies.push_back(to_card ? host_copy{at, r.host, r.bytes} : host_copy{r.host, at, r.bytes});
    at += r.bytes;
  }
  return copies;
}

// Has the card copy all that is in a half, or is to come into it.
result<void> copier::send(lane& l, half& h, bool to_card, host_copier& by) {
  if (h.ranges.empty()) return {};
  const driver_functions& cu = card_.functions();
  if (to_card) by.copy(staged(h, to_card));
  std::byte* at = h.staging;
  result<void> ok;
  for (const host_range& r : h.ranges) {
    if (ok && to_card)
      ok = card_.check(cu.cuMemcpyHtoDAsync(r.address, at, r.bytes, l.stream), "cuMemcpyHtoDAsync");
    else if (ok)
      ok = card_.check(cu.cuMemcpyDtoHAsync(at, r.address, r.bytes, l.stream), "cuMemcpyDtoHAsync");
    at += r.bytes;
  }
  result<void> recorded = card_.check(cu.cuEventRecord(h.copied, l.stream), "cuEventRecord");
  h.sent = true;
  if (ok) ok = recorded;
  if (!ok) h.ranges.clear();  // nothing is brought of a half that may not have come whole
  return ok;
}

// Until a half may be used again; brings what was read into it, unless something went wrong.
result<void> copier::finish(half& h, bool to_card, host_copier& by) {
  result<void> ok;
  if (h.sent) ok = card_.wait(h.copied);
  if (h.sent && ok && !to_card) by.copy(staged(h, to_card));
  h.ranges.clear();
  h.used = 0;
  h.sent = false;
  return ok;
}

result<void> copier::copy(std::span<const host_range> ranges, bool to_card, host_copier& by) {
  lane* l = nullptr;
  std::unique_lock held = take(l);
  result<void> ok = prepare(*l);
  if (!ok) return ok;
  std::size_t turn = 0;
  for (host_range left : ranges) {
    while (ok && left.bytes > 0) {
      half* h = &l->halves[turn % 2];
      if (h->used == half_bytes) {
        ok = send(*l, *h, to_card, by);
        h = &l->halves[++turn % 2];
        if (ok) ok = finish(*h, to_card, by);
        if (!ok) break;
      }
      const host_range now{left.address, left.host, std::min(half_bytes - h->used, left.bytes)};
      h->ranges.push_back(now);
      h->used += now.bytes;
      left = {left.address + now.bytes, left.host + now.bytes, left.bytes - now.bytes};
    }
  }
  if (ok) ok = send(*l, l->halves[turn % 2], to_card, by);
  // Also after a failure: nothing may be brought into the caller's memory later.
  for (std::size_t k : {turn + 1, turn}) {  // the older first
    result<void> ended = finish(l->halves[k % 2], to_card, by);
    if (ok && !ended) ok = ended;
  }
  return ok;
}

result<void> copier::write(std::uint64_t address, std::span<const std::byte> from) {
  const host_range all{address, const_cast<std::byte*>(from.data()), from.size()};
  return copy({&all, 1}, true, copier_of_caller());
}

result<void> copier::read(std::uint64_t address, std::span<std::byte> to) {
  const host_range all{address, to.data(), to.size()};
  return copy({&all, 1}, false, copier_of_caller());
}

}  // namespace terrane::engine::cuda

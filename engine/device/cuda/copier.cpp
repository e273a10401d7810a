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

// Bytes that have room in a half.
result<void> copier::add(lane& l, half& h, const host_range& range, bool to_card) {
  const driver_functions& cu = card_.functions();
  std::byte* staged = h.staging + h.used;
  result<void> ok;
  if (to_card) {
    std::memcpy(staged, range.host, range.bytes);
    ok = card_.check(cu.cuMemcpyHtoDAsync(range.address, staged, range.bytes, l.stream),
                     "cuMemcpyHtoDAsync");
  } else {
    ok = card_.check(cu.cuMemcpyDtoHAsync(staged, range.address, range.bytes, l.stream),
                     "cuMemcpyDtoHAsync");
    if (ok) h.into.emplace_back(range.host, range.bytes);
  }
  h.used += range.bytes;
  h.busy = true;
  return ok;
}

result<void> copier::send(lane& l, half& h) {
  if (!h.busy) return {};
  return card_.check(card_.functions().cuEventRecord(h.copied, l.stream), "cuEventRecord");
}

// Until a half may be used again; brings what was read into it.
result<void> copier::finish(half& h) {
  if (!h.busy) return {};
  h.busy = false;
  result<void> ok = card_.wait(h.copied);
  std::size_t at = 0;
  for (std::span<std::byte> into : h.into) {
    if (ok) std::memcpy(into.data(), h.staging + at, into.size());
    at += into.size();
  }
  h.into.clear();
  h.used = 0;
  return ok;
}

result<void> copier::copy(std::span<const host_range> ranges, bool to_card) {
  lane* l = nullptr;
  std::unique_lock held = take(l);
  result<void> ok = prepare(*l);
  if (!ok) return ok;
  std::size_t turn = 0;
  for (host_range left : ranges) {
    while (ok && left.bytes > 0) {
      half* h = &l->halves[turn % 2];
      if (h->used == half_bytes) {
        ok = send(*l, *h);
        h = &l->halves[++turn % 2];
        if (ok) ok = finish(*h);
        if (!ok) break;
      }
      const host_range now{left.address, left.host, std::min(half_bytes - h->used, left.bytes)};
      ok = add(*l, *h, now, to_card);
      left = {left.address + now.bytes, left.host + now.bytes, left.bytes - now.bytes};
    }
  }
  // Also after a failure: nothing may be brought into the caller's memory later.
  result<void> sent = send(*l, l->halves[turn % 2]);
  if (ok && !sent) ok = sent;
  for (std::size_t k : {turn + 1, turn}) {  // the older first
    result<void> ended = finish(l->halves[k % 2]);
    if (ok && !ended) ok = ended;
  }
  return ok;
}

result<void> copier::write(std::uint64_t address, std::span<const std::byte> from) {
  const host_range all{address, const_cast<std::byte*>(from.data()), from.size()};
  return copy({&all, 1}, true);
}

result<void> copier::read(std::uint64_t address, std::span<std::byte> to) {
  const host_range all{address, to.data(), to.size()};
  return copy({&all, 1}, false);
}

}  // namespace terrane::engine::cuda

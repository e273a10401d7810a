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

result<void> copier::copy(lane& l, half& h, std::uint64_t address, std::size_t bytes,
                          bool to_card) {
  const driver_functions& cu = card_.functions();
  result<void> ok = to_card ? card_.check(cu.cuMemcpyHtoDAsync(address, h.staging, bytes, l.stream),
                                          "cuMemcpyHtoDAsync")
                            : card_.check(cu.cuMemcpyDtoHAsync(h.staging, address, bytes, l.stream),
                                          "cuMemcpyDtoHAsync");
  if (ok) ok = card_.check(cu.cuEventRecord(h.copied, l.stream), "cuEventRecord");
  h.busy = ok.has_value();
  return ok;
}

// Until a half may be used again; brings what was read into it.
result<void> copier::finish(half& h) {
  if (!h.busy) return {};
  h.busy = false;
  result<void> ok = card_.wait(h.copied);
  if (ok && !h.into.empty()) std::memcpy(h.into.data(), h.staging, h.into.size());
  h.into = {};
  return ok;
}

result<void> copier::finish_both(lane& l, result<void> so_far) {
  for (half& h : l.halves) {
    result<void> ok = finish(h);
    if (so_far && !ok) so_far = ok;
  }
  return so_far;
}

result<void> copier::write(std::uint64_t address, std::span<const std::byte> from) {
  lane* l = nullptr;
  std::unique_lock held = take(l);
  result<void> ok = prepare(*l);
  if (!ok) return ok;
  for (std::size_t done = 0, turn = 0; ok && done < from.size(); turn++) {
    half& h = l->halves[turn % 2];
    const std::size_t now = std::min(half_bytes, from.size() - done);
    ok = finish(h);
    if (!ok) break;
    std::memcpy(h.staging, from.data() + done, now);
    ok = copy(*l, h, address + done, now, true);
    done += now;
  }
  return finish_both(*l, ok);
}

result<void> copier::read(std::uint64_t address, std::span<std::byte> to) {
  lane* l = nullptr;
  std::unique_lock held = take(l);
  result<void> ok = prepare(*l);
  if (!ok) return ok;
  for (std::size_t done = 0, turn = 0; ok && done < to.size(); turn++) {
    half& h = l->halves[turn % 2];
    const std::size_t now = std::min(half_bytes, to.size() - done);
    ok = finish(h);
    if (!ok) break;
    ok = copy(*l, h, address + done, now, false);
    if (ok) h.into = to.subspan(done, now);
    done += now;
  }
  return finish_both(*l, ok);
}

}  // namespace terrane::engine::cuda

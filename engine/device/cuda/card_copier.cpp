#include "engine/device/cuda/card_copier.hpp"

namespace terrane::engine::cuda {

namespace {

constexpr std::size_t few_bytes = std::size_t{16} << 20;

}  // namespace

card_copier::~card_copier() {
  const driver_functions& cu = here_.functions();
  (void)cu.cuCtxSetCurrent(here_.handle());
  for (lane* l : {&few_, &many_}) {
    if (l->stream != nullptr) {
      (void)cu.cuStreamSynchronize(l->stream);
      (void)cu.cuStreamDestroy(l->stream);
    }
    if (l->copied != nullptr) (void)cu.cuEventDestroy(l->copied);
  }
}

result<void> card_copier::prepare(lane& l) {
  if (l.copied != nullptr) return {};
  if (l.stream == nullptr) {
    result<CUstream> stream = here_.make_stream(&l == &few_);
    if (!stream) return tl::unexpected<error>(stream.error());
    l.stream = *stream;
  }
  result<CUevent> event = here_.make_event();
  if (!event) return tl::unexpected<error>(event.error());
  l.copied = *event;
  return {};
}

result<void> card_copier::enqueue(lane& l, const context& from, const card_range& r) {
  constexpr const char* call = "cuMemcpyPeerAsync";
  const CUresult got = here_.functions().cuMemcpyPeerAsync(r.to, here_.handle(), r.from,
                                                           from.handle(), r.bytes, l.stream);
  if (got == CUDA_SUCCESS) return {};
  // A card that is gone must not take the one along that its memory was to go to.
  const bool source_answers = from.answers(), target_answers = here_.answers();
  const context& at_fault = !source_answers && target_answers ? from : here_;
  return at_fault.check_refusal(got, call);
}

result<void> card_copier::copy(const context& from, std::span<const card_range> ranges) {
  std::size_t bytes = 0;
  for (const card_range& r : ranges) bytes += r.bytes;
  lane& l = bytes <= few_bytes ? few_ : many_;
  std::lock_guard lock(l.access);
  result<void> ok = here_.enter();
  if (ok) ok = prepare(l);
  for (const card_range& r : ranges)
    if (ok && r.bytes != 0) ok = enqueue(l, from, r);
  // What was enqueued is waited for even if the rest was refused: its memory may go otherwise.
  result<void> ended;
  if (l.copied != nullptr)
    ended = here_.check(here_.functions().cuEventRecord(l.copied, l.stream), "cuEventRecord");
  if (ended && l.copied != nullptr) ended = here_.wait(l.copied);
  return ok ? ended : ok;
}

}  // namespace terrane::engine::cuda

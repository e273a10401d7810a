#include "engine/device/cuda/gpu.hpp"

#include <cstring>
#include <thread>

namespace terrane::engine::cuda {

namespace {

// Equal lists are one graph.
class recorded_list : public command_list {
 public:
  explicit recorded_list(std::shared_ptr<recorded_graph> of) : graph(std::move(of)) {
    launches = static_cast<std::uint32_t>(graph->phases.size());
    is_warm = graph->launched;
  }
  const std::shared_ptr<recorded_graph> graph;
};

// Of `left` launches, those that go into the next graph. Handing over a launch takes the driver a
// third of a microsecond, a launch takes the card several: the first graphs are of growing length.
std::size_t piece_of(std::size_t done, std::size_t left) {
  constexpr std::size_t first = 16, growth = 4;
  const std::size_t next = done == 0 ? first : growth * done;
  return left < 2 * next ? left : next;
}

}  // namespace

result<std::unique_ptr<device>> gpu::open(const driver& d, const physical_device& p,
                                          const cuda_options& options) {
  result<std::unique_ptr<context>> card = context::open(d, p);
  if (!card) return tl::unexpected<error>(card.error());
  std::unique_ptr<gpu> made(new gpu(std::move(*card), options));
  if (result<void> ok = made->prepare(); !ok) return tl::unexpected<error>(ok.error());
  return made;
}

result<void> gpu::prepare() {
  result<CUstream> recording = card_->make_stream(false);
  if (!recording) return tl::unexpected<error>(recording.error());
  recording_ = *recording;
  result<CUevent> ended = card_->make_event();
  if (!ended) return tl::unexpected<error>(ended.error());
  ended_ = *ended;
  return {};
}

gpu::~gpu() {
  keeps_memory(false);
  graphs_.clear();
  for_next_.reset();
  const driver_functions& cu = card_->functions();
  (void)cu.cuCtxSetCurrent(card_->handle());
  (void)cu.cuStreamSynchronize(card_->steps());
  if (recording_ != nullptr) (void)cu.cuStreamDestroy(recording_);
  if (ended_ != nullptr) (void)cu.cuEventDestroy(ended_);
}

result<const device_kernel*> gpu::compile(const kernels::program& p) { return kernels_.get(p); }

result<void> gpu::check_phases(std::span<const dispatch> phases) const {
  const physical_device& p = card_->physical();
  for (const dispatch& d : phases) {
    if (d.groups_x > p.most_groups_x || d.groups_y > p.most_groups_y) {
      return fail(error_code::unsupported,
                  "a grid of " + std::to_string(d.groups_x) + " by " + std::to_string(d.groups_y) +
                      " workgroups is larger than the device's " + std::to_string(p.most_groups_x) +
                      " by " + std::to_string(p.most_groups_y),
                  info().name);
    }
  }
  return {};
}

result<std::unique_ptr<command_list>> gpu::record(std::span<const dispatch> phases) {
  if (result<void> ready = card_->enter(); !ready) return tl::unexpected<error>(ready.error());
  if (result<void> fits = check_phases(phases); !fits) return tl::unexpected<error>(fits.error());
  std::lock_guard lock(recording_access_);
  std::shared_ptr<recorded_graph> graph = graphs_.find(phases);
  if (graph == nullptr) {
    result<std::shared_ptr<recorded_graph>> made = make_graph(phases);
    if (!made) return tl::unexpected<error>(made.error());
    graph = std::move(*made);
    graphs_.add(graph);
  }
  return std::make_unique<recorded_list>(std::move(graph));
}

result<std::shared_ptr<recorded_graph>> gpu::make_graph(std::span<const dispatch> phases) {
  auto graph = std::make_shared<recorded_graph>(*card_, phases);
  for (std::size_t done = 0; done < phases.size();) {
    const std::size_t count = piece_of(done, phases.size() - done);
    if (result<void> ok = add_piece(*graph, phases.subspan(done, count)); !ok)
      return tl::unexpected<error>(ok.error());
    done += count;
  }
  result<void> ok =
      card_->check(card_->functions().cuStreamSynchronize(recording_), "cuStreamSynchronize");
  if (!ok) return tl::unexpected<error>(ok.error());
  return graph;
}

result<void> gpu::add_piece(recorded_graph& to, std::span<const dispatch> phases) {
  const driver_functions& cu = card_->functions();
  result<CUgraph> captured = capture(phases);
  if (!captured) return tl::unexpected<error>(captured.error());
  CUgraphExec piece = nullptr;
  result<void> ok = card_->check(cu.cuGraphInstantiateWithFlags(&piece, *captured, 0),
                                 "cuGraphInstantiateWithFlags");
  (void)cu.cuGraphDestroy(*captured);
  if (!ok) return ok;
  to.pieces.push_back(piece);
  // On the card before the first launch, which would wait for that.
  return card_->check(cu.cuGraphUpload(piece, recording_), "cuGraphUpload");
}

// Launches are captured in one stream, so each phase comes after the one before.
result<CUgraph> gpu::capture(std::span<const dispatch> phases) {
  const driver_functions& cu = card_->functions();
  result<void> ok = card_->check(
      cu.cuStreamBeginCapture(recording_, CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
  if (!ok) return tl::unexpected<error>(ok.error());
  ok = launch_all(phases);
  // Ends the capture whatever came of it.
  CUgraph graph = nullptr;
  const CUresult ended = cu.cuStreamEndCapture(recording_, &graph);
  if (ok) ok = card_->check(ended, "cuStreamEndCapture");
  if (ok) return graph;
  if (graph != nullptr) (void)cu.cuGraphDestroy(graph);
  return tl::unexpected<error>(ok.error());
}

result<void> gpu::launch_all(std::span<const dispatch> phases) {
  for (const dispatch& d : phases) {
    if (d.groups_x == 0 || d.groups_y == 0) continue;
    const auto& k = static_cast<const kernel&>(*d.kernel);
    CUlaunchConfig config{};
    config.gridDimX = d.groups_x;
    config.gridDimY = d.groups_y;
    config.gridDimZ = 1;
    config.blockDimX = k.threads;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = k.shared_bytes;
    config.hStream = recording_;
    // Kernels that wait by themselves for those before them may be started before these end.
    CUlaunchAttribute early{};
    early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    early.value.programmaticStreamSerializationAllowed = 1;
    config.attrs = &early;
    config.numAttrs = card_->starts_early() ? 1 : 0;
    // The driver copies the arguments: one parameter, all 16 of them by value.
    auto arguments = d.arguments;
    void* parameters[] = {arguments.data()};
    result<void> ok =
        card_->check(card_->functions().cuLaunchKernelEx(&config, k.function, parameters, nullptr),
                     "cuLaunchKernelEx");
    if (!ok) return ok;
  }
  return {};
}

result<void> gpu::submit(command_list& list) {
  const driver_functions& cu = card_->functions();
  auto& recorded = static_cast<recorded_list&>(list);
  result<void> ok = card_->enter();
  for (CUgraphExec piece : recorded.graph->pieces)
    if (ok) ok = card_->check(cu.cuGraphLaunch(piece, card_->steps()), "cuGraphLaunch");
  if (ok) ok = card_->check(cu.cuEventRecord(ended_, card_->steps()), "cuEventRecord");
  if (!ok) return ok;
  count_launches(list.launches);
  submitted_at_ = std::chrono::steady_clock::now();
  recorded.graph->launched = true;
  running_ = recorded.graph;
  return {};
}

// Sleeps for most of the time that the list usually takes, so that looking for its end, which is
// quicker than being woken, takes little of a core.
result<void> gpu::wait() {
  result<void> ok = card_->enter();
  if (!ok || running_ == nullptr) return ok;
  const std::shared_ptr<recorded_graph> ran = std::move(running_);
  const auto wake_at = submitted_at_ + ran->usual.quiet();
  if (wake_at > std::chrono::steady_clock::now()) {
    std::this_thread::sleep_until(wake_at);
    const CUresult first_look = card_->functions().cuEventQuery(ended_);
    if (first_look != CUDA_ERROR_NOT_READY) {
      ran->usual.ended_unseen();
      return card_->check(first_look, "cuEventQuery");
    }
  }
  ok = card_->wait(ended_);
  ran->usual.ended(std::chrono::steady_clock::now() - submitted_at_);
  return ok;
}

result<void> gpu::check_range(const device_memory& m, std::size_t offset, std::size_t bytes) const {
  if (result<void> ready = card_->enter(); !ready) return ready;
  if (offset > m.bytes() || bytes > m.bytes() - offset) {
    return fail(error_code::invalid_input,
                "a copy of " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                    " leaves a piece of " + std::to_string(m.bytes()),
                info().name);
  }
  return {};
}

result<void> gpu::write(device_memory& to, std::size_t offset, std::span<const std::byte> from) {
  result<void> ok = check_range(to, offset, from.size());
  if (ok && !from.empty()) ok = copier_.write(to.address() + offset, from);
  return ok;
}

result<void> gpu::read(const device_memory& from, std::size_t offset, std::span<std::byte> to) {
  result<void> ok = check_range(from, offset, to.size());
  if (ok && !to.empty()) ok = copier_.read(from.address() + offset, to);
  return ok;
}

// In the stream of the lists, ahead of the next one.
result<void> gpu::write_for_next(device_memory& to, std::size_t offset,
                                 std::span<const std::byte> from) {
  result<void> ok = check_range(to, offset, from.size());
  if (!ok || from.empty()) return ok;
  if (for_next_ == nullptr || for_next_->bytes() < from.size()) {
    result<std::unique_ptr<device_memory>> pinned = allocate_pinned(*card_, from.size());
    if (!pinned) return write(to, offset, from);  // the host pins no more
    for_next_ = std::move(*pinned);
  }
  std::memcpy(for_next_->host(), from.data(), from.size());
  return card_->check(card_->functions().cuMemcpyHtoDAsync(to.address() + offset, for_next_->host(),
                                                           from.size(), card_->steps()),
                      "cuMemcpyHtoDAsync");
}

const std::string& gpu::no_direct_path(device& from) {
  auto* other = dynamic_cast<gpu*>(&from);
  return other == nullptr ? no_shared_path(from) : peers_.no_path(other->parts());
}

result<void> gpu::copy_direct(device& from, std::span<const copy_range> ranges) {
  auto* other = dynamic_cast<gpu*>(&from);
  if (other == nullptr) return copy_shared(from, *this, ranges);
  if (!peers_.no_path(other->parts()).empty()) return device::copy_direct(from, ranges);
  for (const copy_range& r : ranges) {
    result<void> ok = other->check_range(*r.from, r.from_offset, r.bytes);
    if (ok) ok = check_range(*r.to, r.to_offset, r.bytes);
    if (!ok) return ok;
  }
  return peers_.copy(other->parts(), ranges);
}

result<void> gpu::copy_shared(device& from, device& to, std::span<const copy_range> ranges) {
  device& other = &to == this ? from : to;
  if (const std::string& why = shared_.no_path(other); !why.empty())
    return fail(error_code::unsupported, "a direct copy with " + other.info().name + ": " + why,
                info().name);
  for (const copy_range& r : ranges) {
    result<void> ok = check_range(*r.from, r.from_offset, r.bytes);
    if (ok) ok = check_range(*r.to, r.to_offset, r.bytes);
    if (!ok) return ok;
  }
  return shared_.copy(from, to, ranges);
}

std::uint64_t gpu::driver_used_bytes() const {
  std::size_t free = 0, total = 0;
  if (!card_->enter() || card_->functions().cuMemGetInfo(&free, &total) != CUDA_SUCCESS) return 0;
  return total - free;
}

}  // namespace terrane::engine::cuda

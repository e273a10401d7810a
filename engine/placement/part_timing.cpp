#include "engine/placement/part_timing.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "engine/model/part_recorder.hpp"
#include "engine/session/workspace.hpp"
#include "engine/weights/weight_store.hpp"

namespace terrane::engine {

namespace {

// More than caches hold, if the model has as much, and little enough to find room.
constexpr std::uint64_t most_bytes = std::uint64_t{384} << 20;
constexpr std::size_t most_layers = 8;
constexpr int runs = 5;

class timing {
 public:
  timing(device& on, const model& of) : on_(on), of_(of), kernels_(on) {}

  result<part_timing> run() {
    result<void> ok = prepare();
    if (!ok) return tl::unexpected<error>(ok.error());
    result<double> one = time_layers(1);
    if (!one) return tl::unexpected<error>(one.error());
    part_timing out;
    out.feed_forward_bytes = of_.part_bytes(parts_.front());
    out.feed_forward_s = *one;
    result<double> writes = time_writes();
    if (!writes) return tl::unexpected<error>(writes.error());
    out.write_bytes_per_s = *writes;
    if (parts_.size() == 1) return out;
    result<double> all = time_layers(parts_.size());
    if (!all) return tl::unexpected<error>(all.error());
    const double layers = static_cast<double>(parts_.size());
    // Noise can make the longer list the faster one; a layer is never free.
    out.feed_forward_s = std::max((*all - *one) / (layers - 1), *all / layers / 4);
    out.submit_s = std::max(0.0, *one - out.feed_forward_s);
    return out;
  }

 private:
  result<void> prepare() {
    result<std::unique_ptr<workspace>> made = workspace::make(on_, of_, {8, 1, 64});
    if (!made) return tl::unexpected<error>(made.error());
    space_ = std::move(*made);
    step_inputs inputs(space_->shape().rows);
    inputs.rows() = 1;
    result<void> ok = space_->write_inputs(inputs);
    std::uint64_t bytes = 0;
    for (part_index p = 0; ok && p < of_.parts().size() && parts_.size() < most_layers; p++) {
      if (of_.parts()[p].kind != part_kind::feed_forward) continue;
      bytes += of_.part_bytes(p);
      if (!parts_.empty() && bytes > most_bytes) break;
      ok = make_blocks(p);
      // Fewer layers are measured less well, and one is enough.
      if (!ok && ok.error().code == error_code::no_room && !parts_.empty()) return {};
    }
    return ok;
  }

  result<void> make_blocks(part_index p) {
    std::vector<resident_block_ptr> blocks;
    for (std::uint32_t b : of_.parts()[p].blocks) {
      auto block = std::make_shared<resident_block>();
      block->description = &of_.blocks()[b];
      result<std::unique_ptr<device_memory>> memory =
          on_.allocate(block->description->bytes, memory_use::weights);
      if (!memory) return tl::unexpected<error>(memory.error());
      block->memory = std::move(*memory);
      const std::vector<std::byte> zeros(
          std::min<std::uint64_t>(block->description->bytes, 4U << 20));
      for (std::uint64_t at = 0; at < block->description->bytes; at += zeros.size()) {
        const std::size_t n = std::min<std::uint64_t>(zeros.size(), block->description->bytes - at);
        result<void> ok = on_.write(*block->memory, at, std::span(zeros).first(n));
        if (!ok) return ok;
      }
      blocks.push_back(std::move(block));
    }
    parts_.push_back(p);
    blocks_.push_back(std::move(blocks));
    return {};
  }

  // The least of a few runs: what else the machine does only adds.
  result<double> time_layers(std::size_t layers) {
    std::vector<dispatch> phases;
    for (std::size_t i = 0; i < layers; i++) {
      part_recorder r(*space_, kernels_, of_, {1, 1, 0});
      r.phases() = std::move(phases);
      r.begin_part(of_.parts()[parts_[i]], blocks_[i]);
      of_.record(r, of_.parts()[parts_[i]], part_half::first);
      if (r.failure()) return tl::unexpected<error>(*r.failure());
      phases = std::move(r.phases());
    }
    result<std::unique_ptr<command_list>> list = on_.record(phases);
    if (!list) return tl::unexpected<error>(list.error());
    double least = 0;
    for (int i = 0; i < runs; i++) {
      const auto begin = std::chrono::steady_clock::now();
      result<void> ok = on_.submit(**list);
      if (ok) ok = on_.wait();
      if (!ok) return tl::unexpected<error>(ok.error());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      least = i == 0 ? took.count() : std::min(least, took.count());
    }
    return least;
  }

  // Into memory that has been written before: the first time pages may still have to be found.
  result<double> time_writes() {
    device_memory& to = *blocks_.front().front()->memory;
    const std::vector<std::byte> zeros(std::min<std::uint64_t>(to.bytes(), 16U << 20));
    double least = 0;
    for (int i = 0; i < 3; i++) {
      const auto begin = std::chrono::steady_clock::now();
      result<void> ok = on_.write(to, 0, zeros);
      if (!ok) return tl::unexpected<error>(ok.error());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      least = i == 0 ? took.count() : std::min(least, took.count());
    }
    return static_cast<double>(zeros.size()) / std::max(least, 1e-9);
  }

  device& on_;
  const model& of_;
  kernel_library kernels_;
  std::unique_ptr<workspace> space_;
  std::vector<part_index> parts_;
  std::vector<std::vector<resident_block_ptr>> blocks_;
};

}  // namespace

result<part_timing> time_parts(device& on, const model& of) { return timing(on, of).run(); }

}  // namespace terrane::engine

#include "tests/bench/synth.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "engine/gguf/writer.hpp"
#include "tests/bench/synth_blocks.hpp"
#include "tests/bench/synth_plan.hpp"

namespace terrane::bench {
namespace {

// A tensor's stream: different for each name and seed.
std::uint64_t stream_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t key = random_word(seed, 0);
  for (const char c : name) {
    key = random_word(key, static_cast<std::uint8_t>(c));
  }
  return key;
}

// A run of blocks of one tensor: the unit of work of a thread.
struct piece {
  std::size_t tensor;
  std::uint64_t first_block;
  std::uint64_t blocks;
};

// Fills all tensors, a few MB at a time, on all cores.
class filling {
 public:
  filling(const std::vector<planned_tensor>& plan, std::uint64_t seed, engine::gguf::writer& to,
          const synth_progress& progress)
      : plan_(plan), seed_(seed), to_(to), progress_(progress) {
    cut();
  }

  result<void> run() {
    {
      std::vector<std::jthread> workers;
      const unsigned count = std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
      for (unsigned i = 0; i < count; ++i) {
        workers.emplace_back([this] { work(); });
      }
    }
    if (failure_) {
      return tl::unexpected(*failure_);
    }
    return {};
  }

 private:
  static constexpr std::uint64_t piece_bytes = std::uint64_t{4} << 20;

  void cut() {
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      const auto& format = engine::gguf::describe(plan_[i].type);
      const std::uint64_t bytes = to_.tensors()[i].bytes;
      const std::uint64_t blocks = bytes / format.block_bytes;
      const std::uint64_t step = piece_bytes / format.block_bytes;
      for (std::uint64_t first = 0; first < blocks; first += step) {
        pieces_.push_back({i, first, std::min(step, blocks - first)});
      }
      total_bytes_ += bytes;
    }
  }

  void work() {
    std::vector<std::byte> buffer;
    for (std::size_t i = next_++; i < pieces_.size() && !stopped_; i = next_++) {
      if (auto made = make(pieces_[i], buffer); !made) {
        const std::lock_guard lock(mutex_);
        failure_ = made.error();
        stopped_ = true;
      } else if (progress_) {
        const std::lock_guard lock(mutex_);
        done_bytes_ += buffer.size();
        progress_(done_bytes_, total_bytes_);
      }
    }
  }

  result<void> make(const piece& p, std::vector<std::byte>& buffer) {
    const planned_tensor& t = plan_[p.tensor];
    const std::uint64_t block_bytes = engine::gguf::describe(t.type).block_bytes;
    buffer.resize(p.blocks * block_bytes);
    if (t.values.empty()) {
      fill_blocks(t.type, t.weights, stream_key(seed_, t.name), p.first_block, buffer);
    } else {
      std::memcpy(buffer.data(), t.values.data() + p.first_block, buffer.size());
    }
    return to_.write(p.tensor, p.first_block * block_bytes, buffer);
  }

  const std::vector<planned_tensor>& plan_;
  std::uint64_t seed_;
  engine::gguf::writer& to_;
  const synth_progress& progress_;
  std::vector<piece> pieces_;
  std::uint64_t total_bytes_ = 0;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;  // guards the two below and the calls of progress_
  std::uint64_t done_bytes_ = 0;
  std::optional<error> failure_;
};

}  // namespace

std::span<const std::string_view> synth_shapes() {
  static const auto names = [] {
    std::vector<std::string_view> out;
    for (const model_shape& shape : known_shapes()) {
      out.push_back(shape.name);
    }
    return out;
  }();
  return names;
}

std::span<const std::string_view> synth_quants() { return known_quants(); }

result<void> synthesize(std::string_view shape, std::string_view quant,
                        const std::filesystem::path& path, std::uint64_t seed,
                        const synth_progress& progress) {
  const auto model = shape_named(shape);
  if (!model) {
    return tl::unexpected(model.error());
  }
  const auto plan = plan_tensors(*model, quant);
  if (!plan) {
    return tl::unexpected(plan.error());
  }
  auto out = engine::gguf::writer::create(path);
  if (!out) {
    return tl::unexpected(out.error());
  }
  put_metadata(*out, *model, quant, seed);
  for (const planned_tensor& t : *plan) {
    const std::size_t dimensions = t.shape[1] == 1 ? 1 : 2;
    out->add_tensor(t.name, t.type, std::span(t.shape).first(dimensions));
  }
  return out->begin_data()
      .and_then([&] { return filling(*plan, seed, *out, progress).run(); })
      .and_then([&] { return out->finish(); });
}

}  // namespace terrane::bench

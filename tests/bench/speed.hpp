// terrane-bench speed: tokens a second on one device, and how near that is to what its memory can
// give.
#pragma once

#include "tests/bench/bench_model.hpp"

namespace terrane::bench {

struct speed_options {
  model_choice model;  // one device
  std::uint32_t prompt = 512;
  std::uint32_t generate = 128;
  std::uint32_t repeat = 3;
  std::uint64_t seed = 1;
};
result<boost::json::object> run_speed(const speed_options& options);

// Bytes a second that a plain read of `bytes` of the device's memory reaches (best of a few).
result<double> read_bandwidth(engine::device& on, std::uint64_t bytes);

}  // namespace terrane::bench

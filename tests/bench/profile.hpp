// terrane-bench profile: where the time of a step goes, kernel by kernel.
//
// Every dispatch of a step is submitted and waited for on its own, so the sum is more than a step
// takes: what an empty kernel takes (`empty_us`) is part of each. Kernels of equal name and shape
// count together; decode and prefill apart, by the number of rows the step list was recorded for.
#pragma once

#include "tests/bench/bench_model.hpp"

namespace terrane::bench {

struct profile_options {
  model_choice model;
  std::uint32_t prompt = 512;
  std::uint32_t generate = 16;
};

result<boost::json::object> run_profile(const profile_options& options);

}  // namespace terrane::bench

// terrane-bench move: how long a reply stands still when all layers move.
#pragma once

#include "tests/bench/bench_model.hpp"

namespace terrane::bench {

struct move_options {
  model_choice model;  // exactly two devices: from and to
  std::uint32_t context = 2000;
  std::uint32_t repeat = 10;  // moves there and back, each counted
  std::uint32_t settle = 16;  // tokens between two moves
  std::uint64_t seed = 1;
};
result<boost::json::object> run_move(const move_options& options);

}  // namespace terrane::bench

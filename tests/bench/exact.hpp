// terrane-bench exact: is a reply with moves the same, bit for bit, as one without?
#pragma once

#include "tests/bench/bench_model.hpp"

namespace terrane::bench {

struct exact_options {
  model_choice model;
  std::uint32_t moves = 20;
  std::uint32_t tokens = 256;
  std::uint32_t prompt_chunk = 0;  // of the moved run; the unmoved one takes the prompt as it fits
  std::vector<std::string> prompts;  // texts; empty: random tokens, so many
  std::uint32_t random_prompt = 100;
  bool corrupt = false;  // flip one bit of a moved page
  std::uint64_t seed = 1;
};
// In words under "not_shown" if the run does not show what it was asked for: all moves in replies
// whose logits are equal, on all devices; with `corrupt`, logits that differ are told there too.
result<boost::json::object> run_exact(const exact_options& options);

}  // namespace terrane::bench

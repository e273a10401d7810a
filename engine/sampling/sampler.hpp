// Chooses the next token from the logits of the head, on the host. The choice is a pure function of
// the logits, the tokens so far, the parameters and the position: no state passes from one token
// to the next, so a reply that is resumed, moved or recovered draws the same tokens again.
// A session owns its sampler and calls it from the step loop; sample() allocates nothing.
//
// Order of the steps: repetition penalty, top-k, top-p, min-p, temperature, draw. The filters look
// at the distribution before temperature. Of equal logits the lower token id comes first, always.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/tokenizer/vocabulary.hpp"
#include "kernels/result.hpp"

namespace terrane::engine {

struct sampling_parameters {
  float temperature = 0.8F;         // 0: greedy, the most probable token; else up to 100
  std::uint32_t top_k = 40;         // keep the k most probable; 0: all
  float top_p = 0.95F;              // keep the fewest that together reach this probability; 1: all
  float min_p = 0.05F;              // keep those with this share of the best's probability; 0: all
  float repetition_penalty = 1.0F;  // above 1 makes tokens of the window less probable; 1: off
  std::uint32_t repetition_window = 64;  // how many of the last tokens the penalty looks at
  std::uint64_t seed = 0;
};

// Says which parameter is out of range, its value and what is allowed.
result<void> validate(const sampling_parameters& parameters);

// The logits of a position, one a token, and where the device has found them their peaks: what
// kernels::logits() writes. Without, they are looked for here.
struct step_logits {
  step_logits() = default;
  step_logits(std::span<const float> v, std::span<const float> p = {}) : values(v), peaks(p) {}
  step_logits(const std::vector<float>& v) : values(v) {}
  std::span<const float> values, peaks;
};

class sampler {
 public:
  // `vocabulary`: how many logits a step gives. Tokens in `excluded` are never chosen: rows that
  // pad the head beyond the tokenizer's list, for one.
  static result<sampler> create(const sampling_parameters& parameters, std::uint32_t vocabulary,
                                std::span<const token_id> excluded = {});

  const sampling_parameters& parameters() const { return parameters_; }

  // `logits`: one per token of the vocabulary. `history`: the tokens before `position`, oldest
  // first; the last repetition_window of them count. `position`: of the token to choose, in the
  // sequence; with the seed it determines the draw.
  // Errors: not_finite, naming the token; invalid_input for wrong sizes.
  result<token_id> sample(const step_logits& logits, std::span<const token_id> history,
                          std::uint64_t position);

 private:
  struct candidate {
    float logit;
    token_id id;
    float weight;
  };

  static bool less_probable(const candidate& a, const candidate& b);
  sampler(const sampling_parameters& parameters, std::uint32_t vocabulary);
  result<void> load(const step_logits& logits);
  bool take_peaks(const step_logits& logits);
  result<void> penalise(std::span<const token_id> history);
  template <class Found>
  void for_each_above(float least, Found found) const;
  token_id greedy() const;
  void gather();
  void gather_most_probable();
  std::size_t filter();
  double weigh(std::size_t count, float best, float temperature);
  token_id draw(std::size_t kept, std::uint64_t position);

  sampling_parameters parameters_;
  std::vector<token_id> excluded_;
  std::vector<float> changed_;            // with the penalty; excluded ones -infinity
  std::span<const float> logits_;         // to choose from: as given, or changed_; for one call
  std::vector<float> peaks_;              // of logits_
  std::vector<candidate> candidates_;     // those kept come to stand in front, falling
  std::vector<std::uint32_t> penalised_;  // by token, the call that last penalised it
  std::uint32_t call_ = 0;
};

}  // namespace terrane::engine

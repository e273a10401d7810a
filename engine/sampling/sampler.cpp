#include "engine/sampling/sampler.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "engine/sampling/draw.hpp"
#include "engine/sampling/scan.hpp"
#include "kernels/contract/host.hpp"
#include "kernels/ops/ops.hpp"

namespace terrane::engine {
namespace {

tl::unexpected<error> out_of_range(const char* name, double value, const char* allowed) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return fail(error_code::invalid_input,
              std::string(name) + " is " + text.data() + "; allowed is " + allowed, "sampling");
}

constexpr float never = -std::numeric_limits<float>::infinity();  // the logit of excluded tokens

}  // namespace

// Of equal logits the lower id is the more probable.
bool sampler::less_probable(const candidate& a, const candidate& b) {
  return a.logit < b.logit || (a.logit == b.logit && a.id > b.id);
}

result<void> validate(const sampling_parameters& parameters) {
  const auto& p = parameters;
  // Written so that a NaN is refused too.
  if (!(p.temperature >= 0.0F && p.temperature <= 100.0F)) {
    return out_of_range("temperature", p.temperature, "0 (greedy) to 100");
  }
  if (!(p.top_p > 0.0F && p.top_p <= 1.0F)) {
    return out_of_range("top_p", p.top_p, "above 0 up to 1 (off)");
  }
  if (!(p.min_p >= 0.0F && p.min_p <= 1.0F)) {
    return out_of_range("min_p", p.min_p, "0 (off) to 1");
  }
  if (!(p.repetition_penalty >= 0.01F && p.repetition_penalty <= 100.0F)) {
    return out_of_range("repetition_penalty", p.repetition_penalty, "0.01 to 100 (1 is off)");
  }
  return {};
}

result<sampler> sampler::create(const sampling_parameters& parameters, std::uint32_t vocabulary,
                                std::span<const token_id> excluded) {
  if (auto valid = validate(parameters); !valid) {
    return tl::unexpected(valid.error());
  }
  sampler out(parameters, vocabulary);
  for (const token_id id : excluded) {
    if (id >= vocabulary) {
      return fail(error_code::invalid_input,
                  "excluded token " + std::to_string(id) + " is not one of the " +
                      std::to_string(vocabulary) + " of the vocabulary",
                  "sampling");
    }
    out.excluded_.push_back(id);
  }
  std::ranges::sort(out.excluded_);
  out.excluded_.erase(std::unique(out.excluded_.begin(), out.excluded_.end()), out.excluded_.end());
  if (out.excluded_.size() == vocabulary) {
    return fail(error_code::invalid_input,
                "no token is left to choose from a vocabulary of " + std::to_string(vocabulary),
                "sampling");
  }
  return out;
}

sampler::sampler(const sampling_parameters& parameters, std::uint32_t vocabulary)
    : parameters_(parameters), changed_(vocabulary), penalised_(vocabulary) {
  peaks_.reserve(vocabulary / kernels::logits_of_a_peak + 1);
  candidates_.reserve(vocabulary);
}

result<token_id> sampler::sample(const step_logits& logits, std::span<const token_id> history,
                                 std::uint64_t position) {
  if (auto loaded = load(logits); !loaded) {
    return tl::unexpected(loaded.error());
  }
  if (auto penalised = penalise(history); !penalised) {
    return tl::unexpected(penalised.error());
  }
  for (const token_id id : excluded_) {
    changed_[id] = never;
  }
  if (logits_.data() == changed_.data()) {
    (void)find_peaks(logits_, peaks_);  // all excluded are infinite
  }
  if (parameters_.temperature == 0.0F) {
    return greedy();
  }
  if (parameters_.top_k > 0 && parameters_.top_k < logits_.size() - excluded_.size()) {
    gather_most_probable();
  } else {
    gather();
  }
  return draw(filter(), position);
}

// Whether all logits are finite.
bool sampler::take_peaks(const step_logits& logits) {
  if (logits.peaks.empty()) {
    return find_peaks(logits.values, peaks_);
  }
  peaks_.assign(logits.peaks.begin(), logits.peaks.end());
  return std::ranges::all_of(peaks_, [](float p) { return std::isfinite(p); });
}

result<void> sampler::load(const step_logits& logits) {
  if (logits.values.size() != changed_.size()) {
    return fail(error_code::invalid_input,
                std::to_string(logits.values.size()) + " logits for a vocabulary of " +
                    std::to_string(changed_.size()),
                "sampling");
  }
  if (!take_peaks(logits)) {
    const auto bad =
        std::ranges::find_if_not(logits.values, [](float l) { return std::isfinite(l); });
    return fail(error_code::not_finite,
                "the logit of token " + std::to_string(bad - logits.values.begin()) + " is " +
                    std::to_string(*bad),
                "head");
  }
  logits_ = logits.values;
  if (parameters_.repetition_penalty != 1.0F || !excluded_.empty()) {
    std::ranges::copy(logits.values, changed_.begin());
    logits_ = changed_;
  }
  return {};
}

// Keskar et al. 2019 (CTRL), with the sign taken into account: a token of the window, however often
// it is there, has a positive logit divided and another multiplied by the penalty.
result<void> sampler::penalise(std::span<const token_id> history) {
  if (parameters_.repetition_penalty == 1.0F) {
    return {};
  }
  if (++call_ == 0) {  // after 2^32 calls the marks would be ambiguous
    std::ranges::fill(penalised_, 0);
    call_ = 1;
  }
  const std::size_t window = std::min<std::size_t>(parameters_.repetition_window, history.size());
  for (const token_id id : history.last(window)) {
    if (id >= logits_.size()) {
      return fail(error_code::invalid_input,
                  "token " + std::to_string(id) + " of the history is not one of the " +
                      std::to_string(logits_.size()) + " of the vocabulary",
                  "sampling");
    }
    if (penalised_[id] == call_) {
      continue;
    }
    penalised_[id] = call_;
    constexpr float limit = std::numeric_limits<float>::max();
    float& logit = changed_[id];
    logit = logit > 0.0F ? logit / parameters_.repetition_penalty
                         : logit * parameters_.repetition_penalty;
    logit = std::clamp(logit, -limit, limit);
  }
  return {};
}

// Calls `found` with each id, in rising order, whose logit is above the least that it last
// returned, first `least`. In a large vocabulary that are few.
template <class Found>
void sampler::for_each_above(float least, Found found) const {
  for (std::size_t n = 0; n < peaks_.size(); ++n) {
    if (!(peaks_[n] > least)) {
      continue;
    }
    const std::size_t end = std::min((n + 1) * kernels::logits_of_a_peak, logits_.size());
    for (std::size_t id = n * kernels::logits_of_a_peak; id < end; ++id) {
      if (logits_[id] > least) {
        least = found(static_cast<token_id>(id));
      }
    }
  }
}

token_id sampler::greedy() const {
  token_id best = 0;
  for_each_above(logits_[0], [&](token_id id) {
    best = id;
    return logits_[id];
  });
  return best;
}

void sampler::gather() {
  candidates_.clear();
  for (token_id id = 0; id < logits_.size(); ++id) {
    if (logits_[id] != never) {
      candidates_.push_back({logits_[id], id, 0.0F});
    }
  }
}

// The top_k most probable, falling. In a large vocabulary nearly every token is below the least of
// those found so far, so one comparison a token is all it takes.
void sampler::gather_most_probable() {
  const auto more_probable = [](const candidate& a, const candidate& b) {
    return less_probable(b, a);
  };
  candidates_.clear();
  for_each_above(never, [&](token_id id) {
    if (candidates_.size() == parameters_.top_k) {
      std::ranges::pop_heap(candidates_, more_probable);
      candidates_.back() = {logits_[id], id, 0.0F};
    } else {
      candidates_.push_back({logits_[id], id, 0.0F});
    }
    std::ranges::push_heap(candidates_, more_probable);
    // Of a full heap the front is the least.
    return candidates_.size() == parameters_.top_k ? candidates_.front().logit : never;
  });
  std::ranges::sort_heap(candidates_, more_probable);
}

// Leaves the tokens that top-k, top-p and min-p keep in front of candidates_, and says how many.
// All three keep a prefix of the order by falling logit, so only that prefix is ever sorted: a heap
// gives it one by one. Without a filter the order stays that of the ids.
std::size_t sampler::filter() {
  const auto& p = parameters_;
  const std::size_t all = candidates_.size();
  const bool sorted = all < logits_.size() - excluded_.size();
  if (!sorted && p.top_p == 1.0F && p.min_p == 0.0F) {
    return all;
  }
  // Sums are folded in an order that is defined: by id here, by rank if sorted. A heap's is not.
  const float best = std::ranges::max(candidates_, {}, &candidate::logit).logit;
  const double total = sorted || p.top_p < 1.0F ? weigh(all, best, 1.0F) : 0.0;
  // Reversed, so that what is popped gathers in front.
  const auto heap = candidates_.rbegin();
  if (!sorted) {
    std::make_heap(heap, candidates_.rend(), less_probable);
  }
  double reached = 0.0;
  for (std::size_t i = 0; i < all; ++i) {
    if (!sorted) {
      std::pop_heap(heap, candidates_.rend() - static_cast<std::ptrdiff_t>(i), less_probable);
    }
    const float weight = kernels::contract::exp(candidates_[i].logit - best);
    if (i > 0 && weight < p.min_p) {
      return i;
    }
    reached += static_cast<double>(weight);
    if (p.top_p < 1.0F && reached >= static_cast<double>(p.top_p) * total) {
      return i + 1;
    }
  }
  return all;
}

// Gives the first `count` candidates the weight exp((logit - best) / temperature); their sum.
double sampler::weigh(std::size_t count, float best, float temperature) {
  double total = 0.0;
  for (candidate& c : std::span(candidates_).first(count)) {
    c.weight = kernels::contract::exp((c.logit - best) / temperature);
    total += static_cast<double>(c.weight);
  }
  return total;
}

token_id sampler::draw(std::size_t kept, std::uint64_t position) {
  const auto chosen_from = std::span(candidates_).first(kept);
  const float best = std::ranges::max(chosen_from, {}, &candidate::logit).logit;
  const double target =
      draw_uniform(parameters_.seed, position) * weigh(kept, best, parameters_.temperature);
  double reached = 0.0;
  for (const candidate& c : chosen_from) {
    reached += static_cast<double>(c.weight);
    if (reached > target) {
      return c.id;
    }
  }
  return chosen_from.back().id;
}

}  // namespace terrane::engine

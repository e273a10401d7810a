#include "engine/sampling/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/sampling/draw.hpp"
#include "engine/sampling/scan.hpp"
#include "tests/engine/sampling/allocations.hpp"

namespace terrane::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Everything off: pure sampling at temperature 1.
sampling_parameters plain() {
  return {.temperature = 1.0F,
          .top_k = 0,
          .top_p = 1.0F,
          .min_p = 0.0F,
          .repetition_penalty = 1.0F,
          .repetition_window = 64,
          .seed = 1};
}

sampling_parameters greedy() {
  auto p = plain();
  p.temperature = 0.0F;
  return p;
}

sampler made(const sampling_parameters& parameters, std::size_t vocabulary,
             std::vector<token_id> excluded = {}) {
  auto out = sampler::create(parameters, static_cast<std::uint32_t>(vocabulary), excluded);
  EXPECT_TRUE(out) << to_string(out.error());
  return std::move(*out);
}

token_id choose(sampler& from, const std::vector<float>& logits, std::uint64_t position = 0,
                const std::vector<token_id>& history = {}) {
  const auto chosen = from.sample(logits, history, position);
  EXPECT_TRUE(chosen) << to_string(chosen.error());
  return chosen.value_or(0);
}

// How often each token is drawn at positions 0, 1, 2, ...
std::map<token_id, int> draws(const sampling_parameters& parameters,
                              const std::vector<float>& logits, int count,
                              const std::vector<token_id>& history = {}) {
  auto s = made(parameters, logits.size());
  std::map<token_id, int> out;
  for (int i = 0; i < count; ++i) {
    ++out[choose(s, logits, static_cast<std::uint64_t>(i), history)];
  }
  return out;
}

std::set<token_id> drawn(const sampling_parameters& parameters, const std::vector<float>& logits) {
  std::set<token_id> out;
  for (const auto& [id, count] : draws(parameters, logits, 3000)) {
    out.insert(id);
  }
  return out;
}

// Logits of these probabilities.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> out;
  for (const double p : probabilities) {
    out.push_back(static_cast<float>(std::log(p)));
  }
  return out;
}

std::vector<float> random_logits(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  std::vector<float> out(count);
  std::ranges::generate(out, [&] { return normal(engine); });
  return out;
}

TEST(sampler, greedy_takes_the_largest_and_of_equals_the_lowest_id) {
  auto s = made(greedy(), 5);
  EXPECT_EQ(choose(s, {1, 5, 2, 5, 0}), 1U);
  EXPECT_EQ(choose(s, {-3, -2, -1, -1, -1}), 2U);
  EXPECT_EQ(choose(s, {0.0F, -0.0F, 0.0F, -0.0F, -1.0F}), 0U);
  EXPECT_EQ(choose(s, {-0.0F, 0.0F, -1.0F, -1.0F, -1.0F}), 0U);
}

TEST(sampler, draws_in_proportion_to_probability) {
  const std::vector<double> probabilities{0.5, 0.05, 0.3, 0.15};
  constexpr int count = 40000;
  auto found = draws(plain(), logits_of(probabilities), count);
  for (token_id id = 0; id < 4; ++id) {
    EXPECT_NEAR(found[id] / double{count}, probabilities[id], 0.01) << id;
  }
}

TEST(sampler, a_setting_out_of_range_is_told_as_it_was_written) {
  sampling_parameters p;
  p.temperature = 1e30F;
  const result<void> refused = validate(p);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "temperature is 1e+30; allowed is 0 (greedy) to 100");
}

TEST(sampler, temperature_flattens_and_sharpens) {
  auto hot = plain();
  hot.temperature = 2.0F;
  auto cold = plain();
  cold.temperature = 0.5F;
  const auto logits = logits_of({0.8, 0.2});  // odds of 4: 2 at temperature 2, 16 at 0.5
  EXPECT_NEAR(draws(hot, logits, 30000)[1] / 30000.0, 1.0 / 3, 0.01);
  EXPECT_NEAR(draws(cold, logits, 30000)[1] / 30000.0, 1.0 / 17, 0.01);
  cold.temperature = 1e-30F;
  EXPECT_EQ(draws(cold, logits, 1000)[0], 1000);
}

TEST(sampler, the_filters_keep_what_they_say) {
  const auto logits = logits_of({0.1, 0.4, 0.05, 0.3, 0.15});
  auto p = plain();
  p.top_k = 2;
  EXPECT_THAT(drawn(p, logits), ElementsAre(1, 3));
  p.top_k = 1;
  EXPECT_THAT(drawn(p, logits), ElementsAre(1));
  p.top_k = 100;
  EXPECT_EQ(drawn(p, logits).size(), 5U);

  p = plain();
  p.top_p = 0.75F;  // 0.4 + 0.3 do not reach it
  EXPECT_THAT(drawn(p, logits), ElementsAre(1, 3, 4));
  p.top_p = 0.65F;
  EXPECT_THAT(drawn(p, logits), ElementsAre(1, 3));
  p.top_p = 1e-6F;
  EXPECT_THAT(drawn(p, logits), ElementsAre(1));

  p = plain();
  p.min_p = 0.3F;  // of 0.4
  EXPECT_THAT(drawn(p, logits), ElementsAre(1, 3, 4));
  p.min_p = 1.0F;
  EXPECT_THAT(drawn(p, logits), ElementsAre(1));

  p = plain();
  p.top_k = 3;     // 0.4 0.3 0.15 of 0.85
  p.top_p = 0.8F;  // reached by two
  EXPECT_THAT(drawn(p, logits), ElementsAre(1, 3));
  p.min_p = 0.8F;
  EXPECT_THAT(drawn(p, logits), ElementsAre(1));
}

TEST(sampler, the_filters_look_before_temperature) {
  auto p = plain();
  p.top_p = 0.65F;
  p.temperature = 50.0F;
  EXPECT_THAT(drawn(p, logits_of({0.1, 0.4, 0.05, 0.3, 0.15})), ElementsAre(1, 3));
}

TEST(sampler, of_equal_logits_the_filters_keep_the_lowest_ids) {
  const std::vector<float> equal(1000, 0.5F);
  auto p = plain();
  p.top_k = 3;
  EXPECT_THAT(drawn(p, equal), ElementsAre(0, 1, 2));
  p = plain();
  p.top_p = 0.0025F;
  EXPECT_THAT(drawn(p, equal), ElementsAre(0, 1, 2));
}

// The plain way: sort everything, then cut.
token_id by_sorting(const sampling_parameters& p, const std::vector<float>& logits, double u) {
  std::vector<token_id> order(logits.size());
  for (token_id id = 0; id < order.size(); ++id) {
    order[id] = id;
  }
  std::ranges::stable_sort(order, [&](auto a, auto b) { return logits[a] > logits[b]; });
  const double best = logits[order[0]];
  order.resize(p.top_k == 0 ? order.size() : std::min<std::size_t>(p.top_k, order.size()));
  double total = 0.0;
  for (const token_id id : order) {
    total += std::exp(logits[id] - best);
  }
  std::size_t kept = 0;
  for (double reached = 0.0; kept < order.size() && (kept == 0 || reached < p.top_p * total);) {
    const double weight = std::exp(logits[order[kept]] - best);
    if (kept > 0 && weight < p.min_p) {
      break;
    }
    reached += weight;
    ++kept;
  }
  total = 0.0;
  for (std::size_t i = 0; i < kept; ++i) {
    total += std::exp((logits[order[i]] - best) / p.temperature);
  }
  double reached = 0.0;
  for (std::size_t i = 0; i < kept; ++i) {
    reached += std::exp((logits[order[i]] - best) / p.temperature);
    if (reached > u * total) {
      return order[i];
    }
  }
  return order[kept - 1];
}

TEST(sampler, agrees_with_sorting_everything) {
  std::vector<sampling_parameters> variants(5, plain());
  variants[0].top_k = 40;
  variants[1].top_p = 0.9F;
  variants[2].min_p = 0.02F;
  variants[3] = {.seed = 9};  // the defaults
  variants[4] = {.temperature = 1.7F, .top_k = 0, .top_p = 0.97F, .min_p = 0.001F, .seed = 3};
  for (const auto& p : variants) {
    auto s = made(p, 5000);
    for (std::uint64_t position = 0; position < 100; ++position) {
      const auto logits = random_logits(5000, static_cast<unsigned>(position));
      const double u = draw_uniform(p.seed, position);
      EXPECT_EQ(choose(s, logits, position), by_sorting(p, logits, u)) << position;
    }
  }
}

TEST(sampler, the_draw_is_uniform_and_differs_by_seed_and_position) {
  constexpr int count = 100000;
  int buckets[10] = {};
  std::set<double> distinct;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double u = draw_uniform(7, i);
    ASSERT_TRUE(u >= 0.0 && u < 1.0);
    ++buckets[static_cast<int>(u * 10)];
    distinct.insert(u);
    distinct.insert(draw_uniform(8, i));
  }
  EXPECT_EQ(distinct.size(), 2U * count);
  for (const int bucket : buckets) {
    EXPECT_NEAR(bucket, count / 10, 400);
  }
}

TEST(sampler, the_same_seed_and_position_draw_the_same_whatever_came_between) {
  const auto logits = random_logits(1000, 5);
  auto p = plain();
  auto first = made(p, 1000);
  std::vector<token_id> tokens;
  for (std::uint64_t i = 0; i < 200; ++i) {
    tokens.push_back(choose(first, logits, i));
  }
  auto resumed = made(p, 1000);
  for (std::uint64_t i = 200; i-- > 100;) {
    EXPECT_EQ(choose(resumed, logits, i), tokens[i]);
  }
  p.seed = 2;
  auto other = made(p, 1000);
  int equal = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    equal += choose(other, logits, i) == tokens[i] ? 1 : 0;
  }
  EXPECT_LT(equal, 100);
}

TEST(sampler, draws_are_pinned) {
  // As first drawn; these must not change, or recorded replies would not repeat.
  const auto logits = logits_of(std::vector<double>(1000, 0.001));
  auto p = plain();
  p.seed = 12345;
  auto s = made(p, 1000);
  std::vector<token_id> tokens;
  for (std::uint64_t i = 0; i < 6; ++i) {
    tokens.push_back(choose(s, logits, i));
  }
  EXPECT_THAT(tokens, ElementsAre(15, 500, 177, 705, 92, 302));
}

TEST(sampler, the_penalty_divides_positive_and_multiplies_negative_logits) {
  auto p = greedy();
  p.repetition_penalty = 2.0F;
  auto s = made(p, 3);
  EXPECT_EQ(choose(s, {4.0F, 3.0F, 1.0F}, 0, {}), 0U);
  EXPECT_EQ(choose(s, {4.0F, 3.0F, 1.0F}, 1, {0}), 1U);        // 2 3 1
  EXPECT_EQ(choose(s, {4.0F, 3.0F, 1.0F}, 2, {0, 1}), 0U);     // 2 1.5 1
  EXPECT_EQ(choose(s, {4.0F, 1.5F, 1.0F}, 2, {0, 0, 0}), 0U);  // 2 1.5 1: once, however often
  EXPECT_EQ(choose(s, {-1.0F, -1.5F, -9.0F}, 2, {0}), 1U);     // -2 -1.5 -9
  EXPECT_EQ(choose(s, {4.0F, 3.0F, 1.0F}, 0, {}), 0U);         // nothing is kept
}

TEST(sampler, the_penalty_looks_at_its_window_only) {
  auto p = greedy();
  p.repetition_penalty = 2.0F;
  p.repetition_window = 2;
  auto s = made(p, 3);
  EXPECT_EQ(choose(s, {4.0F, 3.0F, 1.0F}, 3, {0, 2, 2}), 0U);
  EXPECT_EQ(choose(s, {4.0F, 3.0F, 1.0F}, 3, {2, 0, 2}), 1U);
  p.repetition_window = 0;
  auto none = made(p, 3);
  EXPECT_EQ(choose(none, {4.0F, 3.0F, 1.0F}, 1, {0}), 0U);
}

TEST(sampler, a_penalty_never_makes_an_infinity) {
  auto p = plain();
  p.repetition_penalty = 100.0F;
  auto s = made(p, 2);
  constexpr float most = std::numeric_limits<float>::max();
  EXPECT_EQ(choose(s, {-most, 0.0F}, 0, {0}), 1U);
  p.repetition_penalty = 0.01F;
  auto inverse = made(p, 2);
  EXPECT_EQ(choose(inverse, {most, 0.0F}, 0, {0}), 0U);
  EXPECT_EQ(choose(inverse, {most, -most}, 0, {}), 0U);
}

TEST(sampler, excluded_tokens_are_never_chosen) {
  auto s = made(greedy(), 4, {3, 0, 3});
  EXPECT_EQ(choose(s, {9, 1, 2, 9}), 2U);
  auto random = made(plain(), 4, {3, 0});
  for (std::uint64_t i = 0; i < 500; ++i) {
    const token_id id = choose(random, {9, 1, 2, 9}, i);
    EXPECT_TRUE(id == 1 || id == 2);
  }
  EXPECT_FALSE(sampler::create(plain(), 2, std::vector<token_id>{2}));
  EXPECT_FALSE(sampler::create(plain(), 2, std::vector<token_id>{0, 1}));
  EXPECT_FALSE(sampler::create(plain(), 0));
}

TEST(sampler, logits_that_are_not_finite_are_an_error) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
    for (const auto& parameters : {greedy(), plain()}) {
      auto s = made(parameters, 3);
      const auto failed = s.sample(std::vector<float>{1.0F, 2.0F, bad}, {}, 0);
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error().code, error_code::not_finite);
      EXPECT_EQ(failed.error().where, "head");
      EXPECT_THAT(failed.error().message, HasSubstr("the logit of token 2 is "));
    }
  }
}

// Peaks only spare looking: what a device says of its logits changes no choice.
TEST(sampler, peaks_that_are_given_change_no_choice) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> logits(1000);
  for (float& l : logits) l = normal(random);
  logits[300] = logits[700] = 9.0F;  // equal: the lower id
  std::vector<float> peaks;
  ASSERT_TRUE(find_peaks(logits, peaks));
  ASSERT_THAT(peaks, testing::SizeIs(4));
  EXPECT_EQ(peaks[1], 9.0F);
  auto few = plain();
  few.top_k = 5;
  auto penalised = greedy();
  penalised.repetition_penalty = 2.0F;
  const std::vector<token_id> history = {300, 700}, excluded = {301, 302};
  for (const auto& parameters : {greedy(), few, plain(), penalised}) {
    auto with = made(parameters, logits.size(), excluded);
    auto without = made(parameters, logits.size(), excluded);
    for (std::uint64_t position = 0; position < 20; position++) {
      const auto chosen = with.sample({logits, peaks}, history, position);
      ASSERT_TRUE(chosen);
      EXPECT_EQ(*chosen, choose(without, logits, position, history));
    }
  }
  auto best_is_left_out = made(greedy(), logits.size(), {300, 700});
  const auto second = best_is_left_out.sample({logits, peaks}, {}, 0);
  ASSERT_TRUE(second);
  EXPECT_LT(logits[*second], 9.0F);
  auto s = made(greedy(), logits.size());
  EXPECT_EQ(choose(s, logits), 300U);
  logits[900] = peaks[3] = std::numeric_limits<float>::quiet_NaN();
  const auto failed = s.sample({logits, peaks}, {}, 0);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("the logit of token 900 is "));
}

TEST(sampler, wrong_sizes_are_an_error) {
  auto p = greedy();
  p.repetition_penalty = 1.1F;
  auto s = made(p, 3);
  EXPECT_FALSE(s.sample(std::vector<float>{1.0F, 2.0F}, {}, 0));
  const auto history = s.sample(std::vector<float>{1, 2, 3}, std::vector<token_id>{3}, 0);
  ASSERT_FALSE(history);
  EXPECT_EQ(history.error().code, error_code::invalid_input);
  EXPECT_THAT(history.error().message, HasSubstr("token 3 of the history"));
}

struct bad_parameters {
  const char* name;
  sampling_parameters values;
};

TEST(sampler, parameters_out_of_range_are_named_with_their_value) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const bad_parameters bad[]{
      {"temperature is -1", {.temperature = -1.0F}},
      {"temperature is 101", {.temperature = 101.0F}},
      {"temperature is nan", {.temperature = nan}},
      {"top_p is 0", {.top_p = 0.0F}},
      {"top_p is 1.5", {.top_p = 1.5F}},
      {"top_p is nan", {.top_p = nan}},
      {"min_p is -0.1", {.min_p = -0.1F}},
      {"min_p is 2", {.min_p = 2.0F}},
      {"min_p is nan", {.min_p = nan}},
      {"repetition_penalty is 0", {.repetition_penalty = 0.0F}},
      {"repetition_penalty is 1000", {.repetition_penalty = 1000.0F}},
      {"repetition_penalty is nan", {.repetition_penalty = nan}},
  };
  for (const auto& b : bad) {
    const auto checked = validate(b.values);
    ASSERT_FALSE(checked) << b.name;
    EXPECT_THAT(checked.error().message, HasSubstr(b.name));
    EXPECT_THAT(checked.error().message, HasSubstr("allowed is"));
    EXPECT_FALSE(sampler::create(b.values, 10));
  }
  EXPECT_TRUE(validate(sampling_parameters{}));
}

TEST(sampler, allocates_nothing_per_token) {
  auto penalised = sampling_parameters{.repetition_penalty = 1.1F};
  auto all = plain();
  all.top_p = 0.9F;
  const auto logits = random_logits(20000, 1);
  const std::vector<token_id> history{1, 2, 3};
  for (const auto& parameters : {penalised, all, plain(), greedy()}) {
    auto s = made(parameters, logits.size());
    const std::size_t before = test::allocations();
    for (std::uint64_t i = 0; i < 5; ++i) {
      static_cast<void>(s.sample(logits, history, i));
    }
    EXPECT_EQ(test::allocations(), before);
  }
  const std::size_t before = test::allocations();
  const std::vector<int> one(1);
  EXPECT_EQ(test::allocations(), before + 1) << "the counter counts";
}

}  // namespace
}  // namespace terrane::engine

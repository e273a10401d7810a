#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/placement/difference.hpp"
#include "tests/policies/placement_cases.hpp"

namespace terrane::policies::tests {
namespace {

using placement::difference;
using placement::placed;
using placement::request;
using ::testing::HasSubstr;

constexpr std::uint64_t mib = 1U << 20, gib = 1U << 30;

request machine_of_two() {
  request r = transformer(4, 40 * mib, 120 * mib, 64 * 1024);
  add_device(r, "cpu", 16 * gib, 40e9);
  add_device(r, "gpu", 1 * gib, 900e9);
  return r;
}

TEST(placement_difference, tells_moves_bytes_and_times) {
  const request r = machine_of_two();
  placed target(10, 1);
  target[9] = 0;
  const difference d = placement::compare(r, {placed(10, 0), {}}, target);
  EXPECT_EQ(d.moves.size(), 9U);
  EXPECT_GT(d.gain_s(), 0);
  ASSERT_TRUE(d.sequence.has_value()) << d.why_no_sequence;
  EXPECT_LT(placement::pays_after_tokens(d), 1e4);
  const std::string text = placement::to_text(r, d);
  EXPECT_THAT(text, HasSubstr("9 parts would move, 832 MiB"));
  EXPECT_THAT(text, HasSubstr("embedding to layer.3.ffn, 9 parts: cpu -> gpu"));
  EXPECT_THAT(placement::to_json(r, d), HasSubstr("\"part\":\"layer.0.attn\",\"from\":\"cpu\""));
}

TEST(placement_difference, counts_a_matrix_that_parts_share_once) {
  request r = machine_of_two();
  for (const std::size_t p : {0U, 9U}) {
    r.parts[p].shared = 0;
    r.parts[p].shared_bytes = 30 * mib;
    r.parts[p].weight_bytes = 30 * mib;
  }
  placed target(10, 0);
  target[0] = target[9] = 1;
  const difference both = placement::compare(r, {placed(10, 0), {}}, target);
  EXPECT_EQ(both.bytes, 30 * mib);
  ASSERT_TRUE(both.sequence.has_value());
  EXPECT_EQ(both.sequence->bytes, 30 * mib);
  placed one_there(10, 0);
  one_there[0] = 1;
  const difference second = placement::compare(r, {one_there, {}}, target);
  EXPECT_EQ(second.moves.size(), 1U);
  EXPECT_EQ(second.bytes, 0U);
}

TEST(placement_difference, says_what_blocks) {
  request r = machine_of_two();
  r.devices[1].budget_bytes = 100 * mib;
  const difference d = placement::compare(r, {placed(10, 0), {}}, placed(10, 1));
  EXPECT_FALSE(d.sequence.has_value());
  EXPECT_THAT(placement::to_text(r, d), HasSubstr("no safe sequence: "));
  EXPECT_THAT(placement::to_json(r, d), HasSubstr("\"blocked\":"));
  EXPECT_GT(placement::pays_after_tokens(d), 1e300);
}

TEST(placement_difference, of_a_placement_and_itself_is_nothing) {
  const request r = machine_of_two();
  EXPECT_EQ(placement::to_text(r, placement::compare(r, {placed(10, 0), {}}, placed(10, 0))),
            "the same placement: nothing would move\n");
}

}  // namespace
}  // namespace terrane::policies::tests

#include "policies/explain/explain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace terrane::policies {
namespace {

using testing::HasSubstr;
using testing::Not;

decision_record with_moves(int layers) {
  decision_record r;
  r.id = 7;
  r.policy = "spill";
  r.object = "vulkan:x";
  for (int l = layers - 1; l >= 0; l--) {
    planned_move m;
    m.subject = "layer." + std::to_string(l) + ".ffn";
    m.from = "vulkan:x";
    m.to = "cpu";
    m.bytes = 1 << 20;
    m.reason = "memory is short";
    r.moves.push_back(m);
  }
  return r;
}

TEST(explain_text, tells_a_few_moves_one_by_one) {
  const std::string text = explain_text(with_moves(2));
  EXPECT_THAT(text, HasSubstr("move layer.1.ffn from vulkan:x to cpu, 1 MiB: memory is short."));
  EXPECT_THAT(text, HasSubstr("move layer.0.ffn from"));
}

TEST(explain_text, tells_moves_that_are_alike_together) {
  const std::string text = explain_text(with_moves(30));
  EXPECT_THAT(
      text, HasSubstr("move 30 parts (layer.29.ffn to layer.0.ffn) from vulkan:x to cpu, 30 MiB"));
  EXPECT_THAT(text, Not(HasSubstr("layer.12.ffn")));
}

TEST(explain_text, keeps_apart_what_goes_elsewhere) {
  decision_record r = with_moves(10);
  r.moves[5].to = "vulkan:y";
  const std::string text = explain_text(r);
  EXPECT_THAT(text, HasSubstr("move 5 parts (layer.9.ffn to layer.5.ffn)"));
  EXPECT_THAT(text, HasSubstr("move layer.4.ffn from vulkan:x to vulkan:y"));
  EXPECT_THAT(text, HasSubstr("move 4 parts (layer.3.ffn to layer.0.ffn)"));
}

}  // namespace
}  // namespace terrane::policies

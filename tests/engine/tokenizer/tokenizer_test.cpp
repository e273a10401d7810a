#include "engine/tokenizer/tokenizer.hpp"

#include <chrono>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/tokenizer/utf8.hpp"
#include "tests/engine/tokenizer/small_vocabulary.hpp"

namespace terrane::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using ids = std::vector<token_id>;

tokenizer small(const std::function<void(vocabulary&)>& change = [](vocabulary&) {}) {
  vocabulary words = test::small_vocabulary();
  change(words);
  auto made = tokenizer::make(std::move(words));
  EXPECT_TRUE(made) << to_string(made.error());
  return *std::move(made);
}

std::string refusal(const std::function<void(vocabulary&)>& change) {
  vocabulary words = test::small_vocabulary();
  change(words);
  const auto made = tokenizer::make(std::move(words));
  return made ? "" : to_string(made.error());
}

ids plain(const tokenizer& t, std::string_view text) {
  return t.encode(text, special_text::as_text).value();
}

ids special(const tokenizer& t, std::string_view text) {
  return t.encode(text, special_text::as_tokens).value();
}

TEST(tokenizer, merges_the_earliest_listed_pair_first) {
  const tokenizer t = small();
  EXPECT_THAT(plain(t, "hell"), ElementsAre(test::hell));
  EXPECT_THAT(plain(t, "ab"), ElementsAre(test::ab));
  EXPECT_THAT(plain(t, "abcd"), ElementsAre('a', test::bc, 'd'));  // "b c" ranks above "a b"
  EXPECT_THAT(plain(t, "x hell"), ElementsAre('x', test::space_hell));
}

TEST(tokenizer, merges_equal_pairs_from_the_left) {
  EXPECT_THAT(plain(small(), "lll"), ElementsAre(test::ll, 'l'));
  EXPECT_THAT(plain(small(), "lllll"), ElementsAre(test::ll, test::ll, 'l'));
}

TEST(tokenizer, forgets_a_pair_whose_left_side_has_grown) {
  // "h e" is found first but ranks last; by its turn the h has become "hel", before another e.
  const tokenizer t = small([](vocabulary& v) { v.merges = {"e l", "h el", "h e"}; });
  EXPECT_THAT(plain(t, "hele"), ElementsAre('h', 'e', 'l', 'e'));
}

TEST(tokenizer, a_piece_that_is_a_token_stays_whole_where_the_rule_says_so) {
  const auto llama = [](vocabulary& v) {
    v.pre_tokenizer = "llama-bpe";
    v.merges = {"b c"};
  };
  EXPECT_THAT(plain(small(llama), "hell"), ElementsAre(test::hell));
  EXPECT_THAT(plain(small([](vocabulary& v) { v.merges = {"b c"}; }), "hell"),
              ElementsAre('h', 'e', 'l', 'l'));
}

TEST(tokenizer, parses_special_tokens_only_when_asked) {
  const tokenizer t = small();
  EXPECT_THAT(special(t, "a<|im_end|><|im_start|>"),
              ElementsAre('a', test::im_end, test::im_start));
  EXPECT_EQ(plain(t, "<|im_end|>").size(), 10u);
}

TEST(tokenizer, finds_user_defined_tokens_always) {
  EXPECT_THAT(plain(small(), "a<user>b"), ElementsAre('a', test::user, 'b'));
  EXPECT_THAT(special(small(), "a<user>b"), ElementsAre('a', test::user, 'b'));
}

TEST(tokenizer, text_never_becomes_a_control_token) {
  // By a merge: "ab" and "c" would join into the control token "abc".
  const auto first_ab = [](vocabulary& v) { v.merges = {"a b", "ab c"}; };
  EXPECT_THAT(plain(small(first_ab), "abc"), ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(special(small(first_ab), "abc"), ElementsAre(test::control_abc));
  // As a whole piece.
  EXPECT_THAT(plain(small([](vocabulary& v) {
                      v.pre_tokenizer = "llama-bpe";
                      v.merges = {"a b"};
                    }),
                    "abc"),
              ElementsAre(test::ab, 'c'));
  // By a wrong type in the file.
  const tokenizer wrong = small([](vocabulary& v) {
    v.types[test::im_end] = static_cast<int>(token_type::user_defined);
    v.types[test::im_start] = static_cast<int>(token_type::normal);
  });
  EXPECT_EQ(plain(wrong, "<|im_end|>").size(), 10u);
  EXPECT_TRUE(wrong.is_control(test::im_start));
}

TEST(tokenizer, longer_special_tokens_win_where_they_overlap) {
  const tokenizer t = small([](vocabulary& v) {
    for (const char* text : {"<a>", "a><b>x", "<a><"}) {
      v.tokens.emplace_back(text);
      v.types.push_back(static_cast<int>(token_type::control));
    }
  });
  EXPECT_THAT(special(t, "<a><b>x"), ElementsAre('<', 268));  // not "<a><", which is further left
  EXPECT_THAT(special(t, "<a><a>"), ElementsAre(269, 'a', '>'));
  EXPECT_THAT(special(t, "<a><a><a"), ElementsAre(269, 'a', '>', '<', 'a'));
  EXPECT_THAT(special(t, "<a> <a>"), ElementsAre(267, ' ', 267));
}

TEST(tokenizer, a_shorter_special_token_takes_the_place_that_a_longer_one_leaves) {
  const tokenizer t = small([](vocabulary& v) {
    for (const char* text : {"xx", "xxx", "xxxxx", "xyz!"}) {
      v.tokens.emplace_back(text);
      v.types.push_back(static_cast<int>(token_type::user_defined));
    }
  });
  EXPECT_THAT(plain(t, "xxxxxxxx"), ElementsAre(269, 268));  // 5 and 3
  EXPECT_THAT(plain(t, "xxxxxxx"), ElementsAre(269, 267));   // 5 and 2
  EXPECT_THAT(plain(t, "xxxxyz!"), ElementsAre(268, 270));   // the last x belongs to "xyz!"
  EXPECT_THAT(plain(t, "xxxyz!"), ElementsAre(267, 270));
  EXPECT_EQ(plain(t, std::string(1'000'000, 'x')).size(), 200'000u);
}

TEST(tokenizer, takes_any_bytes) {
  const tokenizer t = small();
  const ids replaced = {0xEF, 0xBF, 0xBD};
  EXPECT_EQ(plain(t, "\xFF"), replaced);
  EXPECT_EQ(plain(t, "\xE2\x82"), (ids{0xEF, 0xBF, 0xBD, 0xEF, 0xBF, 0xBD}));
  EXPECT_EQ(plain(t, "\xF4\x90\x80\x80").size(), 12u);  // above U+10FFFF
  EXPECT_EQ(plain(t, "\xC0\x80"), ids{0});  // overlong: what it means, as llama.cpp does
  EXPECT_EQ(plain(t, "\xED\xA0\x80"), (ids{0xED, 0xA0, 0x80}));
  EXPECT_EQ(plain(t, std::string_view("\0", 1)), ids{0});
  EXPECT_EQ(plain(t, ""), ids{});
  std::string every;
  for (int round = 0; round < 8; ++round) {
    for (int byte = 0; byte < 256; ++byte) {
      every.push_back(static_cast<char>(byte * 37 + round));
    }
  }
  EXPECT_EQ(t.decode(plain(t, every)), repair_utf8(every));
}

TEST(tokenizer, leaves_out_bytes_that_no_token_spells) {
  const tokenizer t = small([](vocabulary& v) { v.tokens['q'] = "[spare]"; });
  EXPECT_EQ(plain(t, "aqa"), (ids{'a', 'a'}));
}

TEST(tokenizer, a_merge_into_no_token_falls_apart_into_bytes) {
  const tokenizer t = small([](vocabulary& v) { v.merges = {"x y", "xy z"}; });
  EXPECT_EQ(plain(t, "xyz"), (ids{'x', 'y', 'z'}));
}

TEST(tokenizer, time_grows_with_length_and_not_its_square) {
  const tokenizer t = small();
  const std::string word(1'000'000, 'l');
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(plain(t, word).size(), word.size() / 2);
  // Seconds where a quadratic method would take hours.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_EQ(plain(t, std::string(300'000, ' ')).size(), 300'000u);
  EXPECT_EQ(special(t, std::string(300'000, '<')).size(), 300'000u);
}

TEST(tokenizer, decodes_text_and_leaves_control_tokens_out) {
  const tokenizer t = small();
  EXPECT_EQ(t.decode(ids{test::im_start, test::hell, test::space_hell, test::user, test::im_end}),
            "hell hell<user>");
  EXPECT_EQ(t.text(test::im_end), "<|im_end|>");
  EXPECT_EQ(t.text(test::space_hell), "Ġhell");
  EXPECT_EQ(t.bytes(test::empty), "");
  EXPECT_EQ(t.bytes(100000), "");  // logits may have more rows than the vocabulary
  EXPECT_EQ(t.text(100000), "");
  EXPECT_FALSE(t.is_control(100000));
}

TEST(tokenizer, keeps_characters_outside_the_byte_alphabet) {
  const tokenizer t = small([](vocabulary& v) {
    v.tokens.emplace_back("x\xE6\xBC\xA2 y");
    v.types.push_back(static_cast<int>(token_type::normal));
  });
  EXPECT_EQ(t.bytes(267), "x\xE6\xBC\xA2 y");
}

TEST(tokenizer, stops_at_what_the_file_says_and_at_known_ends) {
  const tokenizer t = small([](vocabulary& v) {
    v.eos = 'e';
    v.eot = 't';
    v.tokens.emplace_back("<|eot_id|>");
    v.types.push_back(static_cast<int>(token_type::control));
  });
  EXPECT_THAT(t.stop_tokens(), ElementsAre('e', 't', test::im_end, 267));
  EXPECT_TRUE(t.is_stop('e'));
  EXPECT_FALSE(t.is_stop('f'));
}

TEST(tokenizer, begins_with_bos_as_the_file_or_the_rule_says) {
  EXPECT_EQ(small().leading_token(), std::nullopt);
  EXPECT_EQ(small([](vocabulary& v) { v.add_bos = true; }).leading_token(), test::im_start);
  const auto llama = [](vocabulary& v) { v.pre_tokenizer = "llama-bpe"; };
  EXPECT_EQ(small(llama).leading_token(), test::im_start);
  const auto llama_without = [](vocabulary& v) {
    v.pre_tokenizer = "llama-bpe";
    v.add_bos = false;
  };
  EXPECT_EQ(small(llama_without).leading_token(), std::nullopt);
}

TEST(tokenizer, refuses_what_it_does_not_know_by_name) {
  EXPECT_THAT(refusal([](vocabulary& v) { v.model = "bert"; }),
              testing::AllOf(HasSubstr("tokenizer.ggml.model"), HasSubstr("'bert'"),
                             HasSubstr("supported: gpt2"), HasSubstr("llama")));
  EXPECT_THAT(refusal([](vocabulary& v) { v.pre_tokenizer = "viking"; }),
              testing::AllOf(HasSubstr("tokenizer.ggml.pre"), HasSubstr("'viking'"),
                             HasSubstr("gpt-2, mpt, smollm")));
  EXPECT_THAT(refusal([](vocabulary& v) { v.pre_tokenizer.clear(); }),
              HasSubstr("does not name its pre-tokenizer"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.model.clear(); }),
              HasSubstr("does not name its tokenizer"));
}

TEST(tokenizer, refuses_hostile_vocabularies) {
  EXPECT_THAT(refusal([](vocabulary& v) {
                v.tokens.clear();
                v.types.clear();
                v.bos.reset();
                v.eos.reset();
              }),
              HasSubstr("no tokens"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.types.pop_back(); }),
              HasSubstr("266 types for 267 tokens"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.types[7] = 9; }), HasSubstr("token 7 has type 9"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.types[7] = -1; }), HasSubstr("token 7 has type -1"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.bos = 267; }),
              HasSubstr("tokenizer.ggml.bos_token_id: token 267 does not exist"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.eot = 0xFFFFFFFF; }),
              HasSubstr("tokenizer.ggml.eot_token_id: token 4294967295"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.tokens[test::he] = "ll"; }),
              HasSubstr("tokens 258 and 259 have the same text"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.merges.emplace_back("nospace"); }),
              HasSubstr("merge 7 is not two parts"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.merges.emplace_back(""); }), HasSubstr("merge 7"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.merges.emplace_back(" "); }), HasSubstr("merge 7"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.merges.emplace_back("a "); }), HasSubstr("merge 7"));
  EXPECT_THAT(refusal([](vocabulary& v) {
                v.add_bos = true;
                v.bos.reset();
              }),
              HasSubstr("tokenizer.ggml.add_bos_token"));
}

}  // namespace
}  // namespace terrane::engine

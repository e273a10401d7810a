#include "engine/tokenizer/sentence_pieces.hpp"

#include <chrono>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/tokenizer/tokenizer.hpp"
#include "tests/engine/tokenizer/small_sentence_pieces.hpp"

namespace terrane::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace test::pieces;
using ids = std::vector<token_id>;

tokenizer small(const std::function<void(vocabulary&)>& change = [](vocabulary&) {}) {
  vocabulary words = test::pieces::small_vocabulary();
  change(words);
  auto made = tokenizer::make(std::move(words));
  EXPECT_TRUE(made) << to_string(made.error());
  return *std::move(made);
}

tokenizer without_prefix() {
  return small([](vocabulary& v) { v.add_space_prefix = false; });
}

std::string refusal(const std::function<void(vocabulary&)>& change) {
  vocabulary words = test::pieces::small_vocabulary();
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

TEST(sentence_pieces, joins_the_pair_of_the_highest_score_first) {
  // "he" (-1), then "lo" (-1.5); so "ll" (-2) and "hell" (-4) are never met.
  EXPECT_THAT(plain(without_prefix(), "hello"), ElementsAre(he, l, lo));
  EXPECT_THAT(plain(without_prefix(), "hell"), ElementsAre(hell));
  EXPECT_THAT(plain(without_prefix(), "lll"), ElementsAre(ll, l));  // the leftmost of equals
}

TEST(sentence_pieces, begins_with_a_space_unless_the_file_says_otherwise) {
  EXPECT_THAT(plain(small(), "he"), ElementsAre(mark_he));
  EXPECT_THAT(plain(without_prefix(), "he"), ElementsAre(he));
  EXPECT_THAT(plain(small(), " he"), ElementsAre(mark, mark_he));
  EXPECT_THAT(plain(small(), ""), ElementsAre());
  EXPECT_THAT(small().encode("he", special_text::as_text, {true, {}}).value(), ElementsAre(he));
}

TEST(sentence_pieces, begins_anew_after_each_special_token) {
  EXPECT_THAT(special(small(), "he</s>he"), ElementsAre(mark_he, eos, mark_he));
  EXPECT_THAT(plain(small(), "he<user>he"), ElementsAre(mark_he, user, mark_he));
  EXPECT_THAT(special(small(), "<s></s>"), ElementsAre(bos, eos));
}

TEST(sentence_pieces, spells_bytes_that_are_no_pieces) {
  EXPECT_THAT(plain(without_prefix(), "hx"), ElementsAre(h, first_byte + 'x'));
  EXPECT_THAT(plain(without_prefix(), "\xC3\xA9"),
              ElementsAre(first_byte + 0xC3, first_byte + 0xA9));
  EXPECT_THAT(plain(without_prefix(), "\n"), ElementsAre(first_byte + '\n'));
  // What is not UTF-8 goes with the bytes that its first byte announces.
  EXPECT_THAT(plain(without_prefix(), "\xFFhe"),
              ElementsAre(first_byte + 0xFF, first_byte + 'h', first_byte + 'e'));
  EXPECT_THAT(plain(without_prefix(), "\x80he"), ElementsAre(first_byte + 0x80, he));
}

TEST(sentence_pieces, without_byte_tokens_there_is_the_unknown_one) {
  const auto no_bytes = [](vocabulary& v) {
    v.add_space_prefix = false;
    for (token_id id = first_byte; id < mark; ++id) {
      v.tokens[id] = "[" + std::to_string(id) + "]";
      v.types[id] = static_cast<int>(token_type::normal);
    }
  };
  EXPECT_THAT(plain(small(no_bytes), "hx\xC3\xA9"), ElementsAre(h, unknown, unknown));
  EXPECT_THAT(plain(small([&](vocabulary& v) {
                      no_bytes(v);
                      v.types[unknown] = static_cast<int>(token_type::normal);
                    }),
                    "hxe"),
              ElementsAre(h, e));
}

TEST(sentence_pieces, text_never_becomes_a_control_or_byte_token) {
  // Pieces that would spell "</s>" and "<0x0A>" joint by joint.
  const tokenizer t = small([](vocabulary& v) {
    v.add_space_prefix = false;
    for (const char* text :
         {"<", "/", "s", ">", "</", "</s", "0", "x", "A", "<0", "<0x", "<0x0", "<0x0A"}) {
      v.tokens.emplace_back(text);
      v.types.push_back(1);
      v.scores.push_back(-1);
    }
  });
  EXPECT_EQ(t.decode(plain(t, "</s>")), "</s>");
  EXPECT_THAT(plain(t, "</s>"), testing::Not(testing::Contains(eos)));
  EXPECT_EQ(t.decode(plain(t, "<0x0A>")), "<0x0A>");
  EXPECT_THAT(special(t, "</s>"), ElementsAre(eos));
  // By a wrong type in the file.
  const tokenizer wrong = small([](vocabulary& v) { v.types[eos] = 4; });
  EXPECT_TRUE(wrong.is_control(eos));
  EXPECT_TRUE(wrong.is_stop(eos));
}

TEST(sentence_pieces, an_end_tag_elsewhere_in_the_vocabulary_is_text) {
  const tokenizer t = small([](vocabulary& v) {
    v.tokens[eos] = "<eos>";
    v.tokens.emplace_back("</s>");
    v.types.push_back(static_cast<int>(token_type::user_defined));
    v.scores.push_back(0);
  });
  EXPECT_THAT(plain(t, "</s>"), ElementsAre(user + 1));
  EXPECT_FALSE(t.is_stop(user + 1));
}

TEST(sentence_pieces, decodes_to_the_bytes_that_were_encoded) {
  std::string every;
  for (int round = 0; round < 8; ++round) {
    for (int byte = 0; byte < 256; ++byte) {
      every.push_back(static_cast<char>(byte * 37 + round));
    }
  }
  const tokenizer t = without_prefix();
  EXPECT_EQ(t.decode(plain(t, "hello  hell\n")), "hello  hell\n");
  EXPECT_EQ(unmark_spaces(t.decode(plain(t, every))), every);
  EXPECT_EQ(t.bytes(mark_he), " he");
  EXPECT_EQ(t.bytes(bos), "");
  EXPECT_EQ(t.bytes(unknown), "");
}

TEST(sentence_pieces, begins_with_bos_unless_the_file_says_otherwise) {
  EXPECT_EQ(small().leading_token(), bos);
  EXPECT_EQ(small([](vocabulary& v) { v.add_bos = false; }).leading_token(), std::nullopt);
}

TEST(sentence_pieces, phi3_drops_white_space_after_special_tokens) {
  const auto phi3 = [](vocabulary& v) { v.model_name = "Phi-3 mini"; };
  EXPECT_THAT(special(small(phi3), "</s> \n he"), ElementsAre(eos, mark_he));
  EXPECT_THAT(special(small(phi3), "</s> \n "), ElementsAre(eos));
  EXPECT_THAT(plain(small(phi3), "<user> he"), ElementsAre(user, mark_he));
  EXPECT_THAT(special(small(phi3), "<s> he"), ElementsAre(bos, mark, mark_he));  // an exception
  EXPECT_THAT(small(phi3).encode("\nhe", special_text::as_text, {false, eos}).value(),
              ElementsAre(mark_he));
  EXPECT_THAT(special(small(), "</s> he"), ElementsAre(eos, mark, mark_he));
}

TEST(sentence_pieces, time_grows_with_length_and_not_its_square) {
  const tokenizer t = without_prefix();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(plain(t, std::string(1'000'000, 'l')).size(), 500'000u);
  EXPECT_EQ(plain(t, std::string(300'000, ' ')).size(), 150'000u);
  EXPECT_EQ(plain(t, std::string(300'000, '\xFF')).size(), 300'000u);
  // Seconds where a quadratic method would take hours.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(sentence_pieces, refuses_hostile_vocabularies) {
  EXPECT_THAT(refusal([](vocabulary& v) { v.scores.clear(); }),
              HasSubstr("tokenizer.ggml.scores: 0 scores for 271 tokens"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.scores.pop_back(); }),
              HasSubstr("270 scores for 271 tokens"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.scores[he] = std::nanf(""); }),
              HasSubstr("tokenizer.ggml.scores: the score of token 264 is not a number"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.tokens[he] = "ll"; }),
              HasSubstr("tokenizer.ggml.tokens: tokens 264 and 265 have the same text"));
  EXPECT_THAT(refusal([](vocabulary& v) { v.tokens[eos] = "ll"; }),
              HasSubstr("tokens 2 and 265 have the same text"));
  for (const char* text : {"", "<0x4>", "<0x4g>", "<0x4a>", "<0x041>", "x"}) {
    EXPECT_THAT(refusal([&](vocabulary& v) { v.tokens[first_byte + 65] = text; }),
                HasSubstr("tokenizer.ggml.tokens: token 68 is a byte, but its text is not"));
  }
  EXPECT_THAT(refusal([](vocabulary& v) { v.eos = 271; }),
              HasSubstr("tokenizer.ggml.eos_token_id: token 271 does not exist"));
  EXPECT_EQ(refusal([](vocabulary& v) {
              v.scores[he] = std::numeric_limits<float>::infinity();
              v.scores[ll] = -std::numeric_limits<float>::infinity();
            }),
            "");
}

// Against the definition, spelt out slowly.
ids joined_slowly(const std::vector<std::string>& tokens, const std::vector<float>& scores,
                  const std::string& text) {
  std::vector<std::string> parts;
  for (const char c : text) {
    parts.emplace_back(1, c);
  }
  const auto find = [&](const std::string& part) {
    return static_cast<std::size_t>(std::find(tokens.begin(), tokens.end(), part) - tokens.begin());
  };
  for (;;) {
    std::size_t best = parts.size();
    float best_score = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const std::size_t token = find(parts[i] + parts[i + 1]);
      if (token < tokens.size() && (best == parts.size() || scores[token] > best_score)) {
        best = i;
        best_score = scores[token];
      }
    }
    if (best == parts.size()) {
      break;
    }
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  ids out;
  for (const std::string& part : parts) {
    out.push_back(static_cast<token_id>(find(part)));
  }
  return out;
}

TEST(sentence_pieces, equal_the_definition_on_random_vocabularies) {
  std::mt19937 random(11);
  const auto below = [&](std::size_t n) { return random() % n; };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> tokens = {"a", "b", "c"};
    std::set<std::string> known(tokens.begin(), tokens.end());
    for (std::size_t count = 3 + below(25); tokens.size() < count;) {
      const std::string joined = tokens[below(tokens.size())] + tokens[below(tokens.size())];
      if (known.insert(joined).second) {
        tokens.push_back(joined);
      }
    }
    std::vector<float> scores;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      scores.push_back(static_cast<float>(below(6)));  // equal ones too
    }
    const auto pieces = sentence_pieces::make(
        tokens, std::vector<token_type>(tokens.size(), token_type::normal), scores);
    ASSERT_TRUE(pieces);
    for (int text = 0; text < 20; ++text) {
      std::string piece;
      for (std::size_t n = 1 + below(40); piece.size() < n;) {
        piece.push_back(static_cast<char>('a' + below(3)));
      }
      ids out;
      pieces->append(piece, out);
      ASSERT_EQ(out, joined_slowly(tokens, scores, piece)) << piece;
    }
  }
}

}  // namespace
}  // namespace terrane::engine

// The synthetic models of terrane-bench: right shapes, valid blocks, the same bytes for a seed.
#include "tests/bench/synth.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/chat/chat_format.hpp"
#include "engine/gguf/file.hpp"
#include "engine/tokenizer/from_gguf.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "tests/bench/synth_blocks.hpp"
#include "tests/bench/synth_plan.hpp"
#include "tests/bench/synth_vocabulary.hpp"
#include "tests/engine/gguf/temporary_folder.hpp"

namespace terrane::bench {
namespace {

using engine::gguf::file;
using engine::gguf::ggml_type;
using engine::gguf::tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// FNV-1a.
std::uint64_t hash(std::span<const std::byte> bytes) {
  std::uint64_t h = 0xCBF29CE484222325;
  for (const std::byte b : bytes) {
    h = (h ^ static_cast<std::uint8_t>(b)) * 0x100000001B3;
  }
  return h;
}

std::uint64_t bytes_of_tensors(std::string_view shape, std::string_view quant) {
  std::uint64_t sum = 0;
  const auto plan = plan_tensors(shape_named(shape).value(), quant).value();
  for (const planned_tensor& t : plan) {
    const auto& format = engine::gguf::describe(t.type);
    sum += t.shape[0] / format.block_elements * format.block_bytes * t.shape[1];
  }
  return sum;
}

class synth : public ::testing::Test {
 protected:
  file made(std::string_view shape, std::string_view quant, std::uint64_t seed = 1) {
    const auto path = folder_.at(std::string(shape) + std::string(quant) + ".gguf");
    const auto done = synthesize(shape, quant, path, seed);
    EXPECT_TRUE(done) << to_string(done.error());
    auto opened = file::open(path);
    EXPECT_TRUE(opened) << to_string(opened.error());
    return std::move(*opened);
  }
  static std::vector<std::byte> contents(const file& f, const tensor& t) {
    std::vector<std::byte> out(t.bytes);
    EXPECT_TRUE(f.read(t, out));
    return out;
  }
  test::temporary_folder folder_;
};

TEST_F(synth, published_shapes_have_the_published_sizes) {
  // The sums of all tensors of the published Q4_K_M and Q8_0 files (file sizes less their headers).
  EXPECT_EQ(bytes_of_tensors("llama-3.2-1b", "Q4_K_M"), 799'862'912U);
  EXPECT_EQ(bytes_of_tensors("llama-3.2-3b", "Q4_K_M"), 2'011'539'712U);
  EXPECT_EQ(bytes_of_tensors("llama-3.1-8b", "Q4_K_M"), 4'912'898'304U);
}

TEST_F(synth, every_quantisation_of_the_small_shapes_is_a_valid_file) {
  for (const std::string_view shape : {"tiny", "tiny-k"}) {
    for (const std::string_view quant : synth_quants()) {
      const file f = made(shape, quant);
      EXPECT_EQ(f.meta().text("general.architecture"), "llama");
      const auto hidden = f.meta().integer<std::uint64_t>("llama.embedding_length").value();
      const auto vocabulary = f.meta().texts("tokenizer.ggml.tokens").value().size();
      const auto& embedding = *f.find("token_embd.weight");
      EXPECT_THAT(embedding.shape, ElementsAre(hidden, vocabulary, 1, 1));
      EXPECT_EQ(f.find("output.weight") == nullptr, shape == "tiny");
    }
  }
}

TEST_F(synth, the_tiny_shape_is_odd_on_purpose) {
  const file f = made("tiny", "Q4_1");
  const auto shape_of = [&](const char* name) { return f.require(name).value()->shape; };
  EXPECT_EQ(f.tensors().size(), 2 + 3 * 9U);
  EXPECT_THAT(shape_of("blk.2.attn_q.weight"), ElementsAre(576, 576, 1, 1));
  EXPECT_THAT(shape_of("blk.2.attn_k.weight"), ElementsAre(576, 192, 1, 1));
  EXPECT_THAT(shape_of("blk.0.ffn_down.weight"), ElementsAre(1504, 576, 1, 1));
  EXPECT_THAT(shape_of("output_norm.weight"), ElementsAre(576, 1, 1, 1));
  EXPECT_EQ(f.find("output_norm.weight")->dimensions, 1U);
  EXPECT_EQ(f.meta().integer<std::uint32_t>("llama.attention.head_count"), 9U);
  EXPECT_EQ(f.meta().integer<std::uint32_t>("llama.attention.head_count_kv"), 3U);
  EXPECT_EQ(f.find("blk.0.attn_q.weight")->type, ggml_type::q4_1);
}

TEST_F(synth, a_mix_gives_some_matrices_more_bits) {
  const auto plan = plan_tensors(shape_named("llama-3.2-1b").value(), "Q4_K_M").value();
  std::map<std::string, ggml_type> types;
  for (const planned_tensor& t : plan) {
    types[t.name] = t.type;
  }
  EXPECT_EQ(types["token_embd.weight"], ggml_type::q6_k);
  // Of 16 layers: the first two, the last two, and every third between.
  std::set<int> more;
  for (int i = 0; i < 16; ++i) {
    const std::string at = "blk." + std::to_string(i) + ".";
    EXPECT_EQ(types[at + "attn_v.weight"], types[at + "ffn_down.weight"]);
    EXPECT_EQ(types[at + "attn_q.weight"], ggml_type::q4_k);
    if (types[at + "attn_v.weight"] == ggml_type::q6_k) {
      more.insert(i);
    }
  }
  EXPECT_THAT(more, ElementsAre(0, 1, 4, 7, 10, 13, 14, 15));
  // 576 is not a multiple of 256.
  const file tiny = made("tiny", "Q4_K_M");
  EXPECT_EQ(tiny.find("blk.0.attn_q.weight")->type, ggml_type::q5_0);
  EXPECT_EQ(tiny.find("token_embd.weight")->type, ggml_type::q8_0);
}

TEST_F(synth, a_model_can_be_talked_to) {
  for (const std::string_view shape : {"tiny", "tiny-k"}) {
    const file f = made(shape, "Q8_0");
    auto words = engine::read_vocabulary(f.meta());
    ASSERT_TRUE(words) << to_string(words.error());
    const auto tokenizer = engine::tokenizer::make(std::move(*words));
    ASSERT_TRUE(tokenizer) << to_string(tokenizer.error());
    const std::string text = "The system would make a model, layer by layer: 1 + 1\n\xC3\xA9\x01";
    const auto ids = tokenizer->encode(text, engine::special_text::as_text);
    ASSERT_TRUE(ids);
    EXPECT_LT(ids->size(), text.size()) << "no merge was used";
    EXPECT_EQ(tokenizer->decode(*ids), text);
    const auto chat = engine::chat_format::recognise(*tokenizer);
    ASSERT_TRUE(chat) << to_string(chat.error());
    EXPECT_EQ(chat->name(), "ChatML");
  }
}

TEST_F(synth, rope_factors_follow_the_llama3_rule) {
  const file f = made("tiny-k", "Q8_0");
  const tensor& t = *f.require("rope_freqs.weight").value();
  ASSERT_EQ(t.bytes, 32 * sizeof(float));
  std::vector<float> factors(32);
  ASSERT_TRUE(f.read(t, std::as_writable_bytes(std::span(factors))));
  for (int i = 0; i < 32; ++i) {
    const double wavelength = 2.0 * M_PI * std::pow(500000.0, i / 32.0);
    double expected = 1.0;
    if (wavelength > 8192.0) {
      expected = 32.0;
    } else if (wavelength > 2048.0) {
      const double smooth = (8192.0 / wavelength - 1.0) / 3.0;
      expected = 1.0 / ((1.0 - smooth) / 32.0 + smooth);
    }
    EXPECT_NEAR(factors[i], expected, expected * 1e-6) << i;
  }
  EXPECT_EQ(factors.front(), 1.0F);
  EXPECT_EQ(factors.back(), 32.0F);
}

TEST_F(synth, a_seed_gives_the_same_bytes_everywhere) {
  const file f = made("tiny-k", "Q4_K_M", 42);
  std::map<std::string, std::uint64_t> hashes;
  for (const tensor& t : f.tensors()) {
    hashes[t.name] = hash(contents(f, t));
  }
  const file again = made("tiny-k", "Q4_K_M", 42);
  const file other = made("tiny-k", "Q4_K_M", 43);
  for (const tensor& t : again.tensors()) {
    EXPECT_EQ(hash(contents(again, t)), hashes[t.name]) << t.name;
    if (t.name != "rope_freqs.weight") {
      EXPECT_NE(hash(contents(other, *other.find(t.name))), hashes[t.name]) << t.name;
    }
  }
  // As first made on x86-64 with GCC 12; these must not change.
  EXPECT_EQ(hashes["blk.0.attn_q.weight"], 0x2ad3df52265ef3a3U);
  EXPECT_EQ(hashes["blk.1.ffn_down.weight"], 0x4bee08b392b3588fU);
  EXPECT_EQ(hashes["output_norm.weight"], 0xfb88166ee0388351U);
  EXPECT_EQ(hashes["rope_freqs.weight"], 0x8d79e06a911e26fbU);
}

TEST_F(synth, how_a_tensor_is_cut_does_not_matter) {
  const weight_distribution weights{0.0, 0.05};
  std::vector<std::byte> whole(100 * 144);
  fill_blocks(ggml_type::q4_k, weights, 7, 0, whole);
  std::vector<std::byte> rest(40 * 144);
  fill_blocks(ggml_type::q4_k, weights, 7, 60, rest);
  EXPECT_TRUE(std::ranges::equal(rest, std::span(whole).last(rest.size())));
}

TEST_F(synth, reports_its_progress_and_refuses_unknown_names) {
  std::uint64_t last = 0;
  std::uint64_t total = 0;
  ASSERT_TRUE(synthesize("tiny", "F16", folder_.at("m.gguf"), 1,
                         [&](std::uint64_t done, std::uint64_t all) {
                           EXPECT_GT(done, last);
                           last = done;
                           total = all;
                         }));
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, bytes_of_tensors("tiny", "F16"));

  const auto shape = synthesize("llama-9", "F16", folder_.at("n.gguf"), 1);
  ASSERT_FALSE(shape);
  EXPECT_THAT(shape.error().message, HasSubstr("'llama-9'; known are llama-3.2-1b"));
  const auto quant = synthesize("tiny", "Q9", folder_.at("n.gguf"), 1);
  ASSERT_FALSE(quant);
  EXPECT_THAT(quant.error().message, HasSubstr("'Q9'; known are F32"));
  EXPECT_FALSE(std::filesystem::exists(folder_.at("n.gguf")));
}

TEST(synth_vocabulary, is_valid_at_every_size) {
  for (const std::uint32_t size : {260U, 300U, 515U, 128256U}) {
    const auto v = make_vocabulary(size);
    ASSERT_EQ(v.tokens.size(), size);
    ASSERT_EQ(v.token_types.size(), size);
    const std::set<std::string> distinct(v.tokens.begin(), v.tokens.end());
    EXPECT_EQ(distinct.size(), size);
    EXPECT_EQ(v.tokens[v.begin_of_text], "<|begin_of_text|>");
    EXPECT_EQ(v.tokens[v.end_of_text], "<|end_of_text|>");
    EXPECT_EQ(v.tokens[v.end_of_turn], "<|im_end|>");
    EXPECT_EQ(std::ranges::count(v.token_types, 3), 4);
    EXPECT_EQ(std::set<std::string>(v.merges.begin(), v.merges.end()).size(), v.merges.size());
    for (const std::string& merge : v.merges) {
      const auto space = merge.find(' ');
      const std::string left = merge.substr(0, space);
      const std::string right = merge.substr(space + 1);
      EXPECT_TRUE(distinct.contains(left) && distinct.contains(right)) << merge;
      EXPECT_TRUE(distinct.contains(left + right)) << merge;
    }
  }
  EXPECT_GT(make_vocabulary(515).merges.size(), 100U);
}

// Decoders of the blocks, written apart from their makers: field by field from the format.
float half(const std::uint8_t* at) {
  const std::uint32_t h = at[0] | at[1] << 8;
  const int exponent = static_cast<int>(h >> 10 & 31);
  const auto mantissa = static_cast<float>(h & 1023);
  const float magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024.0F + mantissa, exponent - 25);
  EXPECT_LT(exponent, 31) << "not finite";
  return (h >> 15) != 0 ? -magnitude : magnitude;
}

void decode_small(ggml_type type, const std::uint8_t* b, std::vector<float>& out) {
  const bool five = type == ggml_type::q5_0 || type == ggml_type::q5_1;
  const bool has_min = type == ggml_type::q4_1 || type == ggml_type::q5_1;
  const float d = half(b);
  const float m = has_min ? half(b + 2) : -d * (five ? 16.0F : 8.0F);
  const std::uint8_t* fifth = b + (has_min ? 4 : 2);
  const std::uint8_t* low = fifth + (five ? 4 : 0);
  for (int i = 0; i < 32; ++i) {
    int q = i < 16 ? low[i] & 15 : low[i - 16] >> 4;
    q |= five ? (fifth[i / 8] >> (i % 8) & 1) << 4 : 0;
    out.push_back(d * static_cast<float>(q) + m);
  }
}

void decode_k(ggml_type type, const std::uint8_t* b, std::vector<float>& out) {
  const std::uint8_t* packed = b + 4;
  const std::uint8_t* high = b + 16;
  const std::uint8_t* low = type == ggml_type::q5_k ? b + 48 : b + 16;
  for (int j = 0; j < 8; ++j) {
    const int sc = j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4;
    const int m = j < 4 ? packed[j + 4] & 63 : packed[j + 4] >> 4 | (packed[j] >> 6) << 4;
    for (int i = 0; i < 32; ++i) {
      int q = low[j / 2 * 32 + i] >> (j % 2 * 4) & 15;
      q |= type == ggml_type::q5_k ? (high[i] >> j & 1) << 4 : 0;
      out.push_back(half(b) * static_cast<float>(sc * q) - half(b + 2) * static_cast<float>(m));
    }
  }
}

void decode_6(const std::uint8_t* b, std::vector<float>& out) {
  for (int i = 0; i < 256; ++i) {
    const int part = i / 128;
    const int quarter = i % 128 / 32;
    const int lane = i % 32;
    const int low = b[part * 64 + quarter % 2 * 32 + lane] >> (quarter / 2 * 4) & 15;
    const int high = b[128 + part * 32 + lane] >> (quarter * 2) & 3;
    const int scale = static_cast<std::int8_t>(b[192 + i / 16]);
    out.push_back(half(b + 208) * static_cast<float>(scale * ((low | high << 4) - 32)));
  }
}

// ggml's kvalues_iq4nl and kvalues_mxfp4.
constexpr std::array<float, 16> iq4_values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};
constexpr std::array<float, 16> mxfp4_values = {0, 1,  2,  3,  4,  6,  8,  12,
                                                0, -1, -2, -3, -4, -6, -8, -12};

void decode_codes(float scale, const std::uint8_t* codes, const std::array<float, 16>& values,
                  std::vector<float>& out) {
  for (int i = 0; i < 32; ++i) {
    out.push_back(scale * values[i < 16 ? codes[i] & 15 : codes[i - 16] >> 4]);
  }
}

void decode_iq4_xs(const std::uint8_t* b, std::vector<float>& out) {
  for (int j = 0; j < 8; ++j) {
    const int high = (b[2] | b[3] << 8) >> (2 * j) & 3;
    const int sc = (b[4 + j / 2] >> (4 * (j % 2)) & 15) | high << 4;
    decode_codes(half(b) * static_cast<float>(sc - 32), b + 8 + 16 * j, iq4_values, out);
  }
}

// The pairs of bits of Q2_K and Q3_K.
int pair_of(const std::uint8_t* pairs, int i) {
  return pairs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

void decode_2(const std::uint8_t* b, std::vector<float>& out) {
  for (int i = 0; i < 256; ++i) {
    const int scales = b[i / 16];
    out.push_back(half(b + 80) * static_cast<float>((scales & 15) * pair_of(b + 16, i)) -
                  half(b + 82) * static_cast<float>(scales >> 4));
  }
}

void decode_3(const std::uint8_t* b, std::vector<float>& out) {
  for (int i = 0; i < 256; ++i) {
    const int j = i / 16;
    const int low = b[96 + j % 8] >> (j / 8 * 4) & 15;
    const int sc = (low | (b[104 + j % 4] >> (j / 4 * 2) & 3) << 4) - 32;
    const int q = pair_of(b + 32, i) | (b[i % 32] >> (i / 32) & 1) << 2;
    out.push_back(half(b + 108) * static_cast<float>(sc * (q - 4)));
  }
}

std::vector<float> decoded(ggml_type type, std::span<const std::byte> bytes) {
  std::vector<float> out;
  const auto block_bytes = engine::gguf::describe(type).block_bytes;
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
    const auto* b = reinterpret_cast<const std::uint8_t*>(bytes.data()) + at;
    if (type == ggml_type::f32) {
      std::memcpy(&out.emplace_back(), b, sizeof(float));
    } else if (type == ggml_type::f16) {
      out.push_back(half(b));
    } else if (type == ggml_type::q8_0) {
      for (int i = 0; i < 32; ++i) {
        out.push_back(half(b) * static_cast<float>(static_cast<std::int8_t>(b[2 + i])));
      }
    } else if (type == ggml_type::bf16) {
      const std::uint32_t bits = b[0] << 16 | b[1] << 24;
      std::memcpy(&out.emplace_back(), &bits, sizeof bits);
    } else if (type == ggml_type::iq4_nl) {
      decode_codes(half(b), b + 2, iq4_values, out);
    } else if (type == ggml_type::mxfp4) {
      decode_codes(std::ldexp(1.0F, b[0] - 128), b + 1, mxfp4_values, out);
    } else if (type == ggml_type::iq4_xs) {
      decode_iq4_xs(b, out);
    } else if (type == ggml_type::q2_k) {
      decode_2(b, out);
    } else if (type == ggml_type::q3_k) {
      decode_3(b, out);
    } else if (type == ggml_type::q6_k) {
      decode_6(b, out);
    } else if (type == ggml_type::q4_k || type == ggml_type::q5_k) {
      decode_k(type, b, out);
    } else {
      decode_small(type, b, out);
    }
  }
  return out;
}

class synth_blocks : public ::testing::TestWithParam<ggml_type> {};

TEST_P(synth_blocks, have_the_wanted_distribution) {
  const ggml_type type = GetParam();
  ASSERT_TRUE(can_synthesize(type));
  const auto& format = engine::gguf::describe(type);
  constexpr std::size_t elements = 1 << 18;
  constexpr double deviation = 1.0 / 64.0;  // 1/sqrt(4096)
  std::vector<std::byte> bytes(elements / format.block_elements * format.block_bytes);
  fill_blocks(type, {0.0, deviation}, 99, 0, bytes);
  const auto weights = decoded(type, bytes);
  ASSERT_EQ(weights.size(), elements);
  double sum = 0.0;
  double squares = 0.0;
  for (const float w : weights) {
    sum += w;
    squares += static_cast<double>(w) * w;
  }
  EXPECT_NEAR(sum / elements, 0.0, 0.03 * deviation);
  EXPECT_NEAR(std::sqrt(squares / elements), deviation, 0.06 * deviation);
}

INSTANTIATE_TEST_SUITE_P(
    each, synth_blocks,
    ::testing::Values(ggml_type::f32, ggml_type::f16, ggml_type::bf16, ggml_type::q4_0,
                      ggml_type::q4_1, ggml_type::q5_0, ggml_type::q5_1, ggml_type::q8_0,
                      ggml_type::iq4_nl, ggml_type::mxfp4, ggml_type::q2_k, ggml_type::q3_k,
                      ggml_type::q4_k, ggml_type::q5_k, ggml_type::q6_k, ggml_type::iq4_xs),
    [](const auto& of) { return std::string(engine::gguf::to_string(of.param)); });

}  // namespace
}  // namespace terrane::bench

// Every weight format against llama.cpp, on models that llama.cpp quantised
// (tests/golden/README.md), with a bound that is tight enough to notice one wrong scale or one
// swapped nibble in the file.
#include <cmath>
#include <future>

#include <gtest/gtest.h>

#include "tests/engine/live/format_models.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::test {
namespace {

// How far a logit may be from llama.cpp's, in shares of the root mean square of all logits; both
// with llama.cpp on the file as it is, which rounds activations to eight bits in its own way, and
// on the same weights in F32, where it does not. Measured: at most 0.0021 for F32, 0.0029 F16,
// 0.0080 BF16 (where llama.cpp rounds activations to BF16), 0.0476 for blocks of 32, 0.0861 for
// super-blocks, whose activations have a scale for 256. The same bits everywhere, so the bounds can
// be tight.
double bound_of(const std::string& format) {
  if (format == "F32" || format == "F16") return 0.005;
  if (format == "BF16") return 0.01;
  for (const kernels::weight_format* f : kernels::weight_formats())
    if (format == f->name && f->block_elements == 256) return 0.1;
  return 0.06;
}

format_goldens& goldens() {
  static format_goldens g;
  return g;
}

// Keeps the logits of the last tokens of a prompt.
class last_logits final : public engine::reply_observer {
 public:
  explicit last_logits(std::size_t first) : first_(first) {}
  void on_token(const engine::token_event&) override {}
  void on_logits(std::uint32_t position, std::span<const float> logits) override {
    if (position >= first_) values.insert(values.end(), logits.begin(), logits.end());
  }
  void on_end(const engine::reply_summary& s) override { done_.set_value(s); }
  engine::reply_summary wait() { return done_.get_future().get(); }
  std::vector<float> values;

 private:
  std::size_t first_;
  std::promise<engine::reply_summary> done_;
};

std::vector<float> run(const std::string& path) {
  bench::model_choice choice;
  choice.path = path;
  choice.devices = {"cpu"};
  choice.context_tokens = 64;
  choice.threads = 1;
  choice.cache_folder = test_folder() / "code";  // most kernels are those of the last format
  auto e = bench::open_model(choice);
  EXPECT_TRUE(e.has_value()) << to_string(e.error());
  if (!e) return {};
  engine::generate_request r;
  r.prompt = format_goldens::prompt();
  r.max_tokens = 0;
  r.every_logit = true;
  auto reply = std::make_shared<last_logits>(r.prompt.size() - format_goldens::kept_tokens);
  EXPECT_TRUE((*e)->generate(r, reply).has_value());
  const engine::reply_summary end = reply->wait();
  EXPECT_FALSE(end.failure.has_value()) << to_string(*end.failure);
  return reply->values;
}

// The largest distance of logits, in shares of the root mean square of `expected`: over all tokens
// of the vocabulary from `first` to before `end`.
double distance(const std::vector<float>& got, const std::vector<float>& expected,
                std::size_t first = 0, std::size_t end = format_goldens::vocabulary) {
  EXPECT_EQ(got.size(), expected.size());
  double most = 0, squares = 0;
  for (std::size_t i = 0; i < expected.size() && i < got.size(); i++) {
    const auto e = static_cast<double>(expected[i]);
    squares += e * e;
    const std::size_t token = i % format_goldens::vocabulary;
    if (token < first || token >= end) continue;
    const double difference = std::fabs(static_cast<double>(got[i]) - e);
    most = std::isfinite(difference) ? std::max(most, difference) : HUGE_VAL;
  }
  return most / std::sqrt(squares / static_cast<double>(expected.size()));
}

struct model_case {
  std::string format;
  std::uint64_t k;
};
std::string name_of(const testing::TestParamInfo<model_case>& i) {
  return i.param.format + "_" + std::to_string(i.param.k);
}

std::vector<model_case> all_models() {
  std::vector<model_case> out;
  for (const kernels::weight_format* f : kernels::weight_formats()) {
    out.push_back({f->name, 256});
    if (f->block_elements == 32) out.push_back({f->name, 576});
  }
  out.push_back({"mixed", 256});
  out.push_back({"mixed", 576});
  return out;
}

class faithful_format : public testing::TestWithParam<model_case> {};

TEST_P(faithful_format, gives_the_logits_of_llama_cpp) {
  const auto& [format, k] = GetParam();
  const format_logits expected = goldens().logits(format, k);
  const std::vector<float> got = run(goldens().model(format, k));
  const double on_file = distance(got, expected.on_file), exact = distance(got, expected.exact);
  std::printf("%s, rows of %d: %.4f from llama.cpp on the file, %.4f without its rounding\n",
              format.c_str(), static_cast<int>(k), on_file, exact);
  EXPECT_LE(on_file, bound_of(format));
  EXPECT_LE(exact, bound_of(format));
}

INSTANTIATE_TEST_SUITE_P(, faithful_format, testing::ValuesIn(all_models()), name_of);

// In a stored block: the byte and the bits of a scale to flip (of super-blocks, that of one part),
// and where the codes of its first weights are.
struct fault {
  const char* format;
  std::size_t scale;
  unsigned char scale_bits;
  std::size_t codes;
};
constexpr unsigned char times_four = 0x08;  // a bit of the exponent, in the upper byte of an f16
constexpr fault faults[] = {
    {"Q4_0", 1, times_four, 2}, {"Q4_1", 1, times_four, 4}, {"Q5_0", 1, times_four, 6},
    {"Q5_1", 1, times_four, 8}, {"Q8_0", 1, times_four, 2}, {"IQ4_NL", 1, times_four, 2},
    {"MXFP4", 0, 2, 1},         {"Q2_K", 0, 0x0F, 16},      {"Q3_K", 104, 0x03, 32},
    {"Q4_K", 4, 0x3F, 16},      {"Q5_K", 4, 0x3F, 48},      {"Q6_K", 192, 0x80, 0},
    {"IQ4_XS", 2, 0x03, 8},
};

std::string fault_name(const testing::TestParamInfo<fault>& i) { return i.param.format; }

unsigned char swapped(unsigned char byte) {
  return static_cast<unsigned char>(byte >> 4 | (byte & 15) << 4);
}

// Of the first 16 bytes of codes, the one that a swap of its nibbles changes most.
// Those of Q8_0 are whole bytes with a sign.
std::size_t most_uneven(const std::vector<std::byte>& row, std::size_t codes, bool whole_bytes) {
  auto unevenness = [&](std::size_t i) {
    const auto byte = static_cast<unsigned char>(row[i]);
    if (!whole_bytes) return std::abs((byte >> 4) - (byte & 15));
    return std::abs(static_cast<std::int8_t>(byte) - static_cast<std::int8_t>(swapped(byte)));
  };
  std::size_t best = codes;
  for (std::size_t i = codes; i < codes + 16; i++)
    if (unevenness(i) > unevenness(best)) best = i;
  return best;
}

class faulty_format : public testing::TestWithParam<fault> {};

// The head is the embedding, so a row is all that a token's logit depends on besides the layers.
// The two rows are of control tokens, which the prompt does not have.
TEST_P(faulty_format, one_wrong_scale_and_one_swapped_nibble_break_the_bound) {
  constexpr std::size_t scale_token = 258, nibble_token = 259;
  const std::string format = GetParam().format, path = goldens().model(format, 256);
  const engine::gguf::file f = engine::gguf::file::open(path).value();
  const engine::gguf::tensor& t = *f.require("token_embd.weight").value();
  std::vector<std::byte> rows(2 * t.row_bytes());
  ASSERT_TRUE(f.read_rows(t, scale_token, 2, rows).has_value());
  const std::size_t scale = GetParam().scale,
                    nibbles = most_uneven(rows, t.row_bytes() + GetParam().codes, format == "Q8_0");
  auto stored = [&](std::size_t at) { return static_cast<unsigned char>(rows[at]); };
  std::string broken =
      with_bytes(path, t.name, scale_token * t.row_bytes() + scale,
                 {static_cast<unsigned char>(stored(scale) ^ GetParam().scale_bits)});
  broken =
      with_bytes(broken, t.name, scale_token * t.row_bytes() + nibbles, {swapped(stored(nibbles))});
  const std::vector<float> got = run(broken);
  const format_logits expected = goldens().logits(format, 256);
  for (const std::vector<float>& from : {expected.on_file, expected.exact}) {
    const double others = distance(got, from, 0, scale_token),
                 wrong_scale = distance(got, from, scale_token, scale_token + 1),
                 wrong_nibble = distance(got, from, nibble_token, nibble_token + 1);
    std::printf("%s: wrong scale %.4f, swapped nibble %.4f, other tokens %.4f\n", format.c_str(),
                wrong_scale, wrong_nibble, others);
    EXPECT_GT(wrong_scale, bound_of(format));
    EXPECT_GT(wrong_nibble, bound_of(format));
    EXPECT_LE(others, bound_of(format));
  }
}

INSTANTIATE_TEST_SUITE_P(, faulty_format, testing::ValuesIn(faults), fault_name);

}  // namespace
}  // namespace terrane::test

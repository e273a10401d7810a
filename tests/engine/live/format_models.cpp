#include "tests/engine/live/format_models.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <gtest/gtest.h>

#include "engine/gguf/writer.hpp"
#include "tests/bench/synth_plan.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::test {

namespace {

using engine::gguf::ggml_type;

constexpr std::uint64_t bank_rows = 96;
constexpr std::uint32_t prompt_tokens = 24;

// In the order of make_formats.py.
constexpr const char* formats[] = {"F32",  "F16",  "BF16",   "Q4_0",  "Q4_1", "Q5_0",
                                   "Q5_1", "Q8_0", "IQ4_NL", "MXFP4", "Q2_K", "Q3_K",
                                   "Q4_K", "Q5_K", "Q6_K",   "IQ4_XS"};

bench::model_shape shape_of(std::uint64_t k) {
  bench::model_shape s{};
  s.name = k == 256 ? "formats-256" : "formats-576";
  s.pre_tokenizer = "smollm";
  s.layers = 2;
  s.hidden = s.feed_forward = static_cast<std::uint32_t>(k);
  s.heads = static_cast<std::uint32_t>(k / 64);
  s.kv_heads = k == 256 ? 2 : 3;
  s.head_size = 64;
  s.vocabulary = format_goldens::vocabulary;
  s.context = 4096;
  s.tied = true;
  s.rope_theta = 10000.0F;
  return s;
}

// Integers about normal, of deviation 37837: sums of four of 16 bits.
float bell(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t word = bench::random_word(key, index);
  std::int64_t sum = -131070;
  for (int i = 0; i < 4; i++) sum += static_cast<std::int64_t>(word >> (16 * i) & 0xFFFF);
  return static_cast<float>(sum);  // exact: below 2^18
}

// Row-major numbers of the bank.
std::vector<float> bank_numbers(std::uint64_t k) {
  std::vector<float> out(bank_rows * k);
  for (std::size_t i = 0; i < out.size(); i++)
    out[i] = std::ldexp(bell(k, i), k == 256 ? -19 : -20);
  return out;
}

std::vector<float> norm(std::size_t position, std::string_view name, std::uint64_t k) {
  const int size = name.find("attn") != name.npos ? -3 : name.find("ffn") != name.npos ? -2 : 0;
  std::vector<float> out(k);
  for (std::size_t i = 0; i < k; i++)
    out[i] = std::ldexp(1.0F + std::ldexp(bell(3000 + position, i), -19), size);
  return out;
}

std::vector<std::byte> bytes_of(const std::vector<float>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

// Nearest even. The numbers of the bank are normal in f16, or 0, or denormal.
std::uint16_t to_half(float x) {
  const double a = std::fabs(static_cast<double>(x));
  const int exponent = a == 0 ? -14 : std::max(std::ilogb(a), -14);
  const auto steps = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(a, 10 - exponent)));
  const std::uint32_t magnitude = static_cast<std::uint32_t>(exponent + 14) * 1024 + steps;
  return static_cast<std::uint16_t>(magnitude | (std::signbit(x) ? 0x8000U : 0U));
}
std::uint16_t to_bfloat(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

ggml_type type_named(std::string_view name) {
  for (const kernels::weight_format* f : kernels::weight_formats())
    if (name == f->name) return static_cast<ggml_type>(f->ggml_type);
  ADD_FAILURE() << "no format is named " << name;
  return ggml_type::f32;
}

bool is_matrix(const bench::planned_tensor& t) { return t.shape[1] > 1; }

// All matrices of one format, or of each in turn, the last format first. Rows of 576 take the ten
// formats without super-blocks.
void set_types(std::vector<bench::planned_tensor>& plan, const std::string& format,
               std::uint64_t k) {
  const std::size_t usable = k % 256 == 0 ? std::size(formats) : 10;
  std::size_t matrix = usable - 1;
  for (bench::planned_tensor& t : plan) {
    if (!is_matrix(t)) continue;
    t.type = type_named(format == "mixed" ? formats[matrix++ % usable] : format);
  }
}

}  // namespace

format_goldens::format_goldens()
    : file_(engine::gguf::file::open(std::string(TERRANE_TEST_DATA) + "/golden/formats.gguf")
                .value()) {}

std::vector<std::byte> format_goldens::contents(const std::string& tensor) const {
  const engine::gguf::tensor& t = *file_.require(tensor).value();
  std::vector<std::byte> out(t.bytes);
  EXPECT_TRUE(file_.read(t, out).has_value());
  return out;
}

std::vector<std::byte> format_goldens::bank(const std::string& format, std::uint64_t k) const {
  if (format != "F32" && format != "F16" && format != "BF16")
    return contents(format + "." + std::to_string(k) + ".rows");
  const std::vector<float> numbers = bank_numbers(k);
  if (format == "F32") return bytes_of(numbers);
  std::vector<std::byte> out(numbers.size() * 2);
  for (std::size_t i = 0; i < numbers.size(); i++) {
    const std::uint16_t bits = format == "F16" ? to_half(numbers[i]) : to_bfloat(numbers[i]);
    std::memcpy(&out[2 * i], &bits, 2);
  }
  return out;
}

std::string format_goldens::model(const std::string& format, std::uint64_t k) {
  const std::filesystem::path path =
      test_folder() / ("formats-" + format + "-" + std::to_string(k) + ".gguf");
  if (std::filesystem::exists(path)) return path;
  auto plan = bench::plan_tensors(shape_of(k), "F32").value();
  set_types(plan, format, k);
  auto out = engine::gguf::writer::create(path).value();
  bench::put_metadata(out, shape_of(k), "F32", 0);
  for (const bench::planned_tensor& t : plan)
    out.add_tensor(t.name, t.type, std::span(t.shape).first(is_matrix(t) ? 2 : 1));
  EXPECT_TRUE(out.begin_data().has_value());
  for (std::size_t position = 0; position < plan.size(); position++) {
    const bench::planned_tensor& t = plan[position];
    std::vector<std::byte> data;
    if (is_matrix(t)) {
      const std::vector<std::byte> rows = bank(std::string(engine::gguf::to_string(t.type)), k);
      const std::size_t row_bytes = rows.size() / bank_rows;
      for (std::uint64_t r = 0; r < t.shape[1]; r++) {
        const std::byte* from =
            rows.data() + bench::random_word(2000 + position, r) % bank_rows * row_bytes;
        data.insert(data.end(), from, from + row_bytes);
      }
    } else {
      data = bytes_of(norm(position, t.name, k));
    }
    EXPECT_TRUE(out.write(position, 0, data).has_value()) << t.name;
  }
  EXPECT_TRUE(out.finish().has_value());
  return path;
}

format_logits format_goldens::logits(const std::string& format, std::uint64_t k) const {
  const std::string name = format + "." + std::to_string(k);
  format_logits out;
  for (auto [tensor, to] : {std::pair{".logits", &out.on_file}, std::pair{".exact", &out.exact}}) {
    const std::vector<std::byte> bytes = contents(name + tensor);
    to->resize(bytes.size() / sizeof(float));
    std::memcpy(to->data(), bytes.data(), bytes.size());
  }
  return out;
}

std::vector<engine::token_id> format_goldens::prompt() {
  std::vector<engine::token_id> out;
  for (std::uint32_t i = 0; i < prompt_tokens; i++)
    out.push_back(static_cast<engine::token_id>(bench::random_word(1000, i) % 256));
  return out;
}

}  // namespace terrane::test

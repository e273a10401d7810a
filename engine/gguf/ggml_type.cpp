#include "engine/gguf/ggml_type.hpp"

#include <algorithm>
#include <array>
#include <cassert>

namespace terrane::engine::gguf {
namespace {

using enum ggml_type;

constexpr std::array descriptions{
    ggml_type_description{f32, "F32", 1, 4},
    ggml_type_description{f16, "F16", 1, 2},
    ggml_type_description{q4_0, "Q4_0", 32, 18},
    ggml_type_description{q4_1, "Q4_1", 32, 20},
    ggml_type_description{q5_0, "Q5_0", 32, 22},
    ggml_type_description{q5_1, "Q5_1", 32, 24},
    ggml_type_description{q8_0, "Q8_0", 32, 34},
    ggml_type_description{q8_1, "Q8_1", 32, 36},
    ggml_type_description{q2_k, "Q2_K", 256, 84},
    ggml_type_description{q3_k, "Q3_K", 256, 110},
    ggml_type_description{q4_k, "Q4_K", 256, 144},
    ggml_type_description{q5_k, "Q5_K", 256, 176},
    ggml_type_description{q6_k, "Q6_K", 256, 210},
    ggml_type_description{q8_k, "Q8_K", 256, 292},
    ggml_type_description{iq2_xxs, "IQ2_XXS", 256, 66},
    ggml_type_description{iq2_xs, "IQ2_XS", 256, 74},
    ggml_type_description{iq3_xxs, "IQ3_XXS", 256, 98},
    ggml_type_description{iq1_s, "IQ1_S", 256, 50},
    ggml_type_description{iq4_nl, "IQ4_NL", 32, 18},
    ggml_type_description{iq3_s, "IQ3_S", 256, 110},
    ggml_type_description{iq2_s, "IQ2_S", 256, 82},
    ggml_type_description{iq4_xs, "IQ4_XS", 256, 136},
    ggml_type_description{i8, "I8", 1, 1},
    ggml_type_description{i16, "I16", 1, 2},
    ggml_type_description{i32, "I32", 1, 4},
    ggml_type_description{i64, "I64", 1, 8},
    ggml_type_description{f64, "F64", 1, 8},
    ggml_type_description{iq1_m, "IQ1_M", 256, 56},
    ggml_type_description{bf16, "BF16", 1, 2},
    ggml_type_description{tq1_0, "TQ1_0", 256, 54},
    ggml_type_description{tq2_0, "TQ2_0", 256, 66},
    ggml_type_description{mxfp4, "MXFP4", 32, 17},
    ggml_type_description{nvfp4, "NVFP4", 64, 36},
    ggml_type_description{q1_0, "Q1_0", 128, 18},
};

const ggml_type_description* find(std::uint32_t id) {
  const auto* found =
      std::ranges::find(descriptions, static_cast<ggml_type>(id), &ggml_type_description::type);
  return found == descriptions.end() ? nullptr : found;
}

}  // namespace

const ggml_type_description& describe(ggml_type type) {
  const auto* found = find(static_cast<std::uint32_t>(type));
  assert(found != nullptr && "a ggml_type is only made from a known id");
  return *found;
}

std::optional<ggml_type> ggml_type_of(std::uint32_t id) {
  const auto* found = find(id);
  if (found == nullptr) {
    return std::nullopt;
  }
  return found->type;
}

std::string_view withdrawn_type_name(std::uint32_t id) {
  switch (id) {
    case 4:
      return "Q4_2";
    case 5:
      return "Q4_3";
    case 31:
      return "Q4_0_4_4";
    case 32:
      return "Q4_0_4_8";
    case 33:
      return "Q4_0_8_8";
    case 36:
      return "IQ4_NL_4_4";
    case 37:
      return "IQ4_NL_4_8";
    case 38:
      return "IQ4_NL_8_8";
    default:
      return {};
  }
}

}  // namespace terrane::engine::gguf

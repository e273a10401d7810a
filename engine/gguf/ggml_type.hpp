// The tensor formats that a GGUF file can name: id, name, and how many elements and bytes make a
// block. All published ids are here, so that the size of any tensor can be checked, also of those
// formats that no kernel computes (kernels/formats says which it does). Constant data; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace terrane::engine::gguf {

// Ids as in the GGUF specification (`ggml_type`). 4, 5, 31-33 and 36-38 were withdrawn.
enum class ggml_type : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
};

struct ggml_type_description {
  ggml_type type;
  std::string_view name;         // as the field writes it: "Q4_K"
  std::uint32_t block_elements;  // consecutive elements of a row that make a block
  std::uint32_t block_bytes;
};

// The entry of a known type. Every enumerator has one.
const ggml_type_description& describe(ggml_type type);

inline std::string_view to_string(ggml_type type) { return describe(type).name; }

// The type of an id read from a file; nothing for an id that is unknown or withdrawn.
std::optional<ggml_type> ggml_type_of(std::uint32_t id);

// The name of a withdrawn id ("Q4_2"), for the message that refuses it; empty for all others.
std::string_view withdrawn_type_name(std::uint32_t id);

}  // namespace terrane::engine::gguf

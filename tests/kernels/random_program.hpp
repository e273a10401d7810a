// Valid random kernel programs, for comparing a lowering with the interpreter: every instruction,
// nested control, barriers, tiles, edge values. The same seed and options give the same program.
//
// Programs are free of races and stay inside their buffers. A NaN that arithmetic makes has no bits
// of its own in the language, so it is replaced at once, by integers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/lang/program.hpp"

namespace terrane::kernels {

struct random_options {
  int max_warps = 8;
  int instructions = 60;      // about so many, control not counted
  bool denormals = true;      // false: denormal f32 become +0 wherever they appear
  bool infinities = true;     // false: infinities and NaN become 1
  bool narrow_memory = true;  // false: global memory as i32, f32 and ptr only
  bool scattered_stores = true;
};

struct random_case {
  program code;
  std::uint32_t groups_x = 1, groups_y = 1;
  std::vector<std::byte> input;  // its memory must be 256-byte aligned
  std::size_t output_bytes = 0;  // filled with output_fill before the run
  std::int32_t number = 0;
  float real = 0;

  // `table`: 8 bytes that hold the address of the input.
  std::array<std::uint64_t, 5> arguments(std::uint64_t input_address, std::uint64_t output_address,
                                         std::uint64_t table_address) const;
};

inline constexpr std::byte output_fill{0xab};

random_case make_random_case(std::uint64_t seed, const random_options& options = {});

// The output that the interpreter gives.
std::vector<std::byte> interpreted_output(const random_case& c);

// 32-bit words that are likely to matter: edge floats and integers, f16 patterns, small numbers,
// noise.
std::uint32_t edge_word(std::uint64_t& state);
// The next of a sequence of random numbers (splitmix64).
std::uint64_t next_random(std::uint64_t& state);

}  // namespace terrane::kernels

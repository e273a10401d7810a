#include "kernels/formats/finite.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace terrane::kernels {

namespace {

// How a kind of number is stored: its size, and the bits that are all set when it is not finite.
// Of E8M0, all set is the only such value; of the others, it is infinite if no other bit is set.
struct number_layout {
  std::uint32_t bytes, exponent, fraction;
};

number_layout layout_of(number_kind kind) {
  switch (kind) {
    case number_kind::f32:
      return {4, 0x7f800000u, 0x007fffffu};
    case number_kind::f16:
      return {2, 0x7c00u, 0x03ffu};
    case number_kind::bf16:
      return {2, 0x7f80u, 0x007fu};
    case number_kind::e8m0:
      break;
  }
  return {1, 0xffu, 0xffu};
}

std::uint32_t bits_at(const std::byte* at, std::uint32_t bytes) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, bytes);
  return bits;
}

std::string describe(std::uint32_t bits, const number_layout& layout) {
  char text[48];
  const char* what = (bits & layout.fraction) == 0 ? "infinite" : "not a number";
  std::snprintf(text, sizeof text, "%s (stored as 0x%0*x)", what,
                static_cast<int>(2 * layout.bytes), bits);
  return text;
}

// Whether any word has all bits of the exponent: quick, without telling which. Chunks of a constant
// size become vector instructions.
template <class Word>
bool any_not_finite(std::span<const std::byte> stored, std::uint32_t exponent) {
  constexpr std::size_t chunk = 512;
  const auto mask = static_cast<Word>(exponent);
  std::array<Word, chunk> words;
  for (std::size_t at = 0; at < stored.size(); at += sizeof words) {
    const std::size_t bytes = std::min(sizeof words, stored.size() - at);
    words.fill(0);
    std::memcpy(words.data(), stored.data() + at, bytes);
    Word largest = 0;
    for (std::size_t k = 0; k < chunk; k++)
      largest = std::max(largest, static_cast<Word>(words[k] & mask));
    if (largest == mask) return true;
  }
  return false;
}

// The first number of one kind that is not finite, in blocks that follow one another.
std::optional<not_finite_number> find_in(const stored_numbers& numbers, std::uint32_t block_bytes,
                                         std::span<const std::byte> stored) {
  const number_layout layout = layout_of(numbers.kind);
  // Formats of plain numbers have nothing else in their blocks.
  if (numbers.count * layout.bytes == block_bytes) {
    const bool any = layout.bytes == 4 ? any_not_finite<std::uint32_t>(stored, layout.exponent)
                                       : any_not_finite<std::uint16_t>(stored, layout.exponent);
    if (!any) return std::nullopt;
  }
  for (std::size_t block = 0; block < stored.size() / block_bytes; block++) {
    const std::byte* at = stored.data() + block * block_bytes + numbers.source_offset;
    for (std::uint32_t i = 0; i < numbers.count; i++) {
      const std::uint32_t bits = bits_at(at + std::size_t{i} * layout.bytes, layout.bytes);
      if ((bits & layout.exponent) == layout.exponent)
        return not_finite_number{0, block, i, describe(bits, layout)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<not_finite_number> find_not_finite(const weight_format& format, std::uint64_t k,
                                                 std::span<const std::byte> stored) {
  std::optional<not_finite_number> found = find_in(format.numbers, format.block_bytes, stored);
  if (!found) return found;
  const std::uint64_t blocks_per_row = k / format.block_elements;
  found->row = found->block / blocks_per_row;
  found->block %= blocks_per_row;
  return found;
}

}  // namespace terrane::kernels

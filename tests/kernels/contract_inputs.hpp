// The contract's input generator in plain C++, and stored weight blocks made of it: what the tests
// feed the real kernels to reproduce the reference hashes.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/kernels/contract_reference.hpp"

namespace terrane::reference {

inline std::uint32_t hash32(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

// Word k of item i in a stream; the seed of all items' word k.
inline std::uint32_t word_seed(std::uint32_t stream, std::uint32_t k) {
  return hash32(stream * 0x9e3779b9u + k * 0x85ebca6bu + 0x1234567u);
}
inline std::uint32_t random_word(std::uint32_t stream, std::uint32_t i, std::uint32_t k) {
  return hash32(i ^ word_seed(stream, k));
}

inline float with_exponent(std::uint32_t r, int low, int high) {
  std::uint32_t e = static_cast<std::uint32_t>(127 + low) +
                    hash32(r ^ 0xa5a5a5a5u) % static_cast<std::uint32_t>(high - low + 1);
  return number((r & 0x807fffffu) | e << 23);
}

// Byte k of word w of a token's activations: in [-127, 127]; every fourth token large and positive.
inline std::int8_t activation(std::uint32_t token, std::uint32_t k) {
  std::uint32_t r = random_word(400, token, k / 4);
  if (token % 4 == 3) r = (r & 0x7f7f7f7fu) | 0x60606060u;
  auto byte = static_cast<std::int8_t>(r >> (8 * (k % 4)));
  return byte == -128 ? std::int8_t{-127} : byte;
}

inline float activation_scale(std::uint32_t token, std::uint32_t block) {
  return std::fabs(with_exponent(random_word(401, token, block), -12, 2));
}

inline std::uint16_t half_scale(std::uint32_t r, bool sign) {
  std::uint32_t h = (r >> 24) % 16 == 0 ? r >> 8 & 0x3ffu : 0x1000u + r % 0x1800u;
  return static_cast<std::uint16_t>(sign ? h | (r >> 16 & 0x8000u) : h);
}

// The weights of a row as unsigned integers of at most `mask`; odd rows are biased upwards, except
// for whole bytes.
inline std::vector<std::uint32_t> row_weights(std::uint32_t stream, std::uint32_t row,
                                              std::uint32_t k, std::uint32_t mask) {
  std::array<std::uint32_t, 8> seeds;
  for (std::uint32_t w = 0; w < 8; w++) seeds[w] = word_seed(stream, w);
  std::uint32_t bias = row % 2 == 1 && mask != 255 ? mask & ~(mask >> 2 & 0x3fu) : 0;
  std::vector<std::uint32_t> weights(k);
  for (std::uint32_t w = 0; w < k / 4; w++) {
    std::uint32_t r = hash32((row * 32 + w / 8) ^ seeds[w % 8]);
    for (std::uint32_t byte = 0; byte < 4; byte++)
      weights[4 * w + byte] = (r >> (8 * byte) | bias) & mask;
  }
  return weights;
}

inline std::uint32_t six_bits(std::uint32_t stream, std::uint32_t row, std::uint32_t block) {
  std::uint32_t v = random_word(stream, row * 32 + block, 0) & 63u;
  return row % 2 == 1 ? v | 48u : v;
}

// Appends stored blocks of the formats that the reference table knows.
class block_writer {
 public:
  explicit block_writer(std::vector<std::byte>& out) : out_(out) {}

  void row(const std::string& format, std::uint32_t row, std::uint32_t k) {
    bool large = format == "Q4_K" || format == "Q5_K" || format == "Q6_K";
    if (format == "Q8_0") q_ = row_weights(410, row, k, 255);
    if (format == "Q4_0") q_ = row_weights(420, row, k, 15);
    if (format == "Q4_1") q_ = row_weights(430, row, k, 15);
    if (format == "Q4_K") q_ = row_weights(440, row, k, 15);
    if (format == "Q5_K") q_ = row_weights(450, row, k, 31);
    if (format == "Q6_K") q_ = row_weights(460, row, k, 63);
    for (std::uint32_t b = 0; b < k / (large ? 256 : 32); b++) {
      if (format == "Q8_0") q8_0(row, b);
      if (format == "Q4_0") nibbles(b, {half_scale(random_word(421, row, b), true)});
      if (format == "Q4_1")
        nibbles(b, {half_scale(random_word(431, row, b), true),
                    half_scale(random_word(432, row, b), true)});
      if (format == "Q4_K") super_block(440, row, b, false);
      if (format == "Q5_K") super_block(450, row, b, true);
      if (format == "Q6_K") q6_k(row, b);
      if (format == "F16" || format == "BF16") numbers(format == "BF16", row, b);
    }
  }

 private:
  void byte(std::uint32_t b) { out_.push_back(static_cast<std::byte>(b)); }
  void half(std::uint32_t h) {
    byte(h);
    byte(h >> 8);
  }

  std::uint32_t q(std::size_t block, std::size_t size, std::size_t k) const {
    return q_[block * size + k];
  }

  void q8_0(std::uint32_t row, std::uint32_t b) {
    half(half_scale(random_word(411, row, b), true));
    for (std::uint32_t k = 0; k < 32; k++) byte(q(b, 32, k));
  }

  void nibbles(std::uint32_t b, const std::vector<std::uint16_t>& scales) {
    for (std::uint16_t h : scales) half(h);
    for (std::uint32_t k = 0; k < 16; k++) byte(q(b, 32, k) | q(b, 32, k + 16) << 4);
  }

  void super_block(std::uint32_t stream, std::uint32_t row, std::uint32_t b, bool five) {
    half(half_scale(random_word(stream + 3, row, b), false));
    half(half_scale(random_word(stream + 4, row, b), false));
    std::array<std::uint32_t, 8> sc, m;
    for (std::uint32_t j = 0; j < 8; j++) {
      sc[j] = six_bits(stream + 1, row, 8 * b + j);
      m[j] = six_bits(stream + 2, row, 8 * b + j);
    }
    for (std::size_t j = 0; j < 4; j++) byte(sc[j] | sc[j + 4] >> 4 << 6);
    for (std::size_t j = 0; j < 4; j++) byte(m[j] | m[j + 4] >> 4 << 6);
    for (std::size_t j = 0; j < 4; j++) byte((sc[j + 4] & 15u) | (m[j + 4] & 15u) << 4);
    for (std::uint32_t i = 0; i < 32 && five; i++) {
      std::uint32_t high = 0;
      for (std::uint32_t j = 0; j < 8; j++) high |= q(b, 256, 32 * j + i) >> 4 << j;
      byte(high);
    }
    for (std::uint32_t g = 0; g < 256; g += 64)
      for (std::uint32_t i = g; i < g + 32; i++)
        byte((q(b, 256, i) & 15u) | (q(b, 256, i + 32) & 15u) << 4);
  }

  void q6_k(std::uint32_t row, std::uint32_t b) {
    for (std::uint32_t h = 0; h < 256; h += 128)
      for (std::uint32_t l = h; l < h + 64; l++)
        byte((q(b, 256, l) & 15u) | (q(b, 256, l + 64) & 15u) << 4);
    for (std::uint32_t h = 0; h < 256; h += 128)
      for (std::uint32_t l = h; l < h + 32; l++) {
        std::uint32_t upper = 0;
        for (std::uint32_t j = 0; j < 4; j++) upper |= q(b, 256, l + 32 * j) >> 4 << (2 * j);
        byte(upper);
      }
    for (std::uint32_t j = 0; j < 16; j++) {
      std::uint32_t v = random_word(461, row * 64 + 16 * b + j, 0) & 255u;
      byte(row % 2 == 1 ? (v & 127u) | 96u : v);
    }
    half(half_scale(random_word(462, row, b), true));
  }

  void numbers(bool bf16, std::uint32_t row, std::uint32_t b) {
    for (std::uint32_t j = 0; j < 32; j++) {
      float w = with_exponent(random_word(470, row, 32 * b + j), -12, 0);
      half(bf16 ? bits(w) >> 16 : float_to_half(w));
    }
  }

  std::vector<std::byte>& out_;
  std::vector<std::uint32_t> q_;  // the row's integers
};

}  // namespace terrane::reference

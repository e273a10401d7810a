// Weight formats in plain C++, from their published layouts: the integers, scales and values of one
// stored block, and the contract's row sum over them. Apart from kernels/formats.
#pragma once

#include <string>

#include "kernels/formats/format.hpp"
#include "tests/kernels/contract_reference.hpp"

namespace terrane::reference {

// A stored block taken apart: weight j = scale * (integer part) - or + offset, see row_sum().
struct block {
  std::vector<int> q;          // the integers, offset taken off where the format has one
  std::vector<int> sc, m;      // K-quants: scales and minima of each part
  float d = 0, dm = 0;         // d, and m or dmin
  std::vector<float> numbers;  // float formats
};

inline std::uint32_t u16_at(const std::byte* p) {
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  return h;
}
inline int byte_at(const std::byte* p) { return static_cast<int>(*p); }

inline block nibble_block(const std::byte* nibbles, const std::byte* high, int subtract) {
  block b;
  b.q.resize(32);
  std::uint32_t bits = 0;
  if (high != nullptr) std::memcpy(&bits, high, 4);
  for (int j = 0; j < 32; j++) {
    int pair = byte_at(nibbles + j % 16), q = j < 16 ? pair & 15 : pair >> 4;
    if ((bits >> j & 1u) != 0) q += 16;
    b.q[static_cast<std::size_t>(j)] = q - subtract;
  }
  return b;
}

// ggml's kvalues_iq4nl and kvalues_mxfp4 (twice the E2M1 numbers).
inline constexpr int iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr int mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

inline block code_block(const std::byte* nibbles, const int (&values)[16]) {
  block b = nibble_block(nibbles, nullptr, 0);
  for (int& q : b.q) q = values[q];
  return b;
}

inline void read_six_bit_scales(block& b, const std::byte* s) {
  for (int j = 0; j < 8; j++) {
    if (j < 4) {
      b.sc.push_back(byte_at(s + j) & 63);
      b.m.push_back(byte_at(s + j + 4) & 63);
    } else {
      b.sc.push_back((byte_at(s + j + 4) & 15) | (byte_at(s + j - 4) >> 6) << 4);
      b.m.push_back(byte_at(s + j + 4) >> 4 | (byte_at(s + j) >> 6) << 4);
    }
  }
}

inline block read_block(const std::string& format, const std::byte* p) {
  block b;
  if (format == "F32") {
    b.numbers.resize(32);
    std::memcpy(b.numbers.data(), p, 128);
    for (float& x : b.numbers) x = sanit(x);
  } else if (format == "F16") {
    for (int k = 0; k < 32; k++) b.numbers.push_back(sanit(half_to_float(u16_at(p + 2 * k))));
  } else if (format == "BF16") {
    for (int k = 0; k < 32; k++) b.numbers.push_back(sanit(number(u16_at(p + 2 * k) << 16)));
  } else if (format == "Q4_0") {
    b = nibble_block(p + 2, nullptr, 8);
    b.d = half_to_float(u16_at(p));
  } else if (format == "Q4_1") {
    b = nibble_block(p + 4, nullptr, 0);
    b.d = half_to_float(u16_at(p));
    b.dm = half_to_float(u16_at(p + 2));
  } else if (format == "Q5_0") {
    b = nibble_block(p + 6, p + 2, 16);
    b.d = half_to_float(u16_at(p));
  } else if (format == "Q5_1") {
    b = nibble_block(p + 8, p + 4, 0);
    b.d = half_to_float(u16_at(p));
    b.dm = half_to_float(u16_at(p + 2));
  } else if (format == "Q8_0") {
    for (int k = 0; k < 32; k++) b.q.push_back(static_cast<std::int8_t>(p[2 + k]));
    b.d = half_to_float(u16_at(p));
  } else if (format == "Q4_K" || format == "Q5_K") {
    bool five = format == "Q5_K";
    b.d = half_to_float(u16_at(p));
    b.dm = half_to_float(u16_at(p + 2));
    read_six_bit_scales(b, p + 4);
    const std::byte *high = p + 16, *low = p + (five ? 48 : 16);
    for (int k = 0; k < 256; k++) {
      int part = k / 32, pair = byte_at(low + 32 * (part / 2) + k % 32);
      int q = part % 2 == 0 ? pair & 15 : pair >> 4;
      if (five && (byte_at(high + k % 32) >> part & 1) != 0) q += 16;
      b.q.push_back(q);
    }
  } else if (format == "Q2_K") {
    b.d = half_to_float(u16_at(p + 80));
    b.dm = half_to_float(u16_at(p + 82));
    for (int j = 0; j < 16; j++) {
      b.sc.push_back(byte_at(p + j) & 15);
      b.m.push_back(byte_at(p + j) >> 4);
    }
    for (int k = 0; k < 256; k++)
      b.q.push_back(byte_at(p + 16 + 32 * (k / 128) + k % 32) >> (2 * (k % 128 / 32)) & 3);
  } else if (format == "Q3_K") {
    b.d = half_to_float(u16_at(p + 108));
    for (int j = 0; j < 16; j++) {
      int low = byte_at(p + 96 + j % 8) >> (j < 8 ? 0 : 4) & 15;
      int upper = byte_at(p + 104 + j % 4) >> (2 * (j / 4)) & 3;
      b.sc.push_back((low | upper << 4) - 32);
    }
    for (int k = 0; k < 256; k++) {
      int low = byte_at(p + 32 + 32 * (k / 128) + k % 32) >> (2 * (k % 128 / 32)) & 3;
      b.q.push_back((byte_at(p + k % 32) >> (k / 32) & 1) != 0 ? low : low - 4);
    }
  } else if (format == "IQ4_NL") {
    b = code_block(p + 2, iq4_values);
    b.d = half_to_float(u16_at(p));
  } else if (format == "MXFP4") {
    b = code_block(p + 1, mxfp4_values);
    b.d = std::ldexp(1.0f, byte_at(p) - 128);
    if (b.d < 0x1p-59f) b.d = 0;
  } else if (format == "IQ4_XS") {
    b.d = half_to_float(u16_at(p));
    for (int j = 0; j < 8; j++) {
      block part = code_block(p + 8 + 16 * j, iq4_values);
      b.q.insert(b.q.end(), part.q.begin(), part.q.end());
      int low = byte_at(p + 4 + j / 2) >> (4 * (j % 2)) & 15;
      b.sc.push_back((low | static_cast<int>(u16_at(p + 2) >> (2 * j) & 3u) << 4) - 32);
    }
  } else if (format == "Q6_K") {
    b.d = half_to_float(u16_at(p + 208));
    for (int j = 0; j < 16; j++) b.sc.push_back(static_cast<std::int8_t>(p[192 + j]));
    for (int k = 0; k < 256; k++) {
      int half = k / 128, part = k % 128 / 32, l = k % 32;
      int pair = byte_at(p + 64 * half + 32 * (part % 2) + l);
      int upper = byte_at(p + 128 + 32 * half + l) >> (2 * part) & 3;
      b.q.push_back(((part < 2 ? pair & 15 : pair >> 4) | upper << 4) - 32);
    }
  }
  return b;
}

// The value of weight k of a block, as embedding rows have it.
inline float value(const block& b, int k) {
  auto at = static_cast<std::size_t>(k);
  if (!b.numbers.empty()) return b.numbers[at];
  auto q = static_cast<float>(b.q[at]);
  if (b.sc.empty()) return b.d * q + b.dm;
  std::size_t part = at / (256 / b.sc.size());
  float scaled = (b.d * static_cast<float>(b.sc[part])) * q;
  return b.m.empty() ? scaled : scaled - b.dm * static_cast<float>(b.m[part]);
}

// One segment: blocks of a row of weights from element `first`, `count` elements.
inline float segment_sum(const kernels::weight_format& format, const std::vector<block>& row,
                         std::size_t first, std::size_t count, const quantised& x,
                         const std::vector<float>& floats) {
  std::string name = format.name;
  float sum = 0;
  if (name == "F32" || name == "F16" || name == "BF16") {
    for (std::size_t k = first; k < first + count; k++) {
      float xk = name == "F32" ? floats[k] : f16(floats[k]);
      float product = row[k / 32].numbers[k % 32] * xk;
      sum = sum + product;
    }
    return sum;
  }
  float dx = x.d[first / x.block];
  if (format.block_elements == 256) {
    const block& b = row[first / 256];
    std::int64_t s = 0, m = 0;  // as whole numbers, wherever they end
    for (std::size_t k = 0; k < 256; k++) {
      int xk = x.q[first + k] * x.factors[(first + k) / 32];
      std::size_t part = k / (256 / b.sc.size());
      s += b.sc[part] * (b.q[k] * xk);
      if (!b.m.empty()) m += b.m[part] * xk;
    }
    auto sf = static_cast<float>(s), mf = static_cast<float>(m);
    return sum + (b.m.empty() ? (b.d * dx) * sf : (b.d * sf - b.dm * mf) * dx);
  }
  for (std::size_t k = first; k < first + count; k += 32) {
    const block& b = row[k / 32];
    std::int32_t is = 0, bs = 0;
    for (std::size_t j = 0; j < 32; j++) {
      is += b.q[j] * x.q[k + j];
      bs += x.q[k + j];
    }
    dx = x.d[k / x.block];
    float term = (b.d * dx) * static_cast<float>(is);
    if (name == "Q4_1" || name == "Q5_1") term = term + (b.dm * dx) * static_cast<float>(bs);
    sum = sum + term;
  }
  return sum;
}

inline float row_sum(const kernels::weight_format& format, const std::byte* stored, std::size_t k,
                     const quantised& x, const std::vector<float>& floats) {
  std::vector<block> row;
  for (std::size_t b = 0; b < k / format.block_elements; b++)
    row.push_back(read_block(format.name, stored + b * format.block_bytes));
  std::vector<float> segments;
  for (std::size_t first = 0; first < k; first += 256)
    segments.push_back(
        segment_sum(format, row, first, std::min<std::size_t>(256, k - first), x, floats));
  return add_segments(segments);
}

}  // namespace terrane::reference

#include "tests/bench/synth_blocks.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace terrane::bench {
namespace {

using engine::gguf::ggml_type;

// The random words of one block. A block takes fewer than `stride`.
class word_source {
 public:
  static constexpr std::uint64_t stride = 64;
  word_source(std::uint64_t key, std::uint64_t block) : key_(key), next_(block * stride) {}

  std::uint64_t word() { return random_word(key_, next_++); }
  void bytes(std::uint8_t* to, std::size_t count) {
    for (std::size_t i = 0; i < count; i += sizeof(std::uint64_t)) {
      const std::uint64_t w = word();
      std::memcpy(to + i, &w, std::min(sizeof w, count - i));
    }
  }
  // A block's scale: spread around `middle`, so that no two blocks look alike.
  double scale(double middle) {
    return middle * (0.75 + 0.5 * static_cast<double>(word() & 0xFFFF) / 65536.0);
  }
  double signed_scale(double middle) {
    const double s = scale(middle);
    return (word() & 1) != 0 ? -s : s;
  }

 private:
  std::uint64_t key_;
  std::uint64_t next_;
};

// To f16 by integers, round to nearest even; |value| below 65504.
std::uint16_t half(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude < 0x33000000) {  // below half of the smallest half
    return static_cast<std::uint16_t>(sign);
  }
  const bool normal = magnitude >= 0x38800000;
  const std::uint32_t mantissa =
      normal ? magnitude - 0x38000000 : (magnitude & 0x7FFFFF) | 0x800000;
  const std::uint32_t shift = normal ? 13 : 126 - (magnitude >> 23);
  const std::uint32_t kept = mantissa >> shift;
  const std::uint32_t rest = mantissa & ((1U << shift) - 1);
  const std::uint32_t middle = 1U << (shift - 1);
  const std::uint32_t up = rest > middle || (rest == middle && (kept & 1) != 0) ? 1 : 0;
  return static_cast<std::uint16_t>(sign | (kept + up));
}

void put_half(std::uint8_t* to, double value) {
  const std::uint16_t bits = half(value);
  std::memcpy(to, &bits, sizeof bits);
}

// To the upper half of an f32, round to nearest even; finite.
void put_bfloat(std::uint8_t* to, double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const auto upper = static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  std::memcpy(to, &upper, sizeof upper);
}

// About normal: the sum of four uniform 16-bit numbers, centred, of deviation 1.
double near_normal(std::uint64_t word) {
  const auto sum = static_cast<std::int64_t>((word & 0xFFFF) + ((word >> 16) & 0xFFFF) +
                                             ((word >> 32) & 0xFFFF) + (word >> 48));
  constexpr double deviation = 37837.22;  // 65536 * sqrt(4 / 12)
  return static_cast<double>(2 * sum - 4 * 65535) / (2 * deviation);
}

// The deviation of integers uniform over `values` neighbouring values.
double uniform_deviation(double values) { return std::sqrt((values * values - 1.0) / 12.0); }

// Quantised values are uniform random bits, so a block's scale is what sets its deviation. Layouts
// below: ggml's block_q4_0 and so on, a comment a line for the fields of one block.

// f16 d; 32 x 4 bits. w = d * (q - 8)
void fill_q4_0(word_source& in, double deviation, std::uint8_t* out) {
  put_half(out, in.signed_scale(deviation / uniform_deviation(16)));
  in.bytes(out + 2, 16);
}

// f16 d; f16 m; 32 x 4 bits. w = d * q + m
void fill_q4_1(word_source& in, double deviation, std::uint8_t* out) {
  const double d = in.scale(deviation / uniform_deviation(16));
  put_half(out, d);
  put_half(out + 2, in.scale(-7.5 * d));
  in.bytes(out + 4, 16);
}

// f16 d; 32 x the fifth bit; 32 x 4 bits. w = d * (q - 16)
void fill_q5_0(word_source& in, double deviation, std::uint8_t* out) {
  put_half(out, in.signed_scale(deviation / uniform_deviation(32)));
  in.bytes(out + 2, 20);
}

// f16 d; f16 m; 32 x the fifth bit; 32 x 4 bits. w = d * q + m
void fill_q5_1(word_source& in, double deviation, std::uint8_t* out) {
  const double d = in.scale(deviation / uniform_deviation(32));
  put_half(out, d);
  put_half(out + 2, in.scale(-15.5 * d));
  in.bytes(out + 4, 20);
}

// f16 d; 32 x int8. w = d * q, and no quantiser writes -128
void fill_q8_0(word_source& in, double deviation, std::uint8_t* out) {
  put_half(out, in.scale(deviation / uniform_deviation(255)));
  in.bytes(out + 2, 32);
  for (std::uint8_t* q = out + 2; q < out + 34; ++q) {
    *q = *q == 0x80 ? 0x81 : *q;
  }
}

// The root of the mean square of the values that the codes of IQ4_NL and IQ4_XS stand for, and of
// those of MXFP4.
constexpr double iq4_rms = 67.44;
constexpr double mxfp4_rms = 5.852;

// f16 d; 32 x 4 bits. w = d * v[q]
void fill_iq4_nl(word_source& in, double deviation, std::uint8_t* out) {
  put_half(out, in.signed_scale(deviation / iq4_rms));
  in.bytes(out + 2, 16);
}

// f16 d; 16 bits and 4 bytes of six-bit scales sc; 256 x 4 bits. w = d * (sc - 32) * v[q]
void fill_iq4_xs(word_source& in, double deviation, std::uint8_t* out) {
  put_half(out, in.scale(deviation / (iq4_rms * uniform_deviation(64))));
  in.bytes(out + 2, 134);
}

// u8 e; 32 x 4 bits. w = 2^(e - 128) * v[q]. Scales are powers of two: two neighbours, as often as
// makes the deviation right.
void fill_mxfp4(word_source& in, double deviation, std::uint8_t* out) {
  int exponent = 0;
  const double fraction = 2.0 * std::frexp(deviation / mxfp4_rms, &exponent);  // 1..2
  const double share_of_lower = (4.0 - fraction * fraction) / 3.0;
  const bool lower = static_cast<double>(in.word() & 0xFFFF) < 65536.0 * share_of_lower;
  out[0] = static_cast<std::uint8_t>(128 + exponent - (lower ? 1 : 0));
  in.bytes(out + 1, 16);
}

// 16 bytes of four-bit scales sc and minima m; 256 x 2 bits; f16 d; f16 dmin.
// w = d * sc * q - dmin * m: with m near sc and dmin = 1.5 d the mean is near 0.
void fill_q2_k(word_source& in, double deviation, std::uint8_t* out) {
  constexpr double four_bit_rms = 8.803;
  const double d = in.scale(deviation / (uniform_deviation(4) * four_bit_rms));
  in.bytes(out, 80);
  put_half(out + 80, d);
  put_half(out + 82, 1.5 * d);
  for (std::uint8_t* scales = out; scales < out + 16; ++scales) {
    const int sc = *scales & 15;
    const int near = std::clamp(sc + (*scales >> 4 & 1) - (*scales >> 5 & 1), 0, 15);
    *scales = static_cast<std::uint8_t>(sc | near << 4);
  }
}

// 256 x the third bit; 256 x 2 bits; 12 bytes of six-bit scales sc; f16 d. w = d * (sc - 32) * (q -
// 4)
void fill_q3_k(word_source& in, double deviation, std::uint8_t* out) {
  in.bytes(out, 108);
  put_half(out + 108, in.scale(deviation / (uniform_deviation(8) * uniform_deviation(64))));
}

// The root of the mean square of integers uniform over 0..63, the K-quants' six-bit scales.
constexpr double six_bit_rms = 36.51;

// f16 d; f16 dmin; 12 bytes of six-bit scales sc and minima m, packed: writes these for values of
// `levels` levels. A sub-block's w = d * sc * q - dmin * m; with m near sc and dmin near
// d * (levels - 1) / 2 its mean is near 0.
void fill_k_scales(word_source& in, double deviation, double levels, std::uint8_t* out) {
  const double d = in.scale(deviation / (uniform_deviation(levels) * six_bit_rms));
  put_half(out, d);
  put_half(out + 2, d * (levels - 1.0) / 2.0);
  std::array<std::uint8_t, 8> sc{};
  std::array<std::uint8_t, 8> m{};
  in.bytes(sc.data(), sc.size());
  in.bytes(m.data(), m.size());
  for (std::size_t j = 0; j < 8; ++j) {
    sc[j] &= 63;
    const int near = sc[j] + (m[j] & 3) - (m[j] >> 2 & 3);
    m[j] = static_cast<std::uint8_t>(std::clamp(near, 0, 63));
  }
  std::uint8_t* packed = out + 4;
  for (std::size_t j = 0; j < 4; ++j) {
    packed[j] = static_cast<std::uint8_t>(sc[j] | (sc[j + 4] >> 4) << 6);
    packed[j + 4] = static_cast<std::uint8_t>(m[j] | (m[j + 4] >> 4) << 6);
    packed[j + 8] = static_cast<std::uint8_t>((sc[j + 4] & 15) | (m[j + 4] & 15) << 4);
  }
}

// Scales; 256 x 4 bits
void fill_q4_k(word_source& in, double deviation, std::uint8_t* out) {
  fill_k_scales(in, deviation, 16, out);
  in.bytes(out + 16, 128);
}

// Scales; 256 x the fifth bit; 256 x 4 bits
void fill_q5_k(word_source& in, double deviation, std::uint8_t* out) {
  fill_k_scales(in, deviation, 32, out);
  in.bytes(out + 16, 160);
}

// 256 x 4 bits; 256 x 2 bits; 16 x int8 scales; f16 d. w = d * sc * (q - 32)
void fill_q6_k(word_source& in, double deviation, std::uint8_t* out) {
  in.bytes(out, 208);
  put_half(out + 208, in.scale(deviation / (uniform_deviation(64) * uniform_deviation(256))));
}

using block_filler = void (*)(word_source&, double, std::uint8_t*);

block_filler filler_of(ggml_type type) {
  switch (type) {
    case ggml_type::q4_0:
      return fill_q4_0;
    case ggml_type::q4_1:
      return fill_q4_1;
    case ggml_type::q5_0:
      return fill_q5_0;
    case ggml_type::q5_1:
      return fill_q5_1;
    case ggml_type::q8_0:
      return fill_q8_0;
    case ggml_type::iq4_nl:
      return fill_iq4_nl;
    case ggml_type::iq4_xs:
      return fill_iq4_xs;
    case ggml_type::mxfp4:
      return fill_mxfp4;
    case ggml_type::q2_k:
      return fill_q2_k;
    case ggml_type::q3_k:
      return fill_q3_k;
    case ggml_type::q4_k:
      return fill_q4_k;
    case ggml_type::q5_k:
      return fill_q5_k;
    case ggml_type::q6_k:
      return fill_q6_k;
    default:
      return nullptr;
  }
}

}  // namespace

bool can_synthesize(ggml_type type) {
  return type == ggml_type::f32 || type == ggml_type::f16 || type == ggml_type::bf16 ||
         filler_of(type) != nullptr;
}

void fill_blocks(ggml_type type, const weight_distribution& weights, std::uint64_t key,
                 std::uint64_t first_block, std::span<std::byte> out) {
  const auto& format = engine::gguf::describe(type);
  assert(can_synthesize(type) && out.size() % format.block_bytes == 0);
  auto* to = reinterpret_cast<std::uint8_t*>(out.data());
  const std::uint64_t end = first_block + out.size() / format.block_bytes;
  const block_filler fill = filler_of(type);
  for (std::uint64_t block = first_block; block < end; ++block, to += format.block_bytes) {
    if (fill != nullptr) {
      word_source in(key, block);
      fill(in, weights.deviation, to);
      continue;
    }
    const double value = weights.mean + weights.deviation * near_normal(random_word(key, block));
    if (type == ggml_type::f16) {
      put_half(to, value);
    } else if (type == ggml_type::bf16) {
      put_bfloat(to, value);
    } else {
      const auto single = static_cast<float>(value);
      std::memcpy(to, &single, sizeof single);
    }
  }
}

}  // namespace terrane::bench

// Sums of four products of bytes, exact, with whatever the target has for them.
#include <vector>

#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/PatternMatch.h>

#include "kernels/llvm/lane_builder.hpp"

namespace terrane::kernels {

using llvm::Value;
using architecture = target_features::architecture;
namespace intrinsic = llvm::Intrinsic;

Value* lane_builder::dot4(Value* a, Value* b, Value* c, unsigned bits) {
  bool lanes =
      c->getType()->isVectorTy() || a->getType()->isVectorTy() || b->getType()->isVectorTy();
  if (!lanes) return dot4_by_products(a, b, c);
  Value* words[] = {to_lanes(a)};
  Value* x[] = {b};
  return dot_words(to_lanes(c), words, x, bits, false);
}

namespace {

// x of a word (x >> 4) & 0x0f0f0f0f, which is the upper nibbles of x; null of another word.
Value* shifted_nibbles(Value* word) {
  using namespace llvm::PatternMatch;
  Value* x = nullptr;
  const bool found =
      match(word, m_And(m_LShr(m_Value(x), m_SpecificInt(4)), m_SpecificInt(0x0f0f0f0fu)));
  return found ? x : nullptr;
}

}  // namespace

// Upper nibbles stay where they are: as bytes they are 16 times as much, and so is their sum, which
// is shifted instead of every word. Shifts have one of the two ports for full registers.
Value* lane_builder::dot_words(Value* acc, std::span<Value* const> words, std::span<Value* const> x,
                               unsigned bits, bool short_chains) {
  if (!has_full_byte_dot()) return dot_any_words(acc, words, x, bits, short_chains);
  std::vector<Value*> upper, upper_x, others, others_x;
  for (std::size_t k = 0; k < words.size(); k++) {
    Value* nibbles = shifted_nibbles(words[k]);
    (nibbles != nullptr ? upper : others)
        .push_back(nibbles == nullptr ? words[k]
                                      : CreateAnd(nibbles, splat_like(nibbles, 0xf0f0f0f0u)));
    (nibbles != nullptr ? upper_x : others_x).push_back(x[k]);
  }
  if (upper.empty()) return dot_any_words(acc, words, x, bits, short_chains);
  Value* zero = llvm::Constant::getNullValue(acc->getType());
  Value* sum = dot_any_words(zero, upper, upper_x, 8, short_chains && others.empty());
  sum = CreateAShr(sum, splat_like(sum, 4));
  return CreateAdd(others.empty() ? acc : dot_any_words(acc, others, others_x, bits, false), sum);
}

// Whether a product of bytes takes all eight bits of the unsigned ones in one instruction.
bool lane_builder::has_full_byte_dot() const {
  if (features_.arch == architecture::aarch64) return features_.dot_mixed;
  const unsigned width = features_.register_lanes();
  return width == 16 ? features_.vnni_512 : width == 8 && features_.vnni_256;
}

Value* lane_builder::dot_any_words(Value* acc, std::span<Value* const> words,
                                   std::span<Value* const> x, unsigned bits, bool short_chains) {
  if (!has_register_dot()) {
    for (std::size_t k = 0; k < words.size(); k++) {
      acc = dot4_by_products(to_lanes(words[k]), to_lanes(x[k]), acc);
    }
    return acc;
  }
  unsigned width = features_.register_lanes();
  std::vector<Value*> parts;
  std::size_t chain = short_chains ? (words.size() + 1) / 2 : words.size();
  for (unsigned first = 0; first < warp_lanes; first += width) {
    std::vector<Value*> a, b;
    for (std::size_t k = 0; k < words.size(); k++) {
      a.push_back(part(words[k], first, width));
      b.push_back(part(x[k], first, width));
    }
    std::span<Value*const> as(a), bs(b);
    Value* sum = dot_register(part(acc, first, width), as.first(chain), bs.first(chain), bits);
    if (chain < words.size()) {
      Value* zero = llvm::Constant::getNullValue(sum->getType());
      sum = CreateAdd(sum, dot_register(zero, as.subspan(chain), bs.subspan(chain), bits));
    }
    parts.push_back(sum);
  }
  return join(parts);
}

bool lane_builder::has_register_dot() const {
  if (features_.arch == architecture::x86) return true;
  return features_.arch == architecture::aarch64 && (features_.dot_mixed || features_.dot_signed);
}

Value* lane_builder::dot4_by_products(Value* a, Value* b, Value* c) {
  for (std::uint32_t k = 0; k < 32; k += 8) {
    Value* u = CreateAnd(CreateLShr(a, splat_like(a, k)), splat_like(a, 255));
    Value* s = CreateAShr(CreateShl(b, splat_like(b, 24 - k)), splat_like(b, 24));
    c = CreateAdd(c, CreateMul(u, s));
  }
  return c;
}

// acc + the products of a[k] and b[k] for all k; each one full register.
Value* lane_builder::dot_register(Value* acc, std::span<Value* const> a, std::span<Value* const> b,
                                  unsigned bits) {
  if (features_.arch == architecture::x86) return dot_register_x86(acc, a, b, bits);
  for (std::size_t k = 0; k < a.size(); k++) acc = dot_register_aarch64(acc, a[k], b[k], bits);
  return acc;
}

Value* lane_builder::dot_register_x86(Value* acc, std::span<Value* const> a,
                                      std::span<Value* const> b, unsigned bits) {
  unsigned width = features_.register_lanes();
  if (has_full_byte_dot()) {
    for (std::size_t k = 0; k < a.size(); k++) acc = vpdpbusd(acc, a[k], b[k]);
    return acc;
  }
  llvm::Type* i16s = llvm::FixedVectorType::get(getInt16Ty(), 2 * width);
  auto c16 = [&](int v) { return llvm::ConstantInt::get(i16s, static_cast<std::uint64_t>(v)); };
  if (bits <= 7 && features_.ssse3) {
    // The pair sums of vpmaddubsw fit int16 for so few bits; `room` of them may be added first.
    std::size_t room = 32767u / (((1u << bits) - 1u) * 256u);
    for (std::size_t k = 0; k < a.size(); k += room) {
      Value* pairs = pairs_saturating(a[k], b[k]);
      for (std::size_t j = k + 1; j < std::min(k + room, a.size()); j++) {
        pairs = CreateAdd(pairs, pairs_saturating(a[j], b[j]));
      }
      acc = CreateAdd(acc, pairs_of_i16(pairs, c16(1)));
    }
    return acc;
  }
  for (std::size_t k = 0; k < a.size(); k++) {
    Value *u = CreateBitCast(a[k], i16s), *s = CreateBitCast(b[k], i16s);
    Value* even = pairs_of_i16(CreateAnd(u, c16(255)), CreateAShr(CreateShl(s, c16(8)), c16(8)));
    Value* odd = pairs_of_i16(CreateLShr(u, c16(8)), CreateAShr(s, c16(8)));
    acc = CreateAdd(acc, CreateAdd(even, odd));
  }
  return acc;
}

Value* lane_builder::vpdpbusd(Value* acc, Value* a, Value* b) {
  intrinsic::ID id = features_.register_lanes() == 16 ? intrinsic::x86_avx512_vpdpbusd_512
                                                      : intrinsic::x86_avx512_vpdpbusd_256;
  return CreateIntrinsic(id, {}, {acc, a, b});
}

// u8(a)*s8(b) of neighbours added, saturating at int16.
Value* lane_builder::pairs_saturating(Value* a, Value* b) {
  unsigned width = features_.register_lanes();
  intrinsic::ID id = width == 16  ? intrinsic::x86_avx512_pmaddubs_w_512
                     : width == 8 ? intrinsic::x86_avx2_pmadd_ub_sw
                                  : intrinsic::x86_ssse3_pmadd_ub_sw_128;
  llvm::Type* bytes = llvm::FixedVectorType::get(getInt8Ty(), 4 * width);
  return CreateIntrinsic(id, {}, {CreateBitCast(a, bytes), CreateBitCast(b, bytes)});
}

Value* lane_builder::pairs_of_i16(Value* a, Value* b) {
  unsigned width = features_.register_lanes();
  intrinsic::ID id = width == 16  ? intrinsic::x86_avx512_pmaddw_d_512
                     : width == 8 ? intrinsic::x86_avx2_pmadd_wd
                                  : intrinsic::x86_sse2_pmadd_wd;
  return CreateIntrinsic(id, {}, {a, b});
}

// ---- AMX

Value* lane_builder::amx_load(unsigned rows, unsigned bytes, Value* from, Value* stride) {
  auto size = [&](unsigned n) { return getInt16(static_cast<std::uint16_t>(n)); };
  return CreateIntrinsic(intrinsic::x86_tileloadd64_internal, {},
                         {size(rows), size(bytes), from, stride});
}

void lane_builder::amx_product(amx_shape shape, Value* activations, Value* words, Value* to) {
  auto size = [&](unsigned n) { return getInt16(static_cast<std::uint16_t>(n)); };
  Value *rows = size(shape.columns), *row_bytes = size(64);
  Value* stride = getInt64(64);
  Value* zero = CreateIntrinsic(intrinsic::x86_tilezero_internal, {}, {rows, row_bytes});
  Value* weights = amx_load(shape.words, 64, words, stride);
  Value* product =
      CreateIntrinsic(intrinsic::x86_tdpbsud_internal, {},
                      {rows, row_bytes, size(4 * shape.words), zero, activations, weights});
  CreateIntrinsic(intrinsic::x86_tilestored64_internal, {}, {rows, row_bytes, to, stride, product});
}

Value* lane_builder::dot_register_aarch64(Value* acc, Value* a, Value* b, unsigned bits) {
  llvm::Type* bytes = llvm::FixedVectorType::get(getInt8Ty(), 16);
  llvm::Type* words = acc->getType();
  auto call = [&](intrinsic::ID id, Value* sum, Value* u, Value* s) {
    return CreateIntrinsic(id, {words, bytes},
                           {sum, CreateBitCast(u, bytes), CreateBitCast(s, bytes)});
  };
  if (features_.dot_mixed) return call(intrinsic::aarch64_neon_usdot, acc, a, b);
  if (bits <= 7) return call(intrinsic::aarch64_neon_sdot, acc, a, b);
  // u8(a) = s8(a ^ 0x80) + 128
  Value* ones = splat_like(acc, 0x01010101u);
  Value* zero = llvm::Constant::getNullValue(words);
  Value* sum_b = call(intrinsic::aarch64_neon_sdot, zero, ones, b);
  acc = CreateAdd(acc, CreateShl(sum_b, splat_like(acc, 7)));
  return call(intrinsic::aarch64_neon_sdot, acc, CreateXor(a, splat_like(a, 0x80808080u)), b);
}

}  // namespace terrane::kernels

#include "kernels/llvm/lane_builder.hpp"

#include <array>
#include <numeric>
#include <vector>

#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace terrane::kernels {

using llvm::Value;

llvm::Type* lane_builder::type_of(scalar_type scalar) {
  switch (scalar) {
    case scalar_type::pred:
      return getInt1Ty();
    case scalar_type::i32:
      return getInt32Ty();
    case scalar_type::f32:
      return getFloatTy();
    case scalar_type::ptr:
      return getPtrTy();
  }
  llvm_unreachable("a scalar type");
}

llvm::Type* lane_builder::type_of(const value_type& type) {
  llvm::Type* scalar = type_of(type.scalar);
  return type.vary == spread::lane ? llvm::FixedVectorType::get(scalar, warp_lanes) : scalar;
}

llvm::Type* lane_builder::type_of(memory_type mem) {
  if (mem == memory_type::f32) return getFloatTy();
  if (mem == memory_type::ptr) return getPtrTy();
  return getIntNTy(static_cast<unsigned>(byte_size(mem)) * 8);
}

Value* lane_builder::to_lanes(Value* v) {
  return v->getType()->isVectorTy() ? v : CreateVectorSplat(warp_lanes, v);
}

Value* lane_builder::splat_like(Value* shape, std::uint32_t bits) {
  llvm::Type* t = getInt32Ty();
  if (auto* v = llvm::dyn_cast<llvm::VectorType>(shape->getType())) {
    t = llvm::VectorType::get(t, v->getElementCount());
  }
  return llvm::ConstantInt::get(t, bits);
}

// ---- f16

Value* lane_builder::half_to_float(Value* h, bool every_nan) {
  if (!features_.half_conversion) return half_to_float_by_integers(h);
  llvm::Type* wide = h->getType();
  llvm::Type* narrow = wide->getWithNewType(getInt16Ty());
  llvm::Type* floats = wide->getWithNewType(getFloatTy());
  Value* bits = CreateTrunc(h, narrow);
  Value* half = CreateBitCast(bits, narrow->getWithNewType(getHalfTy()));
  if (!every_nan) return CreateFPExt(half, floats);
  Value* f = CreateBitCast(CreateFPExt(half, floats), wide);
  // Instructions quiet a signalling NaN (0x7c01..0x7dff, either sign); the contract keeps its bits.
  auto c = [&](std::uint64_t v) { return llvm::ConstantInt::get(narrow, v); };
  Value* from_first = CreateSub(CreateShl(bits, c(1)), c(0x7c01u << 1));
  Value* signalling = CreateICmpULT(from_first, c(0x1ffu << 1));
  Value* kept = CreateXor(f, splat_like(h, 0x400000u));
  return CreateBitCast(CreateSelect(signalling, kept, f), floats);
}

Value* lane_builder::half_to_float_by_integers(Value* h) {
  auto c = [&](std::uint32_t bits) { return splat_like(h, bits); };
  llvm::Type* wide = h->getType();
  llvm::Type* floats = wide->getWithNewType(getFloatTy());
  Value* sign = CreateShl(CreateAnd(h, c(0x8000)), c(16));
  Value* a = CreateAnd(h, c(0x7fff));
  Value* moved = CreateShl(a, c(13));
  Value* normal = CreateAdd(moved, c(0x38000000u));
  Value* special = CreateAdd(moved, c(0x70000000u));
  Value* small = CreateBitCast(
      CreateFMul(CreateSIToFP(a, floats), llvm::ConstantFP::get(floats, 0x1p-24)), wide);
  Value* bits = CreateSelect(CreateICmpUGE(a, c(0x7c00)), special, normal);
  bits = CreateSelect(CreateICmpULT(a, c(0x0400)), small, bits);
  return CreateBitCast(CreateOr(sign, bits), floats);
}

Value* lane_builder::float_to_half(Value* f) {
  if (!features_.half_conversion) return float_to_half_by_integers(f);
  llvm::Type* wide = f->getType()->getWithNewType(getInt32Ty());
  Value* half = CreateFPTrunc(f, f->getType()->getWithNewType(getHalfTy()));
  Value* h = CreateZExt(CreateBitCast(half, half->getType()->getWithNewType(getInt16Ty())), wide);
  // A NaN keeps its sign only.
  Value* sign =
      CreateAnd(CreateLShr(CreateBitCast(f, wide), splat_like(f, 16)), splat_like(f, 0x8000));
  Value* nan = CreateOr(sign, splat_like(f, 0x7e00));
  return CreateSelect(CreateFCmpUNO(f, f), nan, h);
}

Value* lane_builder::float_to_half_by_integers(Value* f) {
  auto c = [&](std::uint32_t bits) { return splat_like(f, bits); };
  Value* b = CreateBitCast(f, f->getType()->getWithNewType(getInt32Ty()));
  Value* sign = CreateAnd(CreateLShr(b, c(16)), c(0x8000));
  Value* a = CreateAnd(b, c(0x7fffffffu));
  auto rounded = [&](Value* kept, Value* half_up, Value* odd_shift) {
    return CreateLShr(
        CreateAdd(kept, CreateAdd(half_up, CreateAnd(CreateLShr(kept, odd_shift), c(1)))),
        odd_shift);
  };
  Value* normal = rounded(CreateSub(a, c(0x38000000u)), c(0xfff), c(13));
  // Below 2^-14: the mantissa with its leading one, shifted by 14 to 24 and rounded alike.
  Value* mantissa = CreateOr(CreateAnd(a, c(0x7fffff)), c(0x800000));
  Value* shift = CreateSub(c(126), CreateLShr(a, c(23)));
  shift = CreateSelect(CreateICmpUGT(shift, c(24)), c(24), shift);
  Value* half_up = CreateSub(CreateShl(c(1), CreateSub(shift, c(1))), c(1));
  Value* small = rounded(mantissa, half_up, shift);
  Value* bits = CreateSelect(CreateICmpUGE(a, c(0x38800000u)), normal, small);
  bits = CreateSelect(CreateICmpULT(a, c(0x33000000u)), c(0), bits);
  bits = CreateSelect(CreateICmpUGE(a, c(0x47800000u)), c(0x7c00), bits);
  bits = CreateSelect(CreateICmpUGT(a, c(0x7f800000u)), c(0x7e00), bits);
  return CreateOr(sign, bits);
}

Value* lane_builder::fma_exact(Value* a, Value* b, Value* c) {
  if (features_.fma) return CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
  return CreateFAdd(CreateFMul(a, b), c);
}

Value* lane_builder::lane_tree_add(Value* f32_lanes) {
  Value* t = f32_lanes;
  for (unsigned s = warp_lanes / 2; s >= 1; s /= 2) t = CreateFAdd(part(t, 0, s), part(t, s, s));
  return CreateExtractElement(t, std::uint64_t{0});
}

// ---- tables of bytes

Value* lane_builder::look_up(const byte_table& table, Value* words) {
  const unsigned width = features_.register_lanes();
  if (!words->getType()->isVectorTy()) {
    return CreateExtractElement(look_up_register(table, part(words, 0, width)), std::uint64_t{0});
  }
  std::vector<Value*> parts;
  for (unsigned first = 0; first < warp_lanes; first += width) {
    parts.push_back(look_up_register(table, part(words, first, width)));
  }
  return join(parts);
}

// Each 16 bytes of a register have the table to themselves.
Value* lane_builder::look_up_register(const byte_table& table, Value* words) {
  namespace intrinsic = llvm::Intrinsic;
  const unsigned width = features_.register_lanes();
  std::vector<std::uint8_t> bytes;
  for (unsigned k = 0; k < 4 * width; k++) bytes.push_back(table[k % table.size()]);
  Value* tables = llvm::ConstantDataVector::get(getContext(), bytes);
  Value* codes = CreateAnd(words, splat_like(words, 0x0f0f0f0fu));
  codes = CreateBitCast(codes, tables->getType());
  Value* found = nullptr;
  if (features_.arch == target_features::architecture::aarch64) {
    found = CreateIntrinsic(intrinsic::aarch64_neon_tbl1, {tables->getType()}, {tables, codes});
  } else {
    intrinsic::ID id = width == 16  ? intrinsic::x86_avx512_pshuf_b_512
                       : width == 8 ? intrinsic::x86_avx2_pshuf_b
                                    : intrinsic::x86_ssse3_pshuf_b_128;
    found = CreateIntrinsic(id, {}, {tables, codes});
  }
  return CreateBitCast(found, words->getType());
}

// ---- parts of vectors

Value* lane_builder::shuffle(Value* a, Value* b, std::span<const int> mask) {
  return CreateShuffleVector(a, b, llvm::ArrayRef<int>(mask.data(), mask.size()));
}

Value* lane_builder::part(Value* v, unsigned first, unsigned count) {
  if (!v->getType()->isVectorTy()) return CreateVectorSplat(count, v);
  std::vector<int> mask(count);
  std::iota(mask.begin(), mask.end(), static_cast<int>(first));
  return shuffle(v, v, mask);
}

Value* lane_builder::join(std::span<Value* const> parts) {
  std::vector<Value*> level(parts.begin(), parts.end());
  while (level.size() > 1) {
    std::vector<Value*> next;
    for (std::size_t k = 0; k < level.size(); k += 2) {
      auto width = llvm::cast<llvm::FixedVectorType>(level[k]->getType())->getNumElements();
      std::vector<int> mask(2 * width);
      std::iota(mask.begin(), mask.end(), 0);
      next.push_back(shuffle(level[k], level[k + 1], mask));
    }
    level = std::move(next);
  }
  return level[0];
}

// ---- 16 bytes a lane

std::array<Value*, 4> lane_builder::transpose_rows(const std::array<Value*, 4>& rows) {
  int width = static_cast<int>(features_.register_lanes());
  std::array<Value*, 4> r = rows;
  auto mix = [&](Value* a, Value* b, auto&& index) {
    std::vector<int> mask(static_cast<std::size_t>(width));
    for (int i = 0; i < width; i++) mask[static_cast<std::size_t>(i)] = index(i);
    return shuffle(a, b, mask);
  };
  int half = width / 2;
  auto low = [&](int i) { return i < half ? i : width + i - half; };
  auto high = [&](int i) { return i < half ? half + i : width + i; };
  if (width == 8) {
    // Two source permutes are dear before AVX-512: halves first, then unpacking within 128 bits.
    std::array<Value*, 4> b = {mix(r[0], r[2], low), mix(r[0], r[2], high), mix(r[1], r[3], low),
                               mix(r[1], r[3], high)};
    auto unpack = [&](Value* x, Value* y, int first) {
      return mix(x, y, [&](int i) {
        return (i / 4) * 4 + first + (i % 4) / 2 + (i % 2 != 0 ? width : 0);
      });
    };
    auto unpack_pairs = [&](Value* x, Value* y, int first) {
      return mix(x, y,
                 [&](int i) { return (i / 4) * 4 + first + i % 2 + (i % 4 >= 2 ? width : 0); });
    };
    Value *t0 = unpack(b[0], b[1], 0), *t1 = unpack(b[2], b[3], 0);
    Value *t2 = unpack(b[0], b[1], 2), *t3 = unpack(b[2], b[3], 2);
    return {unpack_pairs(t0, t1, 0), unpack_pairs(t0, t1, 2), unpack_pairs(t2, t3, 0),
            unpack_pairs(t2, t3, 2)};
  }
  // Words k and k+1 of two registers' rows side by side, then the halves of two such.
  auto words = [&](Value* a, Value* b, int k) {
    return mix(a, b, [&](int i) { return 4 * (i % half) + k + i / half; });
  };
  Value *p0 = words(r[0], r[1], 0), *q0 = words(r[0], r[1], 2);
  Value *p1 = words(r[2], r[3], 0), *q1 = words(r[2], r[3], 2);
  return {mix(p0, p1, low), mix(p0, p1, high), mix(q0, q1, low), mix(q0, q1, high)};
}

std::array<Value*, 4> lane_builder::load_lanes_x4(Value* pointer) {
  unsigned width = features_.register_lanes();
  std::array<std::vector<Value*>, 4> parts;
  for (unsigned first = 0; first < warp_lanes; first += width) {
    std::array<Value*, 4> rows;
    for (unsigned k = 0; k < 4; k++) {
      Value* at = CreateConstInBoundsGEP1_64(getInt8Ty(), pointer, 16 * first + 4 * k * width);
      rows[k] =
          CreateAlignedLoad(llvm::FixedVectorType::get(getInt32Ty(), width), at, llvm::Align(16));
    }
    std::array<Value*, 4> words = transpose_rows(rows);
    for (unsigned k = 0; k < 4; k++) parts[k].push_back(words[k]);
  }
  return {join(parts[0]), join(parts[1]), join(parts[2]), join(parts[3])};
}

}  // namespace terrane::kernels

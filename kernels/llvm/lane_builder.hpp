// An IRBuilder that knows lanes: 32-wide vectors and the operations of the kernel language that
// take more than one instruction or depend on the target's instructions. Bits equal the
// interpreter's. Used by one thread. Internal to kernels/llvm.
#pragma once

#include <span>

#include <llvm/IR/IRBuilder.h>

#include "kernels/lang/program.hpp"
#include "kernels/llvm/target.hpp"

namespace terrane::kernels {

class lane_builder : public llvm::IRBuilder<> {
 public:
  lane_builder(llvm::LLVMContext& context, const target_features& features)
      : llvm::IRBuilder<>(context), features_(features) {}

  llvm::Type* type_of(scalar_type scalar);
  llvm::Type* type_of(const value_type& type);  // of one column if a tile
  llvm::Type* type_of(memory_type mem);

  // A scalar in every lane; a vector as it is.
  llvm::Value* to_lanes(llvm::Value* v);
  llvm::Value* splat_like(llvm::Value* shape, std::uint32_t bits);  // an i32 shaped as `shape`

  // On scalars or vectors alike; i32 in, float out and the reverse.
  // `every_nan`: of a NaN all bits are kept, as the language says; else it may be another NaN.
  llvm::Value* half_to_float(llvm::Value* h, bool every_nan);
  llvm::Value* float_to_half(llvm::Value* f);
  llvm::Value* fma_exact(llvm::Value* a, llvm::Value* b, llvm::Value* c);

  // c + sum over the bytes of u8(a)*s8(b), on scalars or 32 lanes.
  llvm::Value* dot4(llvm::Value* a, llvm::Value* b, llvm::Value* c, unsigned bits);
  // acc + sum over k of dot4(words[k], x[k]); words 32 lanes, x scalars. `short_chains`: nothing
  // else runs beside it, so additions to one register should not wait for each other.
  llvm::Value* dot_words(llvm::Value* acc, std::span<llvm::Value* const> words,
                         std::span<llvm::Value* const> x, unsigned bits, bool short_chains);

  // Each byte of the words by its lower four bits; words as scalars or 32 lanes. For targets with
  // byte_look_up().
  llvm::Value* look_up(const byte_table& table, llvm::Value* words);

  // AMX (tiles of registers): whether the target has it, and its product of `columns` rows of
  // signed activations with 16 lanes of unsigned words, `words` rows of 64 bytes in memory; the
  // product is stored as `columns` rows of 64 bytes, one i32 a lane.
  struct amx_shape {
    unsigned columns, words;
  };
  bool has_tiles() const { return features_.amx_int8; }
  llvm::Value* amx_load(unsigned rows, unsigned bytes, llvm::Value* from, llvm::Value* stride);
  void amx_product(amx_shape shape, llvm::Value* activations, llvm::Value* words, llvm::Value* to);

  // Lanes [first, first + count) of a vector; a scalar spread to so many. And the reverse.
  llvm::Value* part(llvm::Value* v, unsigned first, unsigned count);
  llvm::Value* join(std::span<llvm::Value* const> parts);

  // 512 bytes at a 16-byte aligned address: result k has word 4*lane + k.
  std::array<llvm::Value*, 4> load_lanes_x4(llvm::Value* pointer);

  llvm::Value* lane_tree_add(llvm::Value* f32_lanes);

 private:
  llvm::Value* half_to_float_by_integers(llvm::Value* h);
  llvm::Value* float_to_half_by_integers(llvm::Value* f);
  llvm::Value* dot4_by_products(llvm::Value* a, llvm::Value* b, llvm::Value* c);
  llvm::Value* dot_register(llvm::Value* acc, std::span<llvm::Value* const> a,
                            std::span<llvm::Value* const> b, unsigned bits);
  llvm::Value* dot_register_x86(llvm::Value* acc, std::span<llvm::Value* const> a,
                                std::span<llvm::Value* const> b, unsigned bits);
  llvm::Value* dot_register_aarch64(llvm::Value* acc, llvm::Value* a, llvm::Value* b,
                                    unsigned bits);
  llvm::Value* vpdpbusd(llvm::Value* acc, llvm::Value* a, llvm::Value* b);
  llvm::Value* pairs_saturating(llvm::Value* a, llvm::Value* b);
  llvm::Value* pairs_of_i16(llvm::Value* a, llvm::Value* b);
  llvm::Value* look_up_register(const byte_table& table, llvm::Value* words);
  bool has_register_dot() const;
  bool has_full_byte_dot() const;
  llvm::Value* dot_any_words(llvm::Value* acc, std::span<llvm::Value* const> words,
                             std::span<llvm::Value* const> x, unsigned bits, bool short_chains);
  llvm::Value* shuffle(llvm::Value* a, llvm::Value* b, std::span<const int> mask);
  std::array<llvm::Value*, 4> transpose_rows(const std::array<llvm::Value*, 4>& rows);

  const target_features& features_;
};

}  // namespace terrane::kernels

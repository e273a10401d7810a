// Lowers a kernel program to LLVM IR for NVPTX: a lane is a thread, so every value is a scalar of
// the thread, uniform ones computed by all threads alike; a tile is one value a column, the lane's
// row of it. One use each; one thread. Internal to kernels/ptx.
//
// Split over lowering.cpp (control and scalars) and lowering_memory.cpp (memory, lanes, tiles).
#pragma once

#include <string>
#include <vector>

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Module.h>

#include "kernels/llvm/lane_builder.hpp"
#include "kernels/ptx/emit_ptx.hpp"
#include "kernels/ptx/known_values.hpp"

namespace terrane::kernels::ptx {

class lowering {
 public:
  // The program must have passed verify().
  lowering(const program& p, llvm::Module& module, const ptx_options& options);
  llvm::Function* run(const std::string& entry);

 private:
  using columns = llvm::SmallVector<llvm::Value*, 8>;  // one value, or one a column of a tile

  // Values
  const value_type& type(value_id v) const { return p_.values[v]; }
  unsigned width(value_id v) const { return type(v).is_tile() ? type(v).columns : 1; }
  bool uniform(value_id v) const { return type(v).vary != spread::lane; }
  llvm::Type* type_of(scalar_type s);
  llvm::Value* get(value_id v) { return values_[v][0]; }
  void set(value_id v, llvm::Value* value) { values_[v] = {value}; }

  // lowering.cpp
  void declare_function(const std::string& entry);
  void find_thread();
  llvm::BasicBlock* block(const char* name);
  void lower_region(const region& r);
  void lower(const instruction& in);
  void lower_loop(const instruction& in);
  llvm::Value* another_turn(const instruction& in, llvm::Value* i, llvm::Value* end,
                            llvm::Value*& next);
  void mark_unrolled(llvm::Instruction* latch, const instruction& in);
  void lower_branch(const instruction& in);
  void if_then(llvm::Value* condition, llvm::function_ref<void()> body);
  llvm::Value* lower_value(const instruction& in);
  llvm::Value* lower_builtin(const instruction& in);
  llvm::Value* lower_integer(opcode op, llvm::Value* a, llvm::Value* b);
  llvm::Value* half_to_float(llvm::Value* h);
  llvm::Value* bits_of(llvm::Value* f);
  llvm::Value* dot4(llvm::Value* a, llvm::Value* b, llvm::Value* c);

  // lowering_memory.cpp
  void lower_global(const instruction& in);
  void lower_store(const instruction& in);
  void lower_shared(const instruction& in);
  void lower_barrier();
  llvm::Value* lower_reduction(opcode op, llvm::Value* value);
  void lower_tile(const instruction& in);
  void lower_tile_dot(const instruction& in);
  void lower_tile_map(const instruction& in);
  llvm::Value* moved(llvm::Value* pointer, std::uint64_t bytes);
  llvm::Value* moved(llvm::Value* pointer, llvm::Value* index, std::uint32_t scale);
  llvm::Value* column_address(llvm::Value* pointer, llvm::Value* stride, unsigned column);
  llvm::Value* load_element(memory_type mem, llvm::Value* pointer);
  void store_element(memory_type mem, llvm::Value* pointer, llvm::Value* value);
  // `count` i32 words at an address that `alignment` divides.
  columns words_at(llvm::Value* pointer, unsigned count, std::uint32_t alignment);
  llvm::Value* shared_address(llvm::Value* index);

  const program& p_;
  llvm::Module& module_;
  const ptx_options& options_;
  known_values known_;
  target_features features_;
  lane_builder b_;
  std::vector<columns> values_;
  llvm::Function* function_ = nullptr;
  llvm::GlobalVariable* shared_ = nullptr;
  llvm::Value *lane_ = nullptr, *warp_ = nullptr;
};

}  // namespace terrane::kernels::ptx

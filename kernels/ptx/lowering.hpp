// Lowers a kernel program to LLVM IR for NVPTX: a lane is a thread, so every value is a scalar of
// the thread, uniform ones computed by all threads alike. A tile of n columns is n values of each
// lane, in one of two layouts:
//
//   rows       lane l holds row l: value c is column c. Products by dp4a.
//   fragments  what the int8 tensor cores take and give (m16n8k32): with g = l / 4 and t = l % 4,
//              value 8n + 2m + j is row g + 8m of column 8n + 2t + j.
//
// One use each; one thread. Internal to kernels/ptx.
//
// Split over lowering.cpp (control and scalars), lowering_memory.cpp (memory, lanes, tiles),
// lowering_fragments.cpp (the second layout) and lowering_dependent.cpp (starting early).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Module.h>

#include "kernels/lang/known_values.hpp"
#include "kernels/llvm/lane_builder.hpp"
#include "kernels/ptx/emit_ptx.hpp"

namespace terrane::kernels::ptx {

// Whether an instruction, or one inside it, reads or writes global memory.
bool uses_memory(const instruction& in);
// Whether the tiles of a program are held as fragments.
bool takes_fragments(const program& p, const ptx_options& options);
// The 32-bit word of shared memory where fragments' scratch starts, and how many a warp has.
std::uint32_t fragment_scratch_start(const program& p);
inline constexpr std::uint32_t fragment_scratch_words = 256;

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
  llvm::Value* get(value_id v);
  columns held(value_id v);
  void set(value_id v, llvm::Value* value) { values_[v] = {value}; }

  // lowering.cpp
  void declare_function(const std::string& entry);
  unsigned groups_at_once() const;
  void find_thread();
  llvm::BasicBlock* block(bool warp_together);
  llvm::BasicBlock* block() { return block(element_ == nullptr); }
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
  llvm::Value* half_to_float(llvm::Value* h, bool every_nan);
  llvm::Value* rounded_to_half(const instruction& in);
  llvm::Value* bits_of(llvm::Value* f);
  llvm::Value* dot4(llvm::Value* a, llvm::Value* b, llvm::Value* c);

  // lowering_dependent.cpp
  bool starts_early() const { return options_.sm >= 90; }
  void let_next_start();
  void wait_for_phases_before();
  void lower_prefetch(const instruction& in);

  // lowering_memory.cpp
  void lower_global(const instruction& in);
  void lower_store(const instruction& in);
  void lower_shared(const instruction& in);
  void lower_barrier();
  void lower_warp_barrier();
  llvm::Value* lower_reduction(opcode op, llvm::Value* value);
  void lower_tile(const instruction& in);
  void lower_tile_dot(const instruction& in);
  void lower_tile_map(const instruction& in);
  llvm::Value* moved(llvm::Value* pointer, std::uint64_t bytes);
  llvm::Value* moved(llvm::Value* pointer, llvm::Value* index, std::uint32_t scale);
  llvm::Value* column_address(llvm::Value* pointer, llvm::Value* stride, llvm::Value* column);
  llvm::Value* load_element(memory_type mem, llvm::Value* pointer);
  // `known_alignment`: a power of two that is known to divide the address.
  void store_element(memory_type mem, llvm::Value* pointer, llvm::Value* value,
                     std::uint32_t known_alignment = 1);
  // `count` i32 words at an address that `alignment` divides.
  columns words_at(llvm::Value* pointer, unsigned count, std::uint32_t alignment);
  llvm::Value* shared_address(llvm::Value* index);
  llvm::Value* shared_address(value_id index);

  // lowering_fragments.cpp
  void find_fragment_rows();
  const columns& fragment_words(const std::vector<value_id>& words);
  columns spread_words(std::span<const value_id> words);
  std::optional<columns> computed_words(const std::vector<value_id>& words);
  void lower_fragment_dot(const instruction& in);
  void enter_rows(const region& r);
  void need_rows(const region& r, const std::set<value_id>& inside);
  columns rows_of(value_id v);
  columns recomputed_rows(const instruction& in);
  columns shuffled_rows(llvm::Value* value);
  llvm::Value* shuffle(llvm::Value* value, llvm::Value* source);

  // Where an element of a tile is, as this thread knows it.
  struct element {
    llvm::Value* row;
    llvm::Value* column;
    unsigned m;  // which of the thread's rows: of fragments
  };
  std::vector<element> elements_of(unsigned count);

  const program& p_;
  llvm::Module& module_;
  const ptx_options& options_;
  known_values known_;
  target_features features_;
  lane_builder b_;
  std::vector<columns> values_;
  llvm::Function* function_ = nullptr;
  bool waited_ = false;  // for the phases before, on every way here
  llvm::GlobalVariable* shared_ = nullptr;
  llvm::Value *lane_ = nullptr, *warp_ = nullptr;
  // Whose element load_lanes and its kin mean: the lane's own; inside a tile_map the element's row.
  llvm::Value* row_ = nullptr;

  bool fragments_;
  llvm::Value *g_ = nullptr, *t_ = nullptr;
  columns fragment_rows_;                            // g + 8m
  std::map<std::vector<value_id>, columns> spread_;  // words of this region, as fragments
  std::vector<const instruction*> makers_;    // of values, where a single instruction makes one
  std::map<llvm::Value*, columns> shuffled_;  // lane values, as these rows' lanes have them
  std::map<value_id, columns> as_rows_;       // the same, of values that a tile_map needs
  const element* element_ = nullptr;          // that a tile_map is being lowered for
};

}  // namespace terrane::kernels::ptx

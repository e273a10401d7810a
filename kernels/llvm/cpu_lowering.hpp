// Lowers a kernel program to LLVM IR for a CPU: a lane value is a 32-wide vector, a value that is
// the same for the warp or the group a scalar, a tile one vector a column. The function made is
//
//   void NAME(const u64* arguments, u32 x_begin, u32 x_end, u32 y, void* shared)
//
// and runs the workgroups (x_begin..x_end-1, y) one after another; `shared` holds the program's
// shared words, 64-byte aligned.
//
// A group of several warps is run by one thread: between two barriers ("a stretch") the warps run
// one after another in a loop; loops and branches that hold a barrier ("stepped" ones) are made
// once, with such loops inside. A value that is used in another stretch than its own is kept in
// memory, per warp unless it is the same for the group. One use each; one thread. Internal to
// kernels/llvm.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Module.h>

#include "kernels/lang/program.hpp"
#include "kernels/llvm/lane_builder.hpp"

namespace terrane::kernels {

class cpu_lowering {
 public:
  // The program must have passed verify().
  cpu_lowering(const program& p, llvm::Module& module, const target_features& features);
  llvm::Function* run(const std::string& symbol);

 private:
  using columns = llvm::SmallVector<llvm::Value*, 4>;  // one value, or one a column of a tile

  // What is known of a value of the program.
  struct place {
    columns values;        // in registers
    unsigned stretch = 0;  // where `values` may be used; 0: everywhere
    unsigned home = 0;     // the stretch that defines it; 0: none
    bool is_warp = false;  // the warp's index
    bool kept = false;     // in memory, too
    llvm::AllocaInst* memory = nullptr;
    llvm::AllocaInst* product = nullptr;  // a tile that AMX stored, read where it is used
  };

  // Stretches (stretches.cpp)
  bool is_stepped(const instruction& in) const;
  void find_stretches(const region& r);
  void find_stepped(const instruction& in);
  void note_uses(const instruction& in, unsigned stretch);
  void note_use(value_id v, unsigned stretch);
  void keep(value_id v);
  void lower_group(const region& r);
  void lower_stretch(std::span<const instruction> body);
  void lower_stepped_loop(const instruction& in);
  void lower_stepped_branch(const instruction& in);
  void for_each_warp(unsigned stretch, const std::function<void()>& body);
  void copy_in_memory(std::span<const value_id> from, value_id to);
  llvm::Value* address_in_memory(value_id v, unsigned column);

  // Values
  const value_type& type(value_id v) const { return p_.values[v]; }
  unsigned width(value_id v) const { return type(v).is_tile() ? type(v).columns : 1; }
  columns get(value_id v);
  llvm::Value* scalar(value_id v) { return get(v)[0]; }
  llvm::Value* shaped(value_id v, const value_type& as) { return all_shaped(v, as)[0]; }
  columns all_shaped(value_id v, const value_type& as);
  void set(value_id v, columns values);

  // Control inside a stretch
  void lower_region(const region& r);
  void lower_loop(const instruction& in);
  void lower_branch(const instruction& in);
  columns for_range(llvm::Value* begin, llvm::Value* end, std::uint32_t step, const columns& first,
                    const std::function<columns(llvm::Value*, const columns&)>& body);
  llvm::BasicBlock* block(const char* name);

  // Instructions (cpu_instructions.cpp, cpu_memory.cpp)
  void lower(const instruction& in);
  llvm::Value* lower_value(const instruction& in);
  llvm::Value* lower_integer(opcode op, llvm::Value* a, llvm::Value* b);
  llvm::Value* lower_float(opcode op, llvm::Value* a, llvm::Value* b);
  llvm::Value* lower_reduction(opcode op, llvm::Value* lanes);
  void lower_builtins();
  void lower_tile(const instruction& in);
  void lower_tile_dot(const instruction& in);
  // A product by AMX whose words are in memory, to be begun with others.
  struct pending_product {
    lane_builder::amx_shape shape;
    llvm::Value *activations, *stride;
    llvm::AllocaInst *words, *product;
  };
  void dot_in_tiles(const instruction& in);
  void finish_products();
  llvm::Value* product_column(llvm::AllocaInst* product, unsigned height, unsigned column);
  llvm::Value* tile_column(value_id tile, unsigned column);
  void lower_tile_map(const instruction& in);
  void lower_memory(const instruction& in);
  void fetch_ahead(llvm::Value* pointer, unsigned distance, unsigned bytes);
  llvm::Value* load_from(llvm::Value* pointer, memory_type mem, const value_type& result);
  void store_to(llvm::Value* pointer, memory_type mem, llvm::Value* value, llvm::Value* where);
  void lower_store(const instruction& in);
  void lower_shared(const instruction& in);
  llvm::Value* shared_address(llvm::Value* index);
  llvm::Value* column_address(llvm::Value* pointer, llvm::Value* stride, unsigned column);
  llvm::Value* byte_offset(llvm::Value* pointer, llvm::Value* index, std::uint32_t scale);

  const program& p_;
  llvm::Module& module_;
  lane_builder b_;
  std::vector<place> places_;
  llvm::Function* function_ = nullptr;
  llvm::BasicBlock* entry_ = nullptr;  // once a call: arguments, memory of kept values
  llvm::Value* group_x_ = nullptr;
  std::vector<pending_product> pending_;

  unsigned stretches_ = 0;                     // found, then lowered, so far
  unsigned copies_ = 1u << 31;                 // numbers, as of a stretch, of the loops that copy
  unsigned stretch_ = 0;                       // the one being lowered; 0: none
  llvm::Value* warp_ = nullptr;                // the warp it is lowered for
  llvm::BasicBlock* stretch_entry_ = nullptr;  // of a stretch in a loop over warps
};

}  // namespace terrane::kernels

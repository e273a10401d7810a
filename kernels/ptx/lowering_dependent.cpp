// Kernels that start before the ones ahead of them have ended, from compute capability 9.0 on.
//
// A kernel lets the next one start as soon as all of its own workgroups have; the next one asks for
// the weights it will read, loads what is settled, and then, before anything else of memory, waits
// until all before it have ended and what they wrote is seen. Every workgroup waits, on every way
// through a program: so a kernel that has ended says that all before it have, too.
#include <algorithm>

#include <llvm/IR/InlineAsm.h>

#include "kernels/ptx/early_loads.hpp"
#include "kernels/ptx/lowering.hpp"

namespace terrane::kernels::ptx {

using llvm::Value;

namespace {

// An instruction that memory operations are not moved across.
void emit(lane_builder& b, const char* text, const char* constraints,
          llvm::ArrayRef<Value*> operands) {
  std::vector<llvm::Type*> types;
  for (Value* v : operands) types.push_back(v->getType());
  auto* signature = llvm::FunctionType::get(b.getVoidTy(), types, false);
  b.CreateCall(llvm::InlineAsm::get(signature, text, constraints, /*hasSideEffects=*/true),
               operands);
}

}  // namespace

// Whether the phases before have to have ended for it.
bool uses_memory(const instruction& in) {
  if (in.settled) return false;
  switch (in.op) {
    case opcode::load:
    case opcode::load_words:
    case opcode::load_lanes:
    case opcode::load_lanes_x4:
    case opcode::store:
    case opcode::store_lanes:
    case opcode::tile_dot:
    case opcode::tile_load:
    case opcode::tile_store:
      return true;
    default:
      return std::ranges::any_of(
          in.regions, [](const region& r) { return std::ranges::any_of(r.body, uses_memory); });
  }
}

void lowering::let_next_start() {
  if (starts_early()) emit(b_, "griddepcontrol.launch_dependents;", "~{memory}", {});
}

void lowering::wait_for_phases_before() {
  if (starts_early() && !waited_) emit(b_, wait_text, "~{memory}", {});
  waited_ = true;
}

// By the first thread of the group, into the cache that all share.
void lowering::lower_prefetch(const instruction& in) {
  if (!starts_early()) return;
  Value* first = b_.CreateICmpEQ(lane_, b_.getInt32(0));
  if (p_.warps > 1) first = b_.CreateAnd(first, b_.CreateICmpEQ(warp_, b_.getInt32(0)));
  Value *from = get(in.operands[0]), *bytes = b_.getInt32(in.imm);
  if_then(first, [&] {
    emit(b_, "cp.async.bulk.prefetch.L2.global [$0], $1;", "l,r,~{memory}", {from, bytes});
  });
}

}  // namespace terrane::kernels::ptx

#include "kernels/ptx/early_loads.hpp"

#include <set>
#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

namespace terrane::kernels::ptx {

namespace {

using llvm::Instruction;
using llvm::Value;
namespace intrinsic = llvm::Intrinsic;

constexpr unsigned shared_space = 3, global_space = 1;
constexpr unsigned most_registers = 56;  // of 32 bits, held by loads under way
constexpr unsigned fewest_loads = 2;

// Whether a value may differ between the threads of a warp: whether it comes from the thread's
// index other than by the bits that number its warp.
bool varies_in_warp(Value* v, std::set<Value*>& seen) {
  auto* in = llvm::dyn_cast<Instruction>(v);
  if (in == nullptr || !seen.insert(v).second) return false;
  if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(in))
    return call->getIntrinsicID() == intrinsic::nvvm_read_ptx_sreg_tid_x;
  if (llvm::isa<llvm::LoadInst>(in)) return false;
  if (auto* by = in->getNumOperands() == 2 ? llvm::dyn_cast<llvm::ConstantInt>(in->getOperand(1))
                                           : nullptr) {
    if (in->getOpcode() == Instruction::LShr && by->getValue().uge(5)) return false;
    if (in->getOpcode() == Instruction::And && by->getValue().countr_zero() >= 5) return false;
  }
  for (Value* operand : in->operands())
    if (varies_in_warp(operand, seen)) return true;
  return false;
}

bool is_weight_load(Instruction& in) {
  auto* load = llvm::dyn_cast<llvm::LoadInst>(&in);
  if (load == nullptr || load->getPointerAddressSpace() != global_space || load->isVolatile())
    return false;
  std::set<Value*> seen;
  return varies_in_warp(load->getPointerOperand(), seen);
}

// Whether a load from global memory may not come before it.
bool holds_back(const Instruction& in, bool lone_barriers) {
  if (!in.mayWriteToMemory()) return false;
  if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&in))
    return store->getPointerAddressSpace() != shared_space;
  auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&in);
  if (call == nullptr) return true;
  if (call->getIntrinsicID() == intrinsic::nvvm_bar_warp_sync) return !lone_barriers;
  return !call->onlyAccessesInaccessibleMemory();
}

// Where loads of a block may go to at the earliest: after the wait for the kernels before, or at
// its start.
llvm::BasicBlock::iterator earliest(llvm::BasicBlock& block) {
  for (Instruction& in : block) {
    auto* call = llvm::dyn_cast<llvm::CallInst>(&in);
    auto* text =
        call == nullptr ? nullptr : llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand());
    if (text != nullptr && llvm::StringRef(text->getAsmString()).starts_with(wait_text))
      return std::next(in.getIterator());
  }
  return block.getFirstInsertionPt();
}

// A load of the kernel's own arguments, which nobody writes.
bool loads_argument(const Instruction& in) {
  auto* load = llvm::dyn_cast<llvm::LoadInst>(&in);
  return load != nullptr &&
         llvm::isa<llvm::Argument>(load->getPointerOperand()->stripInBoundsConstantOffsets());
}

// Moves an instruction of this block, and what it needs, before `place`, unless it needs something
// that cannot be moved.
bool move_before(Instruction& in, Instruction& place) {
  constexpr std::size_t most_needed = 200;  // an address is a few instructions
  std::vector<Instruction*> needed = {&in};
  for (std::size_t k = 0; k < needed.size(); k++) {
    const bool fixed = needed[k]->mayReadOrWriteMemory() || needed[k]->mayHaveSideEffects();
    if (k > 0 && fixed && !loads_argument(*needed[k])) return false;
    if (needed.size() > most_needed) return false;
    for (Value* operand : needed[k]->operands()) {
      auto* maker = llvm::dyn_cast<Instruction>(operand);
      if (maker == nullptr || maker->getParent() != in.getParent() ||
          llvm::isa<llvm::PHINode>(maker) || maker->comesBefore(&place))
        continue;
      needed.push_back(maker);
    }
  }
  std::set<Instruction*> moved;
  for (auto k = needed.rbegin(); k != needed.rend(); ++k)
    if (moved.insert(*k).second) (*k)->moveBefore(&place);
  return true;
}

void load_early(llvm::BasicBlock& block, bool lone_barriers) {
  std::vector<Instruction*> loads;
  const llvm::BasicBlock::iterator start = earliest(block);
  for (Instruction& in : llvm::make_range(start, block.end())) {
    if (holds_back(in, lone_barriers)) break;
    if (is_weight_load(in)) loads.push_back(&in);
  }
  if (loads.size() < fewest_loads) return;
  llvm::IRBuilder<> b(&block, start);
  // What ptxas does not move loads across.
  Instruction* meeting = b.CreateIntrinsic(intrinsic::nvvm_bar_warp_sync, {}, {b.getInt32(~0u)});
  unsigned registers = 0;
  bool any = false;
  for (Instruction* load : loads) {
    registers += static_cast<unsigned>((load->getType()->getPrimitiveSizeInBits() + 31) / 32);
    if (registers > most_registers) break;
    any = move_before(*load, *meeting) || any;
  }
  if (!any) meeting->eraseFromParent();
}

}  // namespace

void load_early(llvm::Function& f, bool lone_barriers) {
  for (llvm::BasicBlock& block : f)
    if (block.getName().starts_with(warp_block)) load_early(block, lone_barriers);
}

}  // namespace terrane::kernels::ptx

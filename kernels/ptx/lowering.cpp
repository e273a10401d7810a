#include "kernels/ptx/lowering.hpp"

#include <algorithm>

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "kernels/ptx/early_loads.hpp"

namespace terrane::kernels::ptx {

using llvm::BasicBlock;
using llvm::Value;
namespace intrinsic = llvm::Intrinsic;

namespace {

constexpr unsigned global_space = 1, shared_space = 3;  // NVPTX's address spaces

// The device converts between f16 and f32 and fuses exact products.
target_features device_features() {
  target_features f;
  f.half_conversion = true;
  f.fma = true;
  return f;
}

}  // namespace

lowering::lowering(const program& p, llvm::Module& module, const ptx_options& options)
    : p_(p),
      module_(module),
      options_(options),
      known_(p),
      features_(device_features()),
      b_(module.getContext(), features_),
      values_(p.values.size()),
      fragments_(takes_fragments(p, options)),
      makers_(p.values.size()) {}

llvm::Function* lowering::run(const std::string& entry) {
  declare_function(entry);
  let_next_start();
  find_thread();
  lower_region(p_.body);
  wait_for_phases_before();
  b_.CreateRetVoid();
  return function_;
}

// How many workgroups a multiprocessor should take, which bounds the registers of a thread: 128, so
// that waits of four warps a scheduler overlap; twice as many for tiles that do not fit.
unsigned lowering::groups_at_once() const {
  constexpr unsigned warps = 16, widest = 32;
  const bool is_wide =
      std::ranges::any_of(p_.values, [](const value_type& t) { return t.columns > widest; });
  return std::max(1u, (is_wide ? warps / 2 : warps) / static_cast<unsigned>(p_.warps));
}

void lowering::declare_function(const std::string& entry) {
  llvm::LLVMContext& context = module_.getContext();
  auto* signature = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy()}, false);
  function_ = llvm::Function::Create(signature, llvm::Function::ExternalLinkage, entry, module_);
  function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  auto* arguments = llvm::ArrayType::get(b_.getInt64Ty(), max_arguments);
  function_->addParamAttr(0, llvm::Attribute::getWithByValType(context, arguments));
  function_->addParamAttr(0, llvm::Attribute::getWithAlignment(context, llvm::Align(8)));
  auto annotate = [&](const char* what, unsigned value) {
    llvm::Metadata* parts[] = {llvm::ValueAsMetadata::get(function_),
                               llvm::MDString::get(context, what),
                               llvm::ConstantAsMetadata::get(b_.getInt32(value))};
    module_.getOrInsertNamedMetadata("nvvm.annotations")
        ->addOperand(llvm::MDNode::get(context, parts));
  };
  annotate("kernel", 1);
  annotate("reqntidx", static_cast<unsigned>(warp_lanes * p_.warps));
  annotate("reqntidy", 1);
  annotate("reqntidz", 1);
  annotate("minctasm", groups_at_once());
  if (ptx_shared_bytes(p_, options_) != 0) {
    auto* words = llvm::ArrayType::get(b_.getInt32Ty(), 0);
    shared_ = new llvm::GlobalVariable(module_, words, false, llvm::GlobalValue::ExternalLinkage,
                                       nullptr, "shared_words", nullptr,
                                       llvm::GlobalValue::NotThreadLocal, shared_space);
    shared_->setAlignment(llvm::Align(16));
  }
  b_.SetInsertPoint(block());
}

void lowering::find_thread() {
  Value* thread = b_.CreateIntrinsic(intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {});
  bool one = p_.warps == 1;
  lane_ = one ? thread : b_.CreateAnd(thread, b_.getInt32(warp_lanes - 1));
  warp_ = one ? static_cast<Value*>(b_.getInt32(0)) : b_.CreateLShr(thread, b_.getInt32(5));
  row_ = lane_;
  if (fragments_) find_fragment_rows();
}

// Inside a tile_map columns may go different ways, and what one lane does alone it does alone.
BasicBlock* lowering::block(bool warp_together) {
  return BasicBlock::Create(module_.getContext(), warp_together ? warp_block : "lane", function_);
}

llvm::Type* lowering::type_of(scalar_type s) {
  return s == scalar_type::ptr ? b_.getPtrTy(global_space) : b_.type_of(s);
}

// ---- values

Value* lowering::get(value_id v) {
  if (element_ != nullptr) {
    if (auto found = as_rows_.find(v); found != as_rows_.end()) return found->second[element_->m];
  }
  return values_[v][0];
}

lowering::columns lowering::held(value_id v) {
  return type(v).is_tile() ? values_[v] : columns{get(v)};
}

// ---- control

void lowering::lower_region(const region& r) {
  const auto spread_outside = spread_;
  for (const instruction& in : r.body) lower(in);
  spread_ = spread_outside;
}

void lowering::lower_loop(const instruction& in) {
  const region& r = in.regions[0];
  Value *begin = get(in.operands[0]), *end = get(in.operands[1]);
  BasicBlock *before = b_.GetInsertBlock(), *inside = block(), *after = block();
  b_.CreateCondBr(b_.CreateICmpSLT(begin, end), inside, after);
  b_.SetInsertPoint(inside);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt32Ty(), 2);
  i->addIncoming(begin, before);
  set(r.parameters[0], i);
  std::vector<llvm::PHINode*> carried;
  for (unsigned k = 0; k < in.results; k++) {
    columns& parameter = values_[r.parameters[k + 1]];
    parameter.clear();
    for (Value* first : held(in.operands[k + 2])) {
      carried.push_back(b_.CreatePHI(first->getType(), 2));
      carried.back()->addIncoming(first, before);
      parameter.push_back(carried.back());
    }
  }
  lower_region(r);
  Value* next = nullptr;
  Value* again = another_turn(in, i, end, next);
  BasicBlock* latch = b_.GetInsertBlock();
  mark_unrolled(b_.CreateCondBr(again, inside, after), in);
  i->addIncoming(next, latch);
  b_.SetInsertPoint(after);
  std::size_t at = 0;
  for (unsigned k = 0; k < in.results; k++) {
    columns last;
    for (Value* yielded : held(r.yields[k])) {
      llvm::PHINode* phi = b_.CreatePHI(yielded->getType(), 2);
      phi->addIncoming(carried[at]->getIncomingValueForBlock(before), before);
      phi->addIncoming(yielded, latch);
      carried[at++]->addIncoming(yielded, latch);
      last.push_back(phi);
    }
    values_[in.result + k] = last;
  }
}

// Whether i + step is below `end`, which i is; `next` is the sum. The sum may pass the largest i32,
// but not where `end` is known to be far enough from it: LLVM then counts the turns.
Value* lowering::another_turn(const instruction& in, Value* i, Value* end, Value*& next) {
  Value* step = b_.getInt32(in.imm);
  auto room = static_cast<std::int64_t>(INT32_MAX) - known_.most(in.operands[1]);
  if (in.imm == 1 || in.imm <= room) {
    next = b_.CreateNSWAdd(i, step);
    return b_.CreateICmpSLT(next, end);
  }
  next = b_.CreateAdd(i, step);
  return b_.CreateICmpULT(step, b_.CreateSub(end, i));
}

// Short loops become straight code, so that the loads of all turns come before their uses.
void lowering::mark_unrolled(llvm::Instruction* latch, const instruction& in) {
  auto* begin = llvm::dyn_cast<llvm::ConstantInt>(get(in.operands[0]));
  auto* end = llvm::dyn_cast<llvm::ConstantInt>(get(in.operands[1]));
  if (begin == nullptr || end == nullptr) return;
  std::int64_t turns = (end->getSExtValue() - begin->getSExtValue() + in.imm - 1) / in.imm;
  constexpr std::int64_t most_turns = 8;
  if (turns > most_turns) return;
  llvm::LLVMContext& context = module_.getContext();
  llvm::Metadata* full =
      llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.full"));
  llvm::MDNode* self = llvm::MDNode::getDistinct(context, {nullptr, full});
  self->replaceOperandWith(0, self);
  latch->setMetadata(llvm::LLVMContext::MD_loop, self);
}

void lowering::lower_branch(const instruction& in) {
  BasicBlock *sides[2] = {block(), block()}, *after = block();
  b_.CreateCondBr(get(in.operands[0]), sides[0], sides[1]);
  std::vector<columns> yields[2];
  bool waited[2] = {waited_, waited_};
  for (unsigned s = 0; s < 2; s++) {
    b_.SetInsertPoint(sides[s]);
    std::swap(waited_, waited[s]);
    lower_region(in.regions[s]);
    std::swap(waited_, waited[s]);
    for (value_id v : in.regions[s].yields) yields[s].push_back(held(v));
    sides[s] = b_.GetInsertBlock();
  }
  for (unsigned s = 0; s < 2; s++) {
    b_.SetInsertPoint(sides[s]);
    waited_ = waited[s];
    if (waited[1 - s]) wait_for_phases_before();  // then both sides have
    b_.CreateBr(after);
  }
  b_.SetInsertPoint(after);
  for (unsigned k = 0; k < in.results; k++) {
    columns merged;
    for (unsigned c = 0; c < width(in.result + k); c++) {
      llvm::PHINode* phi = b_.CreatePHI(yields[0][k][c]->getType(), 2);
      for (unsigned s = 0; s < 2; s++) phi->addIncoming(yields[s][k][c], sides[s]);
      merged.push_back(phi);
    }
    values_[in.result + k] = merged;
  }
}

void lowering::if_then(Value* condition, llvm::function_ref<void()> body) {
  BasicBlock *inside = block(false), *after = block();
  b_.CreateCondBr(condition, inside, after);
  b_.SetInsertPoint(inside);
  body();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

// ---- instructions

void lowering::lower(const instruction& in) {
  if (in.results == 1) makers_[in.result] = &in;
  using enum opcode;
  if (in.op != branch && uses_memory(in)) wait_for_phases_before();
  switch (in.op) {
    case prefetch:
      return lower_prefetch(in);
    case loop:
      return lower_loop(in);
    case branch:
      return lower_branch(in);
    case barrier:
      return lower_barrier();
    case load:
    case load_words:
    case load_lanes:
    case load_lanes_x4:
    case store_lanes:
      return lower_global(in);
    case store:
      return lower_store(in);
    case shared_load:
    case shared_load_lanes:
    case shared_store:
    case shared_store_lanes:
      return lower_shared(in);
    case tile_zero:
    case tile_load:
    case tile_store:
      return lower_tile(in);
    case tile_dot:
      return lower_tile_dot(in);
    case tile_map:
      return lower_tile_map(in);
    default:
      return set(in.result, in.op <= lane ? lower_builtin(in) : lower_value(in));
  }
}

Value* lowering::lower_builtin(const instruction& in) {
  using enum opcode;
  switch (in.op) {
    case const_i32:
      return b_.getInt32(in.imm);
    case const_f32:
      return llvm::ConstantFP::get(
          b_.getFloatTy(), llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, in.imm)));
    case argument: {
      Value* slot = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), function_->getArg(0), in.imm);
      Value* bits = b_.CreateAlignedLoad(b_.getInt64Ty(), slot, llvm::Align(8));
      scalar_type wanted = type(in.result).scalar;
      if (wanted == scalar_type::ptr) return b_.CreateIntToPtr(bits, type_of(wanted));
      return b_.CreateBitCast(b_.CreateTrunc(bits, b_.getInt32Ty()), type_of(wanted));
    }
    case group_x:
      return b_.CreateIntrinsic(intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {});
    case group_y:
      return b_.CreateIntrinsic(intrinsic::nvvm_read_ptx_sreg_ctaid_y, {}, {});
    case warp:
      return warp_;
    default:
      return lane_;
  }
}

Value* lowering::lower_value(const instruction& in) {
  auto operand = [&](std::size_t k) { return get(in.operands[k]); };
  using enum opcode;
  switch (in.op) {
    case fadd:
      return b_.CreateFAdd(operand(0), operand(1));
    case fsub:
      return b_.CreateFSub(operand(0), operand(1));
    case fmul:
      return b_.CreateFMul(operand(0), operand(1));
    case fma_exact:
      return b_.fma_exact(operand(0), operand(1), operand(2));
    case flt:
      return b_.CreateFCmpOLT(operand(0), operand(1));
    case feq:
      return b_.CreateFCmpOEQ(operand(0), operand(1));
    case pand:
      return b_.CreateAnd(operand(0), operand(1));
    case por:
      return b_.CreateOr(operand(0), operand(1));
    case pnot:
      return b_.CreateNot(operand(0));
    case select:
      return b_.CreateSelect(operand(0), operand(1), operand(2));
    case i2f:
      return b_.CreateSIToFP(operand(0), b_.getFloatTy());
    case bits_to_float:
      return b_.CreateBitCast(operand(0), b_.getFloatTy());
    case float_to_bits:
      return bits_of(operand(0));
    case h2f:
      if (Value* rounded = rounded_to_half(in)) return rounded;
      return half_to_float(operand(0), in.imm == 0);
    case f2h:
      return b_.float_to_half(operand(0));
    case dot4:
      return this->dot4(operand(0), operand(1), operand(2));
    case offset:
      return moved(operand(0), operand(1), in.imm);
    case lane_max:
    case lane_tree_add:
    case lane_sum:
      return lower_reduction(in.op, operand(0));
    default:
      return lower_integer(in.op, operand(0), operand(1));
  }
}

Value* lowering::lower_integer(opcode op, Value* a, Value* b) {
  auto shift = [&] { return b_.CreateAnd(b, b_.getInt32(31)); };
  using enum opcode;
  switch (op) {
    case iadd:
      return b_.CreateAdd(a, b);
    case isub:
      return b_.CreateSub(a, b);
    case imul:
      return b_.CreateMul(a, b);
    case iand:
      return b_.CreateAnd(a, b);
    case ior:
      return b_.CreateOr(a, b);
    case ixor:
      return b_.CreateXor(a, b);
    case ishl:
      return b_.CreateShl(a, shift());
    case ilshr:
      return b_.CreateLShr(a, shift());
    case iashr:
      return b_.CreateAShr(a, shift());
    case iudiv:
      return b_.CreateUDiv(a, b);
    case iurem:
      return b_.CreateURem(a, b);
    case ismin:
      return b_.CreateBinaryIntrinsic(intrinsic::smin, a, b);
    case ismax:
      return b_.CreateBinaryIntrinsic(intrinsic::smax, a, b);
    case ieq:
      return b_.CreateICmpEQ(a, b);
    case ine:
      return b_.CreateICmpNE(a, b);
    case islt:
      return b_.CreateICmpSLT(a, b);
    case iult:
      return b_.CreateICmpULT(a, b);
    default:
      llvm_unreachable("an integer operation");
  }
}

// The device's own conversion, which is exact; `every_nan`: a NaN keeps the bits that the language
// gives it.
Value* lowering::half_to_float(Value* h, bool every_nan) {
  Value* bits = b_.CreateTrunc(h, b_.getInt16Ty());
  Value* f = b_.CreateFPExt(b_.CreateBitCast(bits, b_.getHalfTy()), b_.getFloatTy());
  if (!every_nan) return f;
  // The sign spreads over the exponent's upper bits; the exponent becomes all ones.
  Value* moved = b_.CreateShl(b_.CreateSExt(bits, b_.getInt32Ty()), b_.getInt32(13));
  Value* nan = b_.CreateBitCast(b_.CreateOr(moved, b_.getInt32(0x70000000u)), b_.getFloatTy());
  return b_.CreateSelect(b_.CreateFCmpUNO(f, f), nan, f);
}

// Of a number that f2h has just rounded, where a NaN may become any NaN; else null.
Value* lowering::rounded_to_half(const instruction& in) {
  const instruction* maker = makers_[in.operands[0]];
  if (in.imm == 0 || maker == nullptr || maker->op != opcode::f2h || element_ != nullptr)
    return nullptr;
  Value* half = b_.CreateFPTrunc(get(maker->operands[0]), b_.getHalfTy());
  return b_.CreateFPExt(half, b_.getFloatTy());
}

// LLVM does not look through it. It would else make abs and neg of integer operations on the bits,
// and those may change the bits of a NaN.
Value* lowering::bits_of(Value* f) {
  auto* signature = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getFloatTy()}, false);
  auto* move = llvm::InlineAsm::get(signature, "mov.b32 $0, $1;", "=r,f", /*hasSideEffects=*/false);
  llvm::CallInst* bits = b_.CreateCall(move, {f});
  bits->setDoesNotAccessMemory();
  return bits;
}

Value* lowering::dot4(Value* a, Value* b, Value* c) {
  llvm::Type* i32 = b_.getInt32Ty();
  auto* signature = llvm::FunctionType::get(i32, {i32, i32, i32}, false);
  auto* instruction = llvm::InlineAsm::get(signature, "dp4a.u32.s32 $0, $1, $2, $3;", "=r,r,r,r",
                                           /*hasSideEffects=*/false);
  llvm::CallInst* sum = b_.CreateCall(instruction, {a, b, c});
  sum->setDoesNotAccessMemory();
  return sum;
}

}  // namespace terrane::kernels::ptx

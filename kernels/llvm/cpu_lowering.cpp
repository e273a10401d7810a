#include "kernels/llvm/cpu_lowering.hpp"

namespace terrane::kernels {

using llvm::BasicBlock;
using llvm::Value;

cpu_lowering::cpu_lowering(const program& p, llvm::Module& module, const target_features& features)
    : p_(p), module_(module), b_(module.getContext(), features), places_(p.values.size()) {}

llvm::Function* cpu_lowering::run(const std::string& symbol) {
  llvm::Type *pointer = b_.getPtrTy(), *i32 = b_.getInt32Ty();
  auto* signature =
      llvm::FunctionType::get(b_.getVoidTy(), {pointer, i32, i32, i32, pointer}, false);
  function_ = llvm::Function::Create(signature, llvm::Function::ExternalLinkage, symbol, module_);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  function_->addParamAttr(0, llvm::Attribute::NoAlias);
  function_->addParamAttr(0, llvm::Attribute::ReadOnly);
  function_->addParamAttr(4, llvm::Attribute::NoAlias);
  entry_ = block("entry");
  b_.SetInsertPoint(entry_);
  Value* begin = b_.CreateZExt(function_->getArg(1), b_.getInt64Ty());
  Value* end = b_.CreateZExt(function_->getArg(2), b_.getInt64Ty());
  for_range(begin, end, 1, {}, [&](Value* x, const columns&) {
    group_x_ = b_.CreateTrunc(x, b_.getInt32Ty());
    lower_builtins();
    if (p_.warps == 1) {
      warp_ = b_.getInt32(0);
      stretch_ = 1;
      lower_region(p_.body);
    } else {
      find_stretches(p_.body);
      stretches_ = 0;
      lower_group(p_.body);
    }
    return columns{};
  });
  b_.CreateRetVoid();
  return function_;
}

BasicBlock* cpu_lowering::block(const char* name) {
  return BasicBlock::Create(module_.getContext(), name, function_);
}

// ---- values

cpu_lowering::columns cpu_lowering::get(value_id v) {
  place& at = places_[v];
  if (at.is_warp) return {warp_};
  if (at.product != nullptr) {
    finish_products();
    columns read;
    for (unsigned c = 0; c < width(v); c++) read.push_back(product_column(at.product, width(v), c));
    return read;
  }
  if (!at.values.empty() && (at.stretch == 0 || at.stretch == stretch_)) return at.values;
  assert(at.kept && "a value is used where it is not defined");
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  if (stretch_ != 0) b_.SetInsertPoint(stretch_entry_->getTerminator());
  columns values;
  for (unsigned c = 0; c < width(v); c++) {
    values.push_back(b_.CreateLoad(b_.type_of(type(v)), address_in_memory(v, c)));
  }
  if (stretch_ != 0) {
    at.values = values;
    at.stretch = stretch_;
  }
  return values;
}

cpu_lowering::columns cpu_lowering::all_shaped(value_id v, const value_type& as) {
  columns values = get(v);
  if (as.vary == spread::lane) {
    for (Value*& value : values) value = b_.to_lanes(value);
  }
  return values;
}

void cpu_lowering::set(value_id v, columns values) {
  place& at = places_[v];
  if (at.kept) {
    for (unsigned c = 0; c < values.size(); c++) b_.CreateStore(values[c], address_in_memory(v, c));
  }
  at.values = std::move(values);
  at.stretch = stretch_;
}

// ---- control

void cpu_lowering::lower_region(const region& r) {
  for (const instruction& in : r.body) {
    // A product that was begun before a loop or a store is finished before it.
    if (!in.regions.empty() || in.op == opcode::store || in.op == opcode::store_lanes ||
        in.op == opcode::tile_store) {
      finish_products();
    }
    lower(in);
  }
  finish_products();
}

// Runs body(i, carried) for 64-bit i from begin, below end; gives the last carried values.
cpu_lowering::columns cpu_lowering::for_range(
    Value* begin, Value* end, std::uint32_t step, const columns& first,
    const std::function<columns(Value*, const columns&)>& body) {
  BasicBlock *before = b_.GetInsertBlock(), *inside = block("loop"), *after = block("after");
  b_.CreateCondBr(b_.CreateICmpSLT(begin, end), inside, after);
  b_.SetInsertPoint(inside);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
  i->addIncoming(begin, before);
  llvm::SmallVector<llvm::PHINode*, 8> phis;
  for (Value* v : first) {
    phis.push_back(b_.CreatePHI(v->getType(), 2));
    phis.back()->addIncoming(v, before);
  }
  columns next = body(i, columns(phis.begin(), phis.end()));
  Value* next_i = b_.CreateAdd(i, b_.getInt64(step));
  BasicBlock* latch = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLT(next_i, end), inside, after);
  i->addIncoming(next_i, latch);
  for (unsigned k = 0; k < next.size(); k++) phis[k]->addIncoming(next[k], latch);
  b_.SetInsertPoint(after);
  columns last;
  for (unsigned k = 0; k < next.size(); k++) {
    llvm::PHINode* phi = b_.CreatePHI(next[k]->getType(), 2);
    phi->addIncoming(first[k], before);
    phi->addIncoming(next[k], latch);
    last.push_back(phi);
  }
  return last;
}

void cpu_lowering::lower_loop(const instruction& in) {
  const region& r = in.regions[0];
  Value* begin = b_.CreateSExt(scalar(in.operands[0]), b_.getInt64Ty());
  Value* end = b_.CreateSExt(scalar(in.operands[1]), b_.getInt64Ty());
  columns first;
  for (unsigned k = 0; k < in.results; k++) {
    first.append(all_shaped(in.operands[k + 2], type(in.result + k)));
  }
  auto split = [&](value_id to, unsigned& at, const columns& flat) {
    set(to, columns(flat.begin() + at, flat.begin() + at + width(to)));
    at += width(to);
  };
  columns last = for_range(begin, end, in.imm, first, [&](Value* i, const columns& carried) {
    set(r.parameters[0], {b_.CreateTrunc(i, b_.getInt32Ty())});
    unsigned at = 0;
    for (unsigned k = 0; k < in.results; k++) split(r.parameters[k + 1], at, carried);
    lower_region(r);
    columns next;
    for (unsigned k = 0; k < in.results; k++) {
      next.append(all_shaped(r.yields[k], type(in.result + k)));
    }
    return next;
  });
  unsigned at = 0;
  for (unsigned k = 0; k < in.results; k++) split(in.result + k, at, last);
}

void cpu_lowering::lower_branch(const instruction& in) {
  BasicBlock *sides[2] = {block("then"), block("else")}, *after = block("after");
  b_.CreateCondBr(scalar(in.operands[0]), sides[0], sides[1]);
  std::vector<columns> yields[2];
  for (unsigned s = 0; s < 2; s++) {
    b_.SetInsertPoint(sides[s]);
    lower_region(in.regions[s]);
    for (unsigned k = 0; k < in.results; k++) {
      yields[s].push_back(all_shaped(in.regions[s].yields[k], type(in.result + k)));
    }
    sides[s] = b_.GetInsertBlock();
    b_.CreateBr(after);
  }
  b_.SetInsertPoint(after);
  std::vector<columns> results(in.results);
  for (unsigned k = 0; k < in.results; k++) {
    for (unsigned c = 0; c < width(in.result + k); c++) {
      llvm::PHINode* phi = b_.CreatePHI(yields[0][k][c]->getType(), 2);
      for (unsigned s = 0; s < 2; s++) phi->addIncoming(yields[s][k][c], sides[s]);
      results[k].push_back(phi);
    }
  }
  for (unsigned k = 0; k < in.results; k++) set(in.result + k, results[k]);
}

}  // namespace terrane::kernels

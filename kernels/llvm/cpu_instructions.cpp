// What each instruction that is neither control nor memory becomes on a CPU.
#include <algorithm>
#include <array>

#include "kernels/llvm/cpu_lowering.hpp"

namespace terrane::kernels {

using llvm::Value;
namespace intrinsic = llvm::Intrinsic;

// From so many columns on, what goes to AMX's registers and back costs less than the products.
constexpr std::size_t least_amx_columns = 8;
// Rows of one of AMX's registers.
constexpr std::size_t amx_rows = 16;

// Built-in values stand at the start of the program and may be used everywhere in it.
void cpu_lowering::lower_builtins() {
  for (const instruction& in : p_.body.body) {
    if (in.op > opcode::lane) continue;
    if (in.op == opcode::warp) {
      places_[in.result].is_warp = true;
      continue;
    }
    set(in.result, {lower_value(in)});
  }
}

void cpu_lowering::lower(const instruction& in) {
  using enum opcode;
  switch (in.op) {
    case loop:
      return lower_loop(in);
    case branch:
      return lower_branch(in);
    case barrier:
      return;  // one warp, or between stretches
    case prefetch:
      return;
    case load:
    case load_words:
    case load_lanes:
    case load_lanes_x4:
    case store:
    case store_lanes:
    case tile_load:
    case tile_store:
      return lower_memory(in);
    case shared_load:
    case shared_load_lanes:
    case shared_store:
    case shared_store_lanes:
      return lower_shared(in);
    case tile_zero:
    case tile_dot:
    case tile_map:
      return lower_tile(in);
    default:
      break;
  }
  place& at = places_[in.result];
  bool everywhere = at.is_warp || (at.stretch == 0 && !at.values.empty());
  if (!everywhere) set(in.result, {lower_value(in)});
}

Value* cpu_lowering::lower_value(const instruction& in) {
  const value_type& t = type(in.result);
  // Operands of an operation on lanes are lanes; a reduction takes lanes and gives a scalar.
  value_type shape = t;
  auto operand = [&](std::size_t k) { return shaped(in.operands[k], shape); };
  using enum opcode;
  switch (in.op) {
    case const_i32:
      return b_.getInt32(in.imm);
    case const_f32:
      return llvm::ConstantFP::get(
          b_.getFloatTy(), llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, in.imm)));
    case argument: {
      llvm::IRBuilderBase::InsertPointGuard guard(b_);
      b_.SetInsertPoint(entry_->getTerminator());
      Value* slot = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), function_->getArg(0), in.imm);
      return b_.CreateLoad(b_.type_of(t), slot);
    }
    case group_x:
      return group_x_;
    case group_y:
      return function_->getArg(3);
    case warp:
      return warp_;
    case lane: {
      llvm::SmallVector<std::uint32_t, warp_lanes> numbers;
      for (std::uint32_t l = 0; l < warp_lanes; l++) numbers.push_back(l);
      return llvm::ConstantDataVector::get(module_.getContext(), numbers);
    }
    case fadd:
    case fsub:
    case fmul:
    case flt:
    case feq:
      return lower_float(in.op, operand(0), operand(1));
    case fma_exact:
      return b_.fma_exact(operand(0), operand(1), operand(2));
    case pand:
      return b_.CreateAnd(operand(0), operand(1));
    case por:
      return b_.CreateOr(operand(0), operand(1));
    case pnot:
      return b_.CreateNot(operand(0));
    case select:
      return b_.CreateSelect(scalar(in.operands[0]), operand(1), operand(2));
    case i2f:
      return b_.CreateSIToFP(operand(0), b_.type_of(t));
    case bits_to_float:
    case float_to_bits:
      return b_.CreateBitCast(operand(0), b_.type_of(t));
    case h2f:
      return b_.half_to_float(operand(0), in.imm == 0);
    case f2h:
      return b_.float_to_half(operand(0));
    case dot4:
      return b_.dot4(operand(0), operand(1), operand(2), in.imm);
    case look_up:
      return b_.look_up(p_.byte_tables[in.imm], operand(0));
    case offset:
      return byte_offset(scalar(in.operands[0]), scalar(in.operands[1]), in.imm);
    case lane_max:
    case lane_tree_add:
    case lane_sum:
      return lower_reduction(in.op, b_.to_lanes(scalar(in.operands[0])));
    default:
      return lower_integer(in.op, operand(0), operand(1));
  }
}

Value* cpu_lowering::lower_integer(opcode op, Value* a, Value* b) {
  auto shift = [&] { return b_.CreateAnd(b, b_.splat_like(b, 31)); };
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

Value* cpu_lowering::lower_float(opcode op, Value* a, Value* b) {
  using enum opcode;
  switch (op) {
    case fadd:
      return b_.CreateFAdd(a, b);
    case fsub:
      return b_.CreateFSub(a, b);
    case fmul:
      return b_.CreateFMul(a, b);
    case flt:
      return b_.CreateFCmpOLT(a, b);
    case feq:
      return b_.CreateFCmpOEQ(a, b);
    default:
      llvm_unreachable("a float operation");
  }
}

Value* cpu_lowering::lower_reduction(opcode op, Value* lanes) {
  if (op == opcode::lane_max) return b_.CreateIntMaxReduce(lanes, true);
  if (op == opcode::lane_sum) return b_.CreateAddReduce(lanes);
  return b_.lane_tree_add(lanes);
}

Value* cpu_lowering::byte_offset(Value* pointer, Value* index, std::uint32_t scale) {
  llvm::Type* wide = index->getType()->getWithNewType(b_.getInt64Ty());
  Value* bytes = b_.CreateMul(b_.CreateZExt(index, wide), llvm::ConstantInt::get(wide, scale));
  return b_.CreateGEP(b_.getInt8Ty(), pointer, bytes);
}

// ---- tiles

void cpu_lowering::lower_tile(const instruction& in) {
  if (in.op == opcode::tile_dot) return lower_tile_dot(in);
  if (in.op == opcode::tile_map) return lower_tile_map(in);
  llvm::Type* t = b_.type_of(type(in.result));
  set(in.result, columns(width(in.result), llvm::Constant::getNullValue(t)));
}

void cpu_lowering::lower_tile_dot(const instruction& in) {
  const std::size_t wide = width(in.result), deep = in.operands.size() - 3;
  if (b_.has_tiles() && p_.warps == 1 && wide >= least_amx_columns && wide <= amx_rows &&
      deep <= amx_rows)
    return dot_in_tiles(in);
  columns acc = get(in.operands[0]);
  Value *x = scalar(in.operands[1]), *stride = scalar(in.operands[2]);
  std::vector<Value*> words;
  for (std::size_t k = 3; k < in.operands.size(); k++) words.push_back(scalar(in.operands[k]));
  for (unsigned c = 0; c < acc.size(); c++) {
    Value* at = column_address(x, stride, c);
    std::vector<Value*> activations;
    for (std::size_t k = 0; k < words.size(); k++) {
      Value* word = b_.CreateConstGEP1_64(b_.getInt8Ty(), at, 4 * k);
      activations.push_back(b_.CreateAlignedLoad(b_.getInt32Ty(), word, llvm::Align(4)));
    }
    acc[c] = b_.dot_words(acc[c], words, activations, in.imm, acc.size() == 1);
  }
  set(in.result, acc);
}

// By AMX: activations are rows of one operand as they lie in memory, 16 lanes' words the other, and
// a row of the product is a column of ours. Words and products pass through memory, of which each
// tile_dot has its own, so that several products can be under way.
void cpu_lowering::dot_in_tiles(const instruction& in) {
  constexpr unsigned half_lanes = warp_lanes / 2, row_bytes = 4 * half_lanes;
  auto count = static_cast<unsigned>(in.operands.size()) - 3;
  const lane_builder::amx_shape shape{width(in.result), count};
  assert(shape.columns <= amx_rows && count <= amx_rows && "one tile holds them");
  auto scratch = [&](unsigned rows) {
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(entry_, entry_->begin());
    llvm::AllocaInst* memory = b_.CreateAlloca(b_.getInt8Ty(), b_.getInt32(2 * rows * row_bytes));
    memory->setAlignment(llvm::Align(row_bytes));
    return memory;
  };
  llvm::AllocaInst *words = scratch(count), *product = scratch(shape.columns);
  auto row = [&](llvm::AllocaInst* memory, unsigned r) {
    return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), memory, r * row_bytes);
  };
  for (unsigned k = 0; k < count; k++) {
    Value* lanes = b_.to_lanes(scalar(in.operands[k + 3]));
    for (unsigned half = 0; half < 2; half++) {
      b_.CreateAlignedStore(b_.part(lanes, half * half_lanes, half_lanes),
                            row(words, half * count + k), llvm::Align(row_bytes));
    }
  }
  pending_.push_back({shape, scalar(in.operands[1]),
                      b_.CreateZExt(scalar(in.operands[2]), b_.getInt64Ty()), words, product});
  columns acc = get(in.operands[0]);
  bool from_zero = std::all_of(acc.begin(), acc.end(), [](Value* v) {
    auto* constant = llvm::dyn_cast<llvm::Constant>(v);
    return constant != nullptr && constant->isNullValue();
  });
  if (!from_zero) finish_products();
  if (from_zero) {
    places_[in.result].product = product;
    return;
  }
  for (unsigned c = 0; c < acc.size(); c++)
    acc[c] = b_.CreateAdd(acc[c], product_column(product, shape.columns, c));
  set(in.result, acc);
}

void cpu_lowering::finish_products() {
  for (const pending_product& p : pending_) {
    Value* activations = b_.amx_load(p.shape.columns, 4 * p.shape.words, p.activations, p.stride);
    for (unsigned half = 0; half < 2; half++) {
      auto part = [&](llvm::AllocaInst* memory, unsigned rows) {
        return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), memory, half * rows * 64);
      };
      b_.amx_product(p.shape, activations, part(p.words, p.shape.words),
                     part(p.product, p.shape.columns));
    }
  }
  pending_.clear();
}

Value* cpu_lowering::product_column(llvm::AllocaInst* product, unsigned height, unsigned column) {
  constexpr unsigned half_lanes = warp_lanes / 2, row_bytes = 4 * half_lanes;
  std::array<Value*, 2> halves;
  for (unsigned half = 0; half < 2; half++) {
    Value* at = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), product,
                                              (half * height + column) * row_bytes);
    halves[half] = b_.CreateAlignedLoad(llvm::FixedVectorType::get(b_.getInt32Ty(), half_lanes), at,
                                        llvm::Align(row_bytes));
  }
  return b_.join(halves);
}

Value* cpu_lowering::tile_column(value_id tile, unsigned column) {
  llvm::AllocaInst* product = places_[tile].product;
  return product != nullptr ? product_column(product, width(tile), column) : get(tile)[column];
}

void cpu_lowering::lower_tile_map(const instruction& in) {
  finish_products();
  const region& r = in.regions[0];
  std::vector<columns> results(in.results);
  for (unsigned c = 0; c < in.imm; c++) {
    set(r.parameters[0], {b_.getInt32(c)});
    for (std::size_t k = 0; k < in.operands.size(); k++)
      set(r.parameters[k + 1], {tile_column(in.operands[k], c)});
    lower_region(r);
    for (unsigned k = 0; k < in.results; k++) {
      results[k].push_back(b_.to_lanes(scalar(r.yields[k])));
    }
  }
  for (unsigned k = 0; k < in.results; k++) set(in.result + k, results[k]);
}

Value* cpu_lowering::column_address(Value* pointer, Value* stride, unsigned column) {
  Value* wide = b_.CreateZExt(stride, b_.getInt64Ty());
  return b_.CreateGEP(b_.getInt8Ty(), pointer, b_.CreateMul(wide, b_.getInt64(column)));
}

}  // namespace terrane::kernels

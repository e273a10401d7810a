// Global and shared memory, what lanes do together, and tiles.
#include <algorithm>

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "kernels/ptx/lowering.hpp"

namespace terrane::kernels::ptx {

using llvm::Value;
namespace intrinsic = llvm::Intrinsic;

namespace {

constexpr std::uint32_t all_lanes = 0xffffffffu;

llvm::Align alignment(memory_type mem) {
  return llvm::Align(static_cast<std::uint64_t>(byte_size(mem)));
}

}  // namespace

// ---- global memory

Value* lowering::moved(Value* pointer, std::uint64_t bytes) {
  return bytes == 0 ? pointer : b_.CreateConstGEP1_64(b_.getInt8Ty(), pointer, bytes);
}

Value* lowering::moved(Value* pointer, Value* index, std::uint32_t scale) {
  Value* wide = b_.CreateZExt(index, b_.getInt64Ty());
  return b_.CreateGEP(b_.getInt8Ty(), pointer, b_.CreateMul(wide, b_.getInt64(scale)));
}

Value* lowering::column_address(Value* pointer, Value* stride, Value* column) {
  llvm::Type* i64 = b_.getInt64Ty();
  Value* bytes = b_.CreateMul(b_.CreateZExt(stride, i64), b_.CreateZExt(column, i64));
  return b_.CreateGEP(b_.getInt8Ty(), pointer, bytes);
}

Value* lowering::load_element(memory_type mem, Value* pointer) {
  if (mem == memory_type::ptr) {
    Value* bits = b_.CreateAlignedLoad(b_.getInt64Ty(), pointer, alignment(mem));
    return b_.CreateIntToPtr(bits, type_of(scalar_type::ptr));
  }
  Value* v = b_.CreateAlignedLoad(b_.type_of(mem), pointer, alignment(mem));
  if (byte_size(mem) >= 4) return v;
  bool has_sign = mem == memory_type::i8 || mem == memory_type::i16;
  return has_sign ? b_.CreateSExt(v, b_.getInt32Ty()) : b_.CreateZExt(v, b_.getInt32Ty());
}

void lowering::store_element(memory_type mem, Value* pointer, Value* value,
                             std::uint32_t known_alignment) {
  if (byte_size(mem) < 4) value = b_.CreateTrunc(value, b_.type_of(mem));
  b_.CreateAlignedStore(value, pointer, std::max(alignment(mem), llvm::Align(known_alignment)));
}

lowering::columns lowering::words_at(Value* pointer, unsigned count, std::uint32_t alignment) {
  columns words;
  while (words.size() < count) {
    std::uint64_t done = 4 * words.size();
    unsigned left = count - static_cast<unsigned>(words.size()), together = 1;
    if (alignment >= 8 && done % 8 == 0 && left >= 2) together = 2;
    if (alignment >= 16 && done % 16 == 0 && left >= 4) together = 4;
    Value* at = moved(pointer, done);
    if (together == 1) {
      words.push_back(b_.CreateAlignedLoad(b_.getInt32Ty(), at, llvm::Align(4)));
      continue;
    }
    Value* v = b_.CreateAlignedLoad(llvm::FixedVectorType::get(b_.getInt32Ty(), together), at,
                                    llvm::Align(std::uint64_t{4} * together));
    for (unsigned k = 0; k < together; k++) words.push_back(b_.CreateExtractElement(v, k));
  }
  return words;
}

void lowering::lower_global(const instruction& in) {
  Value* pointer = get(in.operands[0]);
  auto size = static_cast<std::uint32_t>(byte_size(in.mem));
  using enum opcode;
  switch (in.op) {
    case load:
      return set(in.result, load_element(in.mem, pointer));
    case load_lanes:
      return set(in.result, load_element(in.mem, moved(pointer, row_, size)));
    case store_lanes:
      return store_element(in.mem, moved(pointer, row_, size), get(in.operands[1]));
    default: {
      bool by_lanes = in.op == load_lanes_x4;
      unsigned count = by_lanes ? 4 : in.imm;
      columns words = by_lanes ? words_at(moved(pointer, row_, 16), count, 16)
                               : words_at(pointer, count, known_.divisor(in.operands[0]));
      for (unsigned k = 0; k < count; k++) set(in.result + k, words[k]);
    }
  }
}

// Where the address is uniform the first lane writes alone.
void lowering::lower_store(const instruction& in) {
  Value* where = in.operands.size() == 3 ? get(in.operands[2]) : nullptr;
  if (uniform(in.operands[0])) {
    Value* first = b_.CreateICmpEQ(row_, b_.getInt32(0));
    where = where == nullptr ? first : b_.CreateAnd(first, where);
  }
  auto body = [&] {
    store_element(in.mem, get(in.operands[0]), get(in.operands[1]), known_.divisor(in.operands[0]));
  };
  if (where == nullptr)
    body();
  else
    if_then(where, body);
}

// ---- shared memory and lanes

Value* lowering::shared_address(Value* index) {
  return b_.CreateGEP(b_.getInt32Ty(), shared_, b_.CreateZExt(index, b_.getInt64Ty()));
}

// Of index + constant, such that LLVM sees which words lie side by side and loads them together.
Value* lowering::shared_address(value_id index) {
  const instruction* sum = makers_[index];
  if (sum == nullptr || sum->op != opcode::iadd || element_ != nullptr)
    return shared_address(get(index));
  const instruction* last = makers_[sum->operands[1]];
  if (last == nullptr || last->op != opcode::const_i32) return shared_address(get(index));
  Value* first = b_.CreateSExt(get(sum->operands[0]), b_.getInt64Ty());
  return b_.CreateConstGEP1_64(b_.getInt32Ty(), b_.CreateGEP(b_.getInt32Ty(), shared_, first),
                               static_cast<std::uint64_t>(static_cast<std::int32_t>(last->imm)));
}

void lowering::lower_shared(const instruction& in) {
  using enum opcode;
  const bool by_lanes = in.op == shared_load_lanes || in.op == shared_store_lanes;
  Value* at = by_lanes ? shared_address(b_.CreateAdd(get(in.operands[0]), row_))
                       : shared_address(in.operands[0]);
  constexpr std::uint32_t word = 4, widest = 16;
  const llvm::Align known(by_lanes ? word
                                   : std::min(word * known_.divisor(in.operands[0]), widest));
  if (in.op == shared_load || in.op == shared_load_lanes)
    return set(in.result, b_.CreateAlignedLoad(type_of(type(in.result).scalar), at, known));
  auto body = [&] { b_.CreateAlignedStore(get(in.operands[1]), at, known); };
  if (in.op == shared_store && uniform(in.operands[0]))
    if_then(b_.CreateICmpEQ(row_, b_.getInt32(0)), body);
  else
    body();
}

// What the threads wrote before, in shared and global memory, is seen by all of them after.
void lowering::lower_barrier() {
  if (p_.warps == 1)
    lower_warp_barrier();
  else
    b_.CreateIntrinsic(intrinsic::nvvm_barrier0, {}, {});
}

void lowering::lower_warp_barrier() {
  b_.CreateIntrinsic(intrinsic::nvvm_bar_warp_sync, {}, {b_.getInt32(all_lanes)});
}

// Lane l meets lane l ^ s for s = 16, 8, 4, 2, 1. Addition commutes, so every lane gets the halving
// tree's own bits. Newer devices reduce integers in one instruction.
Value* lowering::lower_reduction(opcode op, Value* value) {
  Value* mask = b_.getInt32(all_lanes);
  bool is_float = op == opcode::lane_tree_add;
  if (!is_float && options_.sm >= 80) {
    return b_.CreateIntrinsic(
        op == opcode::lane_max ? intrinsic::nvvm_redux_sync_max : intrinsic::nvvm_redux_sync_add,
        {}, {value, mask});
  }
  for (std::uint32_t s = warp_lanes / 2; s > 0; s /= 2) {
    Value* other = b_.CreateIntrinsic(
        is_float ? intrinsic::nvvm_shfl_sync_bfly_f32 : intrinsic::nvvm_shfl_sync_bfly_i32, {},
        {mask, value, b_.getInt32(s), b_.getInt32(warp_lanes - 1)});
    if (is_float)
      value = b_.CreateFAdd(value, other);
    else
      value = lower_integer(op == opcode::lane_max ? opcode::ismax : opcode::iadd, value, other);
  }
  return value;
}

// ---- tiles

void lowering::lower_tile(const instruction& in) {
  if (in.op == opcode::tile_zero) {
    llvm::Type* t = type_of(type(in.result).scalar);
    values_[in.result] = columns(width(in.result), llvm::Constant::getNullValue(t));
    return;
  }
  bool is_load = in.op == opcode::tile_load;
  value_id tile = is_load ? in.result : in.operands[2];
  memory_type mem = type(tile).scalar == scalar_type::f32 ? memory_type::f32 : memory_type::i32;
  std::vector<element> elements = elements_of(width(tile));
  columns loaded;
  for (unsigned k = 0; k < elements.size(); k++) {
    const element& e = elements[k];
    Value* column = column_address(get(in.operands[0]), get(in.operands[1]), e.column);
    Value* at = moved(column, e.row, 4);
    if (is_load)
      loaded.push_back(load_element(mem, at));
    else
      store_element(mem, at, values_[tile][k]);
  }
  if (is_load) values_[tile] = loaded;
}

std::vector<lowering::element> lowering::elements_of(unsigned count) {
  std::vector<element> elements;
  for (unsigned k = 0; k < count; k++) {
    if (!fragments_) {
      elements.push_back({lane_, b_.getInt32(k), 0});
      continue;
    }
    unsigned n = k / 8, m = k % 8 / 2, j = k % 2;
    Value* column = b_.CreateAdd(b_.CreateShl(t_, b_.getInt32(1)), b_.getInt32(8 * n + j));
    elements.push_back({fragment_rows_[m], column, m});
  }
  return elements;
}

void lowering::lower_tile_dot(const instruction& in) {
  if (fragments_) return lower_fragment_dot(in);
  columns sums = values_[in.operands[0]];
  auto words = static_cast<unsigned>(in.operands.size() - 3);
  std::uint32_t alignment =
      std::min(known_.divisor(in.operands[1]), known_.divisor(in.operands[2]));
  for (unsigned c = 0; c < sums.size(); c++) {
    Value* at = column_address(get(in.operands[1]), get(in.operands[2]), b_.getInt32(c));
    columns x = words_at(at, words, alignment);
    for (unsigned k = 0; k < words; k++) sums[c] = dot4(get(in.operands[k + 3]), x[k], sums[c]);
  }
  values_[in.result] = sums;
}

void lowering::lower_tile_map(const instruction& in) {
  const region& r = in.regions[0];
  if (fragments_) enter_rows(r);
  std::vector<columns> results(in.results);
  std::vector<element> elements = elements_of(in.imm);
  for (unsigned e = 0; e < elements.size(); e++) {
    element_ = &elements[e];
    row_ = element_->row;
    set(r.parameters[0], element_->column);
    for (std::size_t k = 0; k < in.operands.size(); k++)
      set(r.parameters[k + 1], values_[in.operands[k]][e]);
    for (const instruction& inner : r.body) lower(inner);
    for (unsigned k = 0; k < in.results; k++) results[k].push_back(get(r.yields[k]));
  }
  element_ = nullptr;
  row_ = lane_;
  as_rows_.clear();
  for (unsigned k = 0; k < in.results; k++) values_[in.result + k] = results[k];
}

}  // namespace terrane::kernels::ptx

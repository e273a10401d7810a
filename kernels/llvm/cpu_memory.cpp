// Global and shared memory on a CPU: contiguous vectors where lanes follow each other, else one
// element a lane.
#include <algorithm>

#include "kernels/llvm/cpu_lowering.hpp"

namespace terrane::kernels {

using llvm::Value;

namespace {

llvm::Align alignment(memory_type mem) {
  return llvm::Align(static_cast<std::uint64_t>(byte_size(mem)));
}

}  // namespace

void cpu_lowering::lower_memory(const instruction& in) {
  Value* pointer = scalar(in.operands[0]);
  using enum opcode;
  switch (in.op) {
    case load: {
      value_type shape = type(in.result);
      shape.vary = type(in.operands[0]).vary;
      return set(in.result, {load_from(pointer, in.mem, shape)});
    }
    case load_lanes:
      if (in.imm != 0)
        fetch_ahead(pointer, in.imm, warp_lanes * static_cast<unsigned>(byte_size(in.mem)));
      return set(in.result, {load_from(pointer, in.mem, type(in.result))});
    case load_words:
      for (unsigned k = 0; k < in.imm; k++) {
        set(in.result + k, {load_from(b_.CreateGEP(b_.getInt8Ty(), pointer, b_.getInt64(4 * k)),
                                      memory_type::i32, type(in.result + k))});
      }
      return;
    case load_lanes_x4: {
      if (in.imm != 0) fetch_ahead(pointer, in.imm, 16 * warp_lanes);
      std::array<Value*, 4> words = b_.load_lanes_x4(pointer);
      for (unsigned k = 0; k < 4; k++) set(in.result + k, {words[k]});
      return;
    }
    case store:
      return lower_store(in);
    case store_lanes:
      return store_to(pointer, in.mem, b_.to_lanes(scalar(in.operands[1])), nullptr);
    default:
      break;
  }
  bool is_load = in.op == tile_load;
  Value* stride = scalar(in.operands[1]);
  value_id tile = is_load ? in.result : in.operands[2];
  columns values = is_load ? columns(width(tile)) : get(tile);
  memory_type mem = type(tile).scalar == scalar_type::f32 ? memory_type::f32 : memory_type::i32;
  for (unsigned c = 0; c < values.size(); c++) {
    Value* at = column_address(pointer, stride, c);
    if (is_load) {
      values[c] = load_from(at, mem, {type(tile).scalar, spread::lane});
    } else {
      store_to(at, mem, values[c], nullptr);
    }
  }
  if (is_load) set(tile, values);
}

// What a run of loads will want soon. Processors do so by themselves, but only within a page and
// not far enough. In two steps: the first cache has few lines under way at a time, and one that
// comes from memory holds its place for long, so the second fetches first.
void cpu_lowering::fetch_ahead(Value* pointer, unsigned distance, unsigned bytes) {
  constexpr unsigned line = 64, near = 2048;
  constexpr unsigned read = 0, into_second = 2, into_all = 3, data = 1;
  auto fetch = [&](unsigned offset, unsigned into) {
    Value* there = b_.CreateConstGEP1_64(b_.getInt8Ty(), pointer, offset);
    b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                       {there, b_.getInt32(read), b_.getInt32(into), b_.getInt32(data)});
  };
  for (unsigned at = 0; at < bytes; at += line) {
    if (distance > near) fetch(distance + at, into_second);
    fetch(std::min(distance, near) + at, into_all);
  }
}

// A scalar pointer and a lane result: element l for lane l.
Value* cpu_lowering::load_from(Value* pointer, memory_type mem, const value_type& result) {
  llvm::Type* element = b_.type_of(mem);
  llvm::Type* shape = element;
  if (result.vary == spread::lane) shape = llvm::FixedVectorType::get(element, warp_lanes);
  Value* v = pointer->getType()->isVectorTy()
                 ? static_cast<Value*>(b_.CreateMaskedGather(shape, pointer, alignment(mem)))
                 : b_.CreateAlignedLoad(shape, pointer, alignment(mem));
  llvm::Type* wanted = b_.type_of(result);
  if (!element->isIntegerTy() || shape == wanted) return v;
  bool is_signed = mem == memory_type::i8 || mem == memory_type::i16;
  return is_signed ? b_.CreateSExt(v, wanted) : b_.CreateZExt(v, wanted);
}

// A scalar pointer and a lane value: lane l writes element l. `where`: lanes that write, or null.
void cpu_lowering::store_to(Value* pointer, memory_type mem, Value* value, Value* where) {
  llvm::Type* element = b_.type_of(mem);
  llvm::Type* stored = value->getType()->getWithNewType(element);
  if (stored != value->getType()) value = b_.CreateTrunc(value, stored);
  if (pointer->getType()->isVectorTy()) {
    b_.CreateMaskedScatter(value, pointer, alignment(mem), where);
  } else {
    b_.CreateAlignedStore(value, pointer, alignment(mem));
  }
}

void cpu_lowering::lower_store(const instruction& in) {
  Value *pointer = scalar(in.operands[0]), *value = scalar(in.operands[1]);
  Value* where = in.operands.size() == 3 ? scalar(in.operands[2]) : nullptr;
  if (pointer->getType()->isVectorTy()) {
    if (where != nullptr) where = b_.to_lanes(where);
    return store_to(pointer, in.mem, b_.to_lanes(value), where);
  }
  if (where == nullptr) return store_to(pointer, in.mem, value, nullptr);
  if (where->getType()->isVectorTy()) where = b_.CreateExtractElement(where, std::uint64_t{0});
  llvm::BasicBlock *write = block("write"), *after = block("after");
  b_.CreateCondBr(where, write, after);
  b_.SetInsertPoint(write);
  store_to(pointer, in.mem, value, nullptr);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

Value* cpu_lowering::shared_address(Value* index) {
  return byte_offset(function_->getArg(4), index, 4);
}

void cpu_lowering::lower_shared(const instruction& in) {
  Value* at = shared_address(scalar(in.operands[0]));
  bool is_load = in.op == opcode::shared_load || in.op == opcode::shared_load_lanes;
  const value_type& t = type(is_load ? in.result : in.operands[1]);
  memory_type mem = t.scalar == scalar_type::f32 ? memory_type::f32 : memory_type::i32;
  if (is_load) {
    // A uniform word that is wanted by lanes is one word; shared_load_lanes reads 32 of them.
    value_type shape = t;
    if (in.op == opcode::shared_load && !at->getType()->isVectorTy()) shape.vary = spread::warp;
    Value* v = load_from(at, mem, shape);
    return set(in.result, {t.vary == spread::lane ? b_.to_lanes(v) : v});
  }
  Value* value = scalar(in.operands[1]);
  if (in.op == opcode::shared_store_lanes || at->getType()->isVectorTy()) {
    value = b_.to_lanes(value);
  }
  store_to(at, mem, value, nullptr);
}

}  // namespace terrane::kernels

// Tiles as the int8 tensor cores take them: mma.m16n8k32 (m16n8k16 for four words) of unsigned
// bytes (weights) by signed ones (activations), exact like everything on integers. The order of the
// products of an element is free, so a lane takes words 2t and 2t + 1 of eight where the
// instruction's own numbering says t and t + 4: neighbours are one load.
//
// Source of the layouts: PTX ISA, "Matrix fragments" for mma.m16n8k16 and m16n8k32.
#include <algorithm>

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "kernels/ptx/lowering.hpp"

namespace terrane::kernels::ptx {

using llvm::Value;
namespace intrinsic = llvm::Intrinsic;

namespace {

constexpr unsigned thread_rows = 4;  // rows of a tile that a thread has elements of
constexpr std::uint32_t all_lanes = 0xffffffffu;

template <class Fits>
bool all_fit(const region& r, Fits fits) {
  return std::ranges::all_of(r.body, [&](const instruction& in) {
    return fits(in) && std::ranges::all_of(
                           in.regions, [&](const region& inner) { return all_fit(inner, fits); });
  });
}

// What is done once for a column is done by one thread of those that have it; storing at an address
// that lanes share is not worth the care.
bool fits_in_map(const program& p, const instruction& in) {
  switch (in.op) {
    case opcode::store:
    case opcode::shared_store:
      return p.values[in.operands[0]].vary == spread::lane;
    case opcode::tile_zero:
    case opcode::tile_dot:
    case opcode::tile_map:
    case opcode::tile_load:
    case opcode::tile_store:
      return false;
    default:
      return true;
  }
}

// Operations that a lane can do for another, given the operands.
bool is_elementwise(opcode op) { return op >= opcode::iadd && op <= opcode::offset; }

void add_defined(const region& r, std::set<value_id>& to) {
  to.insert(r.parameters.begin(), r.parameters.end());
  for (const instruction& in : r.body) {
    for (unsigned k = 0; k < in.results; k++) to.insert(in.result + k);
    for (const region& inner : in.regions) add_defined(inner, to);
  }
}

}  // namespace

bool takes_fragments(const program& p, const ptx_options& options) {
  if (options.sm < 80) return false;
  bool has_dot = false;
  bool fit = all_fit(p.body, [&](const instruction& in) {
    has_dot = has_dot || in.op == opcode::tile_dot;
    if (in.op == opcode::tile_dot && in.operands.size() != 3 + 4 && in.operands.size() != 3 + 8)
      return false;
    return in.op != opcode::tile_map ||
           all_fit(in.regions[0], [&](const instruction& inner) { return fits_in_map(p, inner); });
  });
  return fit && has_dot &&
         std::ranges::all_of(p.values, [](const value_type& t) { return t.columns % 8 == 0; });
}

std::uint32_t fragment_scratch_start(const program& p) { return (p.shared_words + 3) / 4 * 4; }

void lowering::find_fragment_rows() {
  g_ = b_.CreateLShr(lane_, b_.getInt32(2));
  t_ = b_.CreateAnd(lane_, b_.getInt32(3));
  for (unsigned m = 0; m < thread_rows; m++)
    fragment_rows_.push_back(b_.CreateAdd(g_, b_.getInt32(8 * m)));
}

// ---- products

// Of the thread's four rows, words 2t and 2t + 1 of eight, or word t of four; from the words of
// each lane's own row, through the warp's scratch, where a row is one or two pieces of 16 bytes:
// what `ldmatrix` takes, eight rows of a piece at a time, and gives as the products want it. Of
// eight words, the first piece has the even ones. Of rows of two pieces, 4 to 7 of every 8 have
// them swapped: then no two rows meet in a bank.
lowering::columns lowering::spread_words(std::span<const value_id> of_lanes) {
  const auto words = static_cast<unsigned>(of_lanes.size());
  const unsigned pieces = words / 4;
  Value* scratch = b_.CreateAdd(b_.CreateMul(warp_, b_.getInt32(fragment_scratch_words)),
                                b_.getInt32(fragment_scratch_start(p_)));
  auto address = [&](Value* row, Value* piece) {
    if (pieces == 2)
      piece = b_.CreateXor(piece, b_.CreateAnd(b_.CreateLShr(row, 2), b_.getInt32(1)));
    Value* place = b_.CreateAdd(b_.CreateMul(row, b_.getInt32(words)), b_.CreateShl(piece, 2));
    return shared_address(b_.CreateAdd(scratch, place));
  };
  lower_warp_barrier();  // the words before have been read
  auto* four = llvm::FixedVectorType::get(b_.getInt32Ty(), 4);
  for (unsigned piece = 0; piece < pieces; piece++) {
    Value* own = llvm::PoisonValue::get(four);
    for (unsigned k = 0; k < 4; k++)
      own = b_.CreateInsertElement(own, get(of_lanes[pieces * k + piece]), k);
    b_.CreateAlignedStore(own, address(lane_, b_.getInt32(piece)), llvm::Align(16));
  }
  lower_warp_barrier();
  columns out(thread_rows * pieces);
  for (unsigned half = 0; half < pieces; half++) {  // four pieces of eight rows a load
    Value* row = lane_;
    if (pieces == 2)
      row = b_.CreateAdd(b_.CreateAnd(lane_, b_.getInt32(15)), b_.getInt32(16 * half));
    Value* piece = pieces == 2 ? b_.CreateLShr(lane_, 4) : b_.getInt32(0);
    Value* at = address(row, piece);
    Value* loaded = b_.CreateIntrinsic(intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16,
                                       {at->getType()}, {at});
    for (unsigned k = 0; k < 4; k++) {
      const unsigned m = pieces == 2 ? 2 * half + k % 2 : k, word = pieces == 2 ? k / 2 : 0;
      out[m * pieces + word] = b_.CreateExtractValue(loaded, k);
    }
  }
  return out;
}

// Words that several products of a region share are spread once, and words that are computed alike
// from others (the low and the high nibbles of the same words, say) are computed after these have
// been spread.
const lowering::columns& lowering::fragment_words(const std::vector<value_id>& words) {
  if (auto found = spread_.find(words); found != spread_.end()) return found->second;
  std::optional<columns> computed = computed_words(words);
  return spread_[words] = computed ? *computed : spread_words(words);
}

// Null if the words are not all made by one operation, of uniform values and of words.
std::optional<lowering::columns> lowering::computed_words(const std::vector<value_id>& words) {
  const instruction* first = makers_[words[0]];
  if (first == nullptr || first->op < opcode::iadd || first->op > opcode::iashr) return {};
  std::vector<std::vector<value_id>> operands(first->operands.size());
  for (value_id w : words) {
    const instruction* maker = makers_[w];
    if (maker == nullptr || maker->op != first->op || maker->imm != first->imm) return {};
    for (std::size_t k = 0; k < operands.size(); k++) operands[k].push_back(maker->operands[k]);
  }
  std::vector<const columns*> spread(operands.size(), nullptr);
  for (const std::vector<value_id>& list : operands) {
    const bool fits = std::ranges::all_of(
        list, [&](value_id v) { return uniform(list[0]) ? v == list[0] : !uniform(v); });
    if (!fits) return {};
  }
  std::size_t entries = 0;
  for (std::size_t k = 0; k < operands.size(); k++) {
    if (uniform(operands[k][0])) continue;
    spread[k] = &fragment_words(operands[k]);
    entries = spread[k]->size();
  }
  if (entries == 0) return {};
  columns out;
  for (std::size_t entry = 0; entry < entries; entry++) {
    std::vector<columns> before;
    for (std::size_t k = 0; k < operands.size(); k++) {
      before.push_back(values_[first->operands[k]]);
      if (spread[k] != nullptr) values_[first->operands[k]] = {(*spread[k])[entry]};
    }
    out.push_back(lower_value(*first));
    for (std::size_t k = operands.size(); k-- > 0;) values_[first->operands[k]] = before[k];
  }
  return out;
}

void lowering::lower_fragment_dot(const instruction& in) {
  columns sums = values_[in.operands[0]];
  const columns& weights =
      fragment_words(std::vector<value_id>(in.operands.begin() + 3, in.operands.end()));
  const bool eight = in.operands.size() == 3 + 8;
  const unsigned each = eight ? 2 : 1;  // words of a row or a column that a thread has
  std::uint32_t alignment =
      std::min({known_.divisor(in.operands[1]), known_.divisor(in.operands[2]), 4 * each});
  for (unsigned n = 0; n < sums.size() / 8; n++) {
    Value* column = b_.CreateAdd(g_, b_.getInt32(8 * n));
    Value* at = column_address(get(in.operands[1]), get(in.operands[2]), column);
    columns x = words_at(moved(at, t_, 4 * each), each, alignment);
    for (unsigned half = 0; half < 2; half++) {  // 16 rows each
      const unsigned c = 8 * n + 4 * half;
      llvm::SmallVector<Value*, 10> operands;
      for (unsigned k = 0; k < each; k++)
        for (unsigned m = 2 * half; m < 2 * half + 2; m++)
          operands.push_back(weights[m * each + k]);
      operands.append(x.begin(), x.end());
      operands.append(sums.begin() + c, sums.begin() + c + 4);
      Value* sum = b_.CreateIntrinsic(eight ? intrinsic::nvvm_mma_m16n8k32_row_col_u8_s8
                                            : intrinsic::nvvm_mma_m16n8k16_row_col_u8_s8,
                                      {}, operands);
      for (unsigned k = 0; k < 4; k++) sums[c + k] = b_.CreateExtractValue(sum, k);
    }
  }
  values_[in.result] = sums;
}

// ---- lane values inside a tile_map

// Has ready what a tile_map's body uses of the lane values outside it. A lane cannot ask another
// inside the body, where columns may take different ways.
void lowering::enter_rows(const region& r) {
  std::set<value_id> inside;
  add_defined(r, inside);
  need_rows(r, inside);
}

void lowering::need_rows(const region& r, const std::set<value_id>& inside) {
  auto need = [&](value_id v) {
    if (!uniform(v) && !inside.contains(v)) rows_of(v);
  };
  for (const instruction& in : r.body) {
    std::ranges::for_each(in.operands, need);
    for (const region& inner : in.regions) need_rows(inner, inside);
  }
  std::ranges::for_each(r.yields, need);
}

// A lane value as the lanes of this thread's four rows have it: computed again from what it is made
// of, so that few values travel.
lowering::columns lowering::rows_of(value_id v) {
  if (auto found = as_rows_.find(v); found != as_rows_.end()) return found->second;
  const instruction* maker = makers_[v];
  columns rows = maker != nullptr && maker->op == opcode::lane   ? fragment_rows_
                 : maker != nullptr && is_elementwise(maker->op) ? recomputed_rows(*maker)
                                                                 : shuffled_rows(values_[v][0]);
  as_rows_[v] = rows;
  return rows;
}

lowering::columns lowering::recomputed_rows(const instruction& in) {
  for (value_id v : in.operands)
    if (!uniform(v)) rows_of(v);
  columns rows;
  for (unsigned m = 0; m < thread_rows; m++) {
    element of_row{fragment_rows_[m], nullptr, m};
    element_ = &of_row;
    rows.push_back(lower_value(in));
    element_ = nullptr;
  }
  return rows;
}

lowering::columns lowering::shuffled_rows(Value* value) {
  auto* maker = llvm::dyn_cast<llvm::Instruction>(value);
  if (maker == nullptr) return columns(thread_rows, value);  // a constant
  auto [at, is_new] = shuffled_.try_emplace(value);
  if (!is_new) return at->second;
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  llvm::BasicBlock* where = maker->getParent();
  if (llvm::isa<llvm::PHINode>(maker))
    b_.SetInsertPoint(where, where->getFirstInsertionPt());
  else
    b_.SetInsertPoint(where, std::next(maker->getIterator()));
  for (Value* row : fragment_rows_) at->second.push_back(shuffle(value, row));
  return at->second;
}

Value* lowering::shuffle(Value* value, Value* source) {
  llvm::Type *type = value->getType(), *i32 = b_.getInt32Ty(), *i64 = b_.getInt64Ty();
  auto words = [&](Value* v) {
    return b_.CreateIntrinsic(intrinsic::nvvm_shfl_sync_idx_i32, {},
                              {b_.getInt32(all_lanes), v, source, b_.getInt32(warp_lanes - 1)});
  };
  if (type->isPointerTy()) {
    Value* bits = b_.CreatePtrToInt(value, i64);
    Value* low = b_.CreateZExt(words(b_.CreateTrunc(bits, i32)), i64);
    Value* high = b_.CreateZExt(words(b_.CreateTrunc(b_.CreateLShr(bits, 32), i32)), i64);
    return b_.CreateIntToPtr(b_.CreateOr(low, b_.CreateShl(high, 32)), type);
  }
  if (type->isFloatTy()) return b_.CreateBitCast(words(b_.CreateBitCast(value, i32)), type);
  if (type == i32) return words(value);
  return b_.CreateTrunc(words(b_.CreateZExt(value, i32)), type);
}

}  // namespace terrane::kernels::ptx

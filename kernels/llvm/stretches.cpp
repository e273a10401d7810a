// Groups of several warps on one thread: what lies between barriers runs for one warp after
// another.
#include <algorithm>

#include "kernels/llvm/cpu_lowering.hpp"

namespace terrane::kernels {

using llvm::BasicBlock;
using llvm::Value;

namespace {

// Between stretches, where a value is wanted from memory.
constexpr unsigned between = ~0u;

bool holds_barrier(const region& r) {
  for (const instruction& in : r.body) {
    if (in.op == opcode::barrier) return true;
    for (const region& inner : in.regions) {
      if (holds_barrier(inner)) return true;
    }
  }
  return false;
}

// The index after the run of instructions from `first` that holds no barrier.
std::size_t end_of_stretch(const region& r, std::size_t first) {
  std::size_t k = first;
  for (; k < r.body.size(); k++) {
    if (r.body[k].op == opcode::barrier) break;
    bool stepped = false;
    for (const region& inner : r.body[k].regions) stepped = stepped || holds_barrier(inner);
    if (stepped) break;
  }
  return k;
}

}  // namespace

bool cpu_lowering::is_stepped(const instruction& in) const {
  for (const region& r : in.regions) {
    if (holds_barrier(r)) return true;
  }
  return false;
}

// ---- finding what must be kept

void cpu_lowering::find_stretches(const region& r) {
  for (std::size_t k = 0; k < r.body.size();) {
    std::size_t end = end_of_stretch(r, k);
    if (end > k) {
      stretches_++;
      unsigned stretch = stretches_;
      for (; k < end; k++) note_uses(r.body[k], stretch);
    } else {
      if (r.body[k].op != opcode::barrier) find_stepped(r.body[k]);
      k++;
    }
  }
}

void cpu_lowering::find_stepped(const instruction& in) {
  for (value_id v : in.operands) note_use(v, between);
  for (unsigned k = 0; k < in.results; k++) keep(in.result + k);
  for (const region& r : in.regions) {
    find_stretches(r);
    for (value_id v : r.yields) note_use(v, between);
  }
}

void cpu_lowering::note_uses(const instruction& in, unsigned stretch) {
  for (value_id v : in.operands) note_use(v, stretch);
  for (unsigned k = 0; k < in.results; k++) places_[in.result + k].home = stretch;
  for (const region& r : in.regions) {
    for (value_id v : r.parameters) places_[v].home = stretch;
    for (const instruction& inner : r.body) note_uses(inner, stretch);
    for (value_id v : r.yields) note_use(v, stretch);
  }
}

void cpu_lowering::note_use(value_id v, unsigned stretch) {
  place& at = places_[v];
  bool everywhere = at.is_warp || !at.values.empty();  // built-in values
  if (!everywhere && at.home != 0 && at.home != stretch) keep(v);
}

void cpu_lowering::keep(value_id v) {
  place& at = places_[v];
  if (at.kept) return;
  at.kept = true;
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(entry_, entry_->begin());
  unsigned copies = type(v).vary == spread::group ? 1 : static_cast<unsigned>(p_.warps);
  at.memory = b_.CreateAlloca(b_.type_of(type(v)), b_.getInt32(copies * width(v)));
}

Value* cpu_lowering::address_in_memory(value_id v, unsigned column) {
  Value* index = b_.getInt32(column);
  if (type(v).vary != spread::group) {
    index = b_.CreateAdd(b_.CreateMul(warp_, b_.getInt32(width(v))), index);
  }
  return b_.CreateInBoundsGEP(b_.type_of(type(v)), places_[v].memory, index);
}

// ---- lowering

void cpu_lowering::lower_group(const region& r) {
  for (std::size_t k = 0; k < r.body.size();) {
    std::size_t end = end_of_stretch(r, k);
    if (end > k) {
      lower_stretch({r.body.data() + k, end - k});
      k = end;
      continue;
    }
    const instruction& in = r.body[k++];
    if (in.op == opcode::loop) lower_stepped_loop(in);
    if (in.op == opcode::branch) lower_stepped_branch(in);
  }
}

void cpu_lowering::lower_stretch(std::span<const instruction> body) {
  unsigned stretch = ++stretches_;
  bool only_builtins = std::all_of(body.begin(), body.end(),
                                   [](const instruction& in) { return in.op <= opcode::lane; });
  if (only_builtins) return;
  for_each_warp(stretch, [&] {
    for (const instruction& in : body) lower(in);
  });
}

void cpu_lowering::for_each_warp(unsigned stretch, const std::function<void()>& body) {
  Value* warps = b_.getInt64(static_cast<std::uint64_t>(p_.warps));
  for_range(b_.getInt64(0), warps, 1, {}, [&](Value* w, const columns&) {
    stretch_ = stretch;
    warp_ = b_.CreateTrunc(w, b_.getInt32Ty());
    stretch_entry_ = b_.GetInsertBlock();
    BasicBlock* inside = block("stretch");
    b_.CreateBr(inside);
    b_.SetInsertPoint(inside);
    body();
    stretch_ = 0;
    return columns{};
  });
}

// Copies values to the memory of the results `to`, `to`+1, ...: all are read before any is written,
// since what a loop yields may be what it carries. What is the same for the group is written once,
// after the warps have read it.
void cpu_lowering::copy_in_memory(std::span<const value_id> from, value_id to) {
  auto of_group = [&](std::size_t k) {
    return type(to + static_cast<value_id>(k)).vary == spread::group;
  };
  std::vector<columns> values(from.size());
  auto read = [&](bool group) {
    for (std::size_t k = 0; k < from.size(); k++) {
      if (of_group(k) == group) {
        values[k] = all_shaped(from[k], type(to + static_cast<value_id>(k)));
      }
    }
  };
  auto write = [&](bool group) {
    for (std::size_t k = 0; k < from.size(); k++) {
      for (unsigned c = 0; of_group(k) == group && c < values[k].size(); c++) {
        b_.CreateStore(values[k][c], address_in_memory(to + static_cast<value_id>(k), c));
      }
    }
  };
  read(true);
  bool any_of_warp = false;
  for (std::size_t k = 0; k < from.size(); k++) any_of_warp = any_of_warp || !of_group(k);
  if (any_of_warp) {
    for_each_warp(++copies_, [&] {
      read(false);
      write(false);
    });
  }
  write(true);
}

void cpu_lowering::lower_stepped_loop(const instruction& in) {
  const region& r = in.regions[0];
  Value* begin = b_.CreateSExt(scalar(in.operands[0]), b_.getInt64Ty());
  Value* end = b_.CreateSExt(scalar(in.operands[1]), b_.getInt64Ty());
  copy_in_memory({in.operands.data() + 2, in.results}, in.result);
  for (unsigned k = 0; k < in.results; k++) {
    // What is carried lies where the results will.
    places_[r.parameters[k + 1]].kept = true;
    places_[r.parameters[k + 1]].memory = places_[in.result + k].memory;
  }
  for_range(begin, end, in.imm, {}, [&](Value* i, const columns&) {
    places_[r.parameters[0]].values = {b_.CreateTrunc(i, b_.getInt32Ty())};
    places_[r.parameters[0]].stretch = 0;
    lower_group(r);
    copy_in_memory(r.yields, in.result);
    return columns{};
  });
}

void cpu_lowering::lower_stepped_branch(const instruction& in) {
  BasicBlock *sides[2] = {block("then"), block("else")}, *after = block("after");
  b_.CreateCondBr(scalar(in.operands[0]), sides[0], sides[1]);
  for (unsigned s = 0; s < 2; s++) {
    b_.SetInsertPoint(sides[s]);
    lower_group(in.regions[s]);
    copy_in_memory(in.regions[s].yields, in.result);
    b_.CreateBr(after);
  }
  b_.SetInsertPoint(after);
}

}  // namespace terrane::kernels

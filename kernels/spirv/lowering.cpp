#include "kernels/spirv/lowering.hpp"

#include <algorithm>
#include <cassert>

#include <spirv/unified1/GLSL.std.450.h>

namespace terrane::kernels::spirv {

using spv::Op;

lowering::lowering(const program& p, const spirv_options& options)
    : p_(p),
      options_(options),
      known_(p.values.size()),
      products_(p.values.size()),
      divisors_(p),
      loads_early_(options.load_early && has_registers_for_loads()),
      makers_(p.values.size()) {
  if (loads_early_) note_makers(p.body);
  std::size_t next = 0;
  for (std::size_t v = 0; v < p.values.size(); v++) {
    first_.push_back(next);
    next += slots(static_cast<value_id>(first_.size() - 1));
  }
  held_.resize(next);
  if (reads_what_it_wrote(p)) access_ = word(spv::MemoryAccessMask::NonPrivatePointer);
}

std::vector<std::uint32_t> lowering::run() {
  declare_interface();
  lower_region(p_.body);
  return m_.finish();
}

// How many ids hold a value.
std::size_t lowering::slots(value_id v) const {
  return options_.short_distances && p_.values[v].scalar == scalar_type::ptr ? 2 : width(v);
}

id lowering::slot_type(value_id v, std::size_t slot) {
  bool distance = p_.values[v].scalar == scalar_type::ptr && slot == 1;
  return distance ? m_.u32() : type_of(p_.values[v].scalar);
}

id lowering::type_of(scalar_type s) {
  switch (s) {
    case scalar_type::pred:
      return m_.boolean();
    case scalar_type::i32:
      return m_.u32();
    case scalar_type::f32:
      return m_.f32();
    case scalar_type::ptr:
      return m_.u64();
  }
  return 0;
}

void lowering::declare_interface() {
  using spv::Capability;
  for (Capability c : {Capability::Shader, Capability::Int64,
                       Capability::PhysicalStorageBufferAddresses, Capability::VulkanMemoryModel})
    m_.capability(c);
  if (options_.float_controls) {
    m_.capability(Capability::RoundingModeRTE);
    m_.capability(Capability::SignedZeroInfNanPreserve);
    m_.execution_mode(spv::ExecutionMode::RoundingModeRTE, {32});
    m_.execution_mode(spv::ExecutionMode::SignedZeroInfNanPreserve, {32});
  }
  auto warps = static_cast<std::uint32_t>(p_.warps);
  m_.execution_mode(spv::ExecutionMode::LocalSize, {warps * warp_lanes, 1, 1});

  id slots = m_.distinct_type(Op::OpTypeArray, {m_.u64(), m_.u32_constant(max_arguments)});
  m_.decorate(slots, spv::Decoration::ArrayStride, {8});
  id block = m_.distinct_type(Op::OpTypeStruct, {slots});
  m_.decorate(block, spv::Decoration::Block);
  m_.decorate_member(block, 0, spv::Decoration::Offset, {0});
  arguments_ = m_.global_variable(spv::StorageClass::PushConstant, block);

  id index = m_.global_variable(spv::StorageClass::Input, m_.u32());
  m_.decorate(index, spv::Decoration::BuiltIn, {word(spv::BuiltIn::LocalInvocationIndex)});
  local_index_ = m_.once(Op::OpLoad, m_.u32(), {index});
  id three = m_.vector(m_.u32(), 3);
  id group = m_.global_variable(spv::StorageClass::Input, three);
  m_.decorate(group, spv::Decoration::BuiltIn, {word(spv::BuiltIn::WorkgroupId)});
  group_ = m_.once(Op::OpLoad, three, {group});

  lane_ = local_index_;
  warp_ = m_.u32_constant(0);
  if (warps > 1) {
    lane_ = m_.once(Op::OpBitwiseAnd, m_.u32(), {local_index_, m_.u32_constant(31)});
    warp_ = m_.once(Op::OpShiftRightLogical, m_.u32(), {local_index_, m_.u32_constant(5)});
  }
  first_lane_ = m_.once(Op::OpIEqual, m_.boolean(), {lane_, m_.u32_constant(0)});

  std::uint32_t words = spirv_shared_bytes(p_, options_) / 4;
  if (words != 0) {
    id array = m_.type(Op::OpTypeArray, {m_.u32(), m_.u32_constant(words)});
    shared_ = m_.global_variable(spv::StorageClass::Workgroup, array);
  }
}

void lowering::lower_region(const region& r) {
  load_early(r);
  for (const instruction& in : r.body) lower(in);
}

void lowering::lower(const instruction& in) {
  using enum opcode;
  switch (in.op) {
    case const_i32:
    case const_f32:
    case argument:
    case group_x:
    case group_y:
    case opcode::warp:
    case lane:
      return lower_builtin(in);
    case i2f:
    case bits_to_float:
    case float_to_bits:
    case h2f:
    case f2h:
      return lower_conversion(in);
    case dot4:
      return set(in, dot(at(in.operands[0]), at(in.operands[1]), at(in.operands[2]), in.imm));
    case offset:
      return lower_offset(in);
    case opcode::load:
    case load_words:
    case opcode::store:
    case store_lanes:
      return lower_global(in);
    case load_lanes:
    case load_lanes_x4:
      return take_early(in) ? void() : lower_global(in);
    case shared_load:
    case shared_store:
    case shared_load_lanes:
    case shared_store_lanes:
      return lower_shared(in);
    case prefetch:
      return;
    case opcode::barrier:
      return group_barrier();
    case lane_max:
    case lane_tree_add:
    case lane_sum:
      return lower_reduction(in);
    case tile_zero:
    case tile_load:
    case tile_store:
      return lower_tile(in);
    case tile_dot:
      return lower_tile_dot(in);
    case tile_map:
      return lower_tile_map(in);
    case loop:
      return lower_loop(in);
    case branch:
      return lower_branch(in);
    default:
      return lower_arithmetic(in);
  }
}

void lowering::lower_builtin(const instruction& in) {
  using enum opcode;
  switch (in.op) {
    case const_i32:
      known_[in.result] = in.imm;
      return set(in, m_.u32_constant(in.imm));
    case const_f32:
      return set(in, m_.f32_constant(in.imm));
    case argument: {
      id pointer = m_.once(Op::OpAccessChain, m_.pointer(spv::StorageClass::PushConstant, m_.u64()),
                           {arguments_, m_.u32_constant(0), m_.u32_constant(in.imm)});
      id slot = m_.once(Op::OpLoad, m_.u64(), {pointer});
      scalar_type type = p_.values[in.result].scalar;
      if (type == scalar_type::ptr) return set_address(in.result, {slot, 0});
      id low = m_.once(Op::OpUConvert, m_.u32(), {slot});
      return set(in, type == scalar_type::i32 ? low : m_.once(Op::OpBitcast, m_.f32(), {low}));
    }
    case group_x:
      return set(in, m_.once(Op::OpCompositeExtract, m_.u32(), {group_, 0}));
    case group_y:
      return set(in, m_.once(Op::OpCompositeExtract, m_.u32(), {group_, 1}));
    case opcode::warp:
      return set(in, warp_);
    default:
      return set(in, lane_);
  }
}

// header: phis of the counter and the carried values, then the test; body; a block that counts.
// A loop carries a pred as a number: NVIDIA's compiler (580.159) ends with a memory fault on some
// that carry it as it is. The least that was found: a loop that yields a pred from outside it.
id lowering::as_carried(value_id v, std::size_t slot) {
  if (!is_pred(v)) return at(v, slot);
  return choose(at(v), m_.u32_constant(1), m_.u32_constant(0), m_.u32());
}

id lowering::from_carried(value_id v, id carried) {
  return is_pred(v) ? compare(Op::OpINotEqual, carried, m_.u32_constant(0)) : carried;
}

// A loop that is known to have no turn is left out, for the same reason.
bool lowering::has_no_turn(const instruction& in) const {
  const std::optional<std::uint32_t>&begin = known_[in.operands[0]], &end = known_[in.operands[1]];
  return begin && end && static_cast<std::int32_t>(*begin) >= static_cast<std::int32_t>(*end);
}

void lowering::lower_loop(const instruction& in) {
  if (has_no_turn(in)) {
    for (unsigned k = 0; k < in.results; k++)
      for (std::size_t c = 0; c < slots(in.result + k); c++)
        at(in.result + k, c) = at(in.operands[k + 2], c);
    return;
  }
  if (reads_weights_in_short_turns(in)) return write_out(in);
  const region& body = in.regions[0];
  id before = m_.current_block();
  id header = m_.fresh(), inside = m_.fresh(), advance = m_.fresh(), after = m_.fresh();
  ids firsts;
  for (unsigned k = 0; k < in.results; k++)
    for (std::size_t c = 0; c < slots(in.result + k); c++)
      firsts.push_back(as_carried(in.operands[k + 2], c));
  m_.statement(Op::OpBranch, {header});
  m_.open_block(header);
  std::size_t counter_edge = 0;
  id i = m_.phi(m_.u32(), at(in.operands[0]), before, counter_edge);
  std::vector<std::size_t> edges;
  ids carried;
  for (unsigned k = 0; k < in.results; k++) {
    for (std::size_t c = 0; c < slots(in.result + k); c++) {
      id type = is_pred(in.result + k) ? m_.u32() : slot_type(in.result + k, c);
      carried.push_back(m_.phi(type, firsts[carried.size()], before, edges.emplace_back()));
    }
  }
  at(body.parameters[0]) = i;
  known_[body.parameters[0]].reset();
  std::size_t slot = 0;
  for (unsigned k = 0; k < in.results; k++)
    for (std::size_t c = 0; c < slots(in.result + k); c++)
      at(body.parameters[k + 1], c) = from_carried(in.result + k, carried[slot++]);

  id more = compare(Op::OpSLessThan, i, at(in.operands[1]));
  m_.statement(Op::OpLoopMerge, {after, advance, word(spv::LoopControlMask::MaskNone)});
  m_.statement(Op::OpBranchConditional, {more, inside, after});
  m_.open_block(inside);
  lower_region(body);
  m_.statement(Op::OpBranch, {advance});
  m_.open_block(advance);
  m_.set_edge(counter_edge, next_turn(in, i), advance);
  slot = 0;
  for (unsigned k = 0; k < in.results; k++)
    for (std::size_t c = 0; c < slots(in.result + k); c++)
      m_.set_edge(edges[slot++], as_carried(body.yields[k], c), advance);
  m_.statement(Op::OpBranch, {header});
  m_.open_block(after);
  slot = 0;
  for (unsigned k = 0; k < in.results; k++)
    for (std::size_t c = 0; c < slots(in.result + k); c++)
      at(in.result + k, c) = from_carried(in.result + k, carried[slot++]);
}

// i + step, or the end where the sum would pass the largest i32.
id lowering::next_turn(const instruction& in, id i) {
  id sum = add_constant(i, in.imm);
  std::optional<std::uint32_t> end = known_[in.operands[1]];
  bool fits =
      in.imm == 1 ||
      (end && static_cast<std::int64_t>(static_cast<std::int32_t>(*end)) + in.imm <= INT32_MAX);
  if (fits) return sum;
  id left = binary(Op::OpISub, at(in.operands[1]), i);
  id another = compare(Op::OpULessThan, m_.u32_constant(in.imm), left);
  return choose(another, sum, at(in.operands[1]), m_.u32());
}

void lowering::lower_branch(const instruction& in) {
  id then = m_.fresh(), otherwise = m_.fresh(), after = m_.fresh();
  m_.statement(Op::OpSelectionMerge, {after, word(spv::SelectionControlMask::MaskNone)});
  m_.statement(Op::OpBranchConditional, {at(in.operands[0]), then, otherwise});
  ids ends, yielded[2];
  for (std::size_t side = 0; side < 2; side++) {
    const region& r = in.regions[side];
    m_.open_block(side == 0 ? then : otherwise);
    lower_region(r);
    ends.push_back(m_.current_block());
    for (value_id y : r.yields)
      for (std::size_t c = 0; c < slots(y); c++) yielded[side].push_back(at(y, c));
    m_.statement(Op::OpBranch, {after});
  }
  m_.open_block(after);
  std::size_t slot = 0;
  for (unsigned k = 0; k < in.results; k++) {
    for (std::size_t c = 0; c < slots(in.result + k); c++, slot++) {
      std::size_t edge = 0;
      id type = slot_type(in.result + k, c);
      at(in.result + k, c) = m_.phi(type, yielded[0][slot], ends[0], edge);
      m_.set_edge(edge, yielded[1][slot], ends[1]);
    }
  }
}

id lowering::choose(id condition, id a, id b, id type) {
  return m_.emit(Op::OpSelect, type, {condition, a, b});
}

id lowering::float_op(Op op, id a, id b) {
  if (options_.lavapipe) return m_.float_op(op, {hide_zero(a), hide_zero(b)});
  return m_.float_op(op, {a, b});
}

id lowering::shift_left(id a, std::uint32_t bits) {
  return binary(Op::OpShiftLeftLogical, a, m_.u32_constant(bits));
}
id lowering::shift_right(id a, std::uint32_t bits) {
  return binary(Op::OpShiftRightLogical, a, m_.u32_constant(bits));
}
id lowering::shift_right_signed(id a, std::uint32_t bits) {
  return binary(Op::OpShiftRightArithmetic, a, m_.u32_constant(bits));
}

id lowering::smallest(id a, id b) {
  return m_.emit(Op::OpExtInst, m_.u32(), {m_.extended_set(), GLSLstd450UMin, a, b});
}

// A shift by 32 or more is undefined in SPIR-V; the language takes the amount modulo 32.
id lowering::shift(Op op, value_id a, value_id amount) {
  std::optional<std::uint32_t> bits = known_[amount];
  id by = bits ? m_.u32_constant(*bits & 31) : and_constant(at(amount), 31);
  return binary(op, at(a), by);
}

// Integers that are known while the program is written, so that addresses need fewer instructions.
bool lowering::fold(const instruction& in) {
  known_[in.result].reset();
  products_[in.result].reset();
  if (in.op > opcode::ilshr || in.operands.size() != 2) return false;
  const auto &a = known_[in.operands[0]], &b = known_[in.operands[1]];
  if (b && in.op == opcode::imul) products_[in.result] = {at(in.operands[0]), *b};
  if (a && in.op == opcode::imul) products_[in.result] = {at(in.operands[1]), *a};
  if (b && in.op == opcode::ishl) products_[in.result] = {at(in.operands[0]), 1u << (*b & 31)};
  if (!a || !b) return false;
  using enum opcode;
  switch (in.op) {
    case iadd:
      known_[in.result] = *a + *b;
      break;
    case isub:
      known_[in.result] = *a - *b;
      break;
    case imul:
      known_[in.result] = *a * *b;
      break;
    case iand:
      known_[in.result] = *a & *b;
      break;
    case ishl:
      known_[in.result] = *a << (*b & 31);
      break;
    case ilshr:
      known_[in.result] = *a >> (*b & 31);
      break;
    default:
      return false;
  }
  set(in, m_.u32_constant(*known_[in.result]));
  return true;
}

void lowering::lower_arithmetic(const instruction& in) {
  if (fold(in)) return;
  auto operand = [&](std::size_t k) { return at(in.operands[k]); };
  auto integer = [&](Op op) { set(in, binary(op, operand(0), operand(1))); };
  auto test = [&](Op op) { set(in, compare(op, operand(0), operand(1))); };
  auto extreme = [&](std::uint32_t op) {
    set(in, m_.emit(Op::OpExtInst, m_.u32(), {m_.extended_set(), op, operand(0), operand(1)}));
  };
  auto floating = [&](Op op) { set(in, float_op(op, operand(0), operand(1))); };
  using enum opcode;
  switch (in.op) {
    case iadd:
      return integer(Op::OpIAdd);
    case isub:
      return integer(Op::OpISub);
    case imul:
      return integer(Op::OpIMul);
    case iand:
      return integer(Op::OpBitwiseAnd);
    case ior:
      return integer(Op::OpBitwiseOr);
    case ixor:
      return integer(Op::OpBitwiseXor);
    case ishl:
      return set(in, shift(Op::OpShiftLeftLogical, in.operands[0], in.operands[1]));
    case ilshr:
      return set(in, shift(Op::OpShiftRightLogical, in.operands[0], in.operands[1]));
    case iashr:
      return set(in, shift(Op::OpShiftRightArithmetic, in.operands[0], in.operands[1]));
    case iudiv:
      return integer(Op::OpUDiv);
    case iurem:
      return integer(Op::OpUMod);
    case ismin:
      return extreme(GLSLstd450SMin);
    case ismax:
      return extreme(GLSLstd450SMax);
    case ieq:
      return test(Op::OpIEqual);
    case ine:
      return test(Op::OpINotEqual);
    case islt:
      return test(Op::OpSLessThan);
    case iult:
      return test(Op::OpULessThan);
    case fadd:
      return floating(Op::OpFAdd);
    case fsub:
      return floating(Op::OpFSub);
    case fmul:
      return floating(Op::OpFMul);
    case fma_exact:
      if (options_.fuse_exact)
        return set(in, m_.float_op(Op::OpExtInst, {m_.extended_set(), GLSLstd450Fma, operand(0),
                                                   operand(1), operand(2)}));
      return set(in,
                 float_op(Op::OpFAdd, float_op(Op::OpFMul, operand(0), operand(1)), operand(2)));
    case flt:
      return test(Op::OpFOrdLessThan);
    case feq:
      return test(Op::OpFOrdEqual);
    case pand:
      return test(Op::OpLogicalAnd);
    case por:
      return test(Op::OpLogicalOr);
    case pnot:
      return set(in, m_.emit(Op::OpLogicalNot, m_.boolean(), {operand(0)}));
    case select:
      for (std::size_t k = 0; k < slots(in.result); k++)
        at(in.result, k) = choose(operand(0), at(in.operands[1], k), at(in.operands[2], k),
                                  slot_type(in.result, k));
      if (options_.lavapipe && is_uniform_address(in.result)) set(in, same_address(at(in.result)));
      return;
    default:
      assert(false && "verify() admits no other instruction here");
  }
}

void lowering::lower_conversion(const instruction& in) {
  id a = at(in.operands[0]);
  using enum opcode;
  switch (in.op) {
    case i2f:
      return set(in, to_float(a));
    case bits_to_float:
      return set(in, float_of(a));
    case float_to_bits:
      return set(in, bits_of(a));
    case h2f:
      return set(in, options_.unpack_half && in.imm == 1 ? unpacked_half(a) : half_to_float(a));
    default:
      return set(in, float_to_half(a));
  }
}

// Where the conversion's rounding is not promised: two exact halves and one rounding addition
// (numeric contract, "Conversions").
id lowering::to_float(id a) {
  auto convert = [&](id v) { return m_.emit(Op::OpConvertSToF, m_.f32(), {v}); };
  if (options_.float_controls) return convert(a);
  id high = m_.float_op(Op::OpFMul,
                        {convert(shift_right_signed(a, 12)), m_.f32_constant(0x45800000)});  // 4096
  return m_.float_op(Op::OpFAdd, {high, convert(and_constant(a, 4095))});
}

id lowering::unpacked_half(id h) {
  const id two = m_.type(Op::OpTypeVector, {m_.f32(), 2});
  const id both = m_.emit(Op::OpExtInst, two, {m_.extended_set(), GLSLstd450UnpackHalf2x16, h});
  return m_.emit(Op::OpCompositeExtract, m_.f32(), {both, 0});
}

// By integers, as numeric contract "Conversions" says; the same steps as the interpreter's.
id lowering::half_to_float(id h) {
  id a = and_constant(h, 0x7fff);
  id sign = shift_left(and_constant(h, 0x8000), 16);
  id raised = shift_left(a, 13);
  id normal = add_constant(raised, 0x38000000);
  id special = binary(Op::OpBitwiseOr, raised, m_.u32_constant(0x7f800000));
  id exact = m_.emit(Op::OpConvertSToF, m_.f32(), {a});
  id small = bits_of(m_.float_op(Op::OpFMul, {exact, m_.f32_constant(0x33800000)}));  // 2^-24
  id finite = choose(compare(Op::OpULessThan, a, m_.u32_constant(0x400)), small, normal, m_.u32());
  id bits = choose(compare(Op::OpULessThan, a, m_.u32_constant(0x7c00)), finite, special, m_.u32());
  return float_of(binary(Op::OpBitwiseOr, sign, bits));
}

id lowering::float_to_half(id f) {
  id b = bits_of(f), a = and_constant(b, 0x7fffffff);
  id sign = and_constant(shift_right(b, 16), 0x8000);
  auto below = [&](std::uint32_t limit) {
    return compare(Op::OpULessThan, a, m_.u32_constant(limit));
  };
  id r = add_constant(a, 0u - 0x38000000u);
  id odd = and_constant(shift_right(r, 13), 1);
  id normal = shift_right(binary(Op::OpIAdd, add_constant(r, 0xfff), odd), 13);

  // A half-denormal: the mantissa shifted right, rounded by what fell off.
  id mantissa = binary(Op::OpBitwiseOr, and_constant(a, 0x7fffff), m_.u32_constant(0x800000));
  id one = m_.u32_constant(1);
  id wanted = binary(Op::OpISub, m_.u32_constant(126), shift_right(a, 23));
  id by = smallest(wanted, m_.u32_constant(31));  // more only where this way is not taken
  id kept = binary(Op::OpShiftRightLogical, mantissa, by);
  id unit = binary(Op::OpShiftLeftLogical, one, by);
  id rest = binary(Op::OpBitwiseAnd, mantissa, add_constant(unit, 0xffffffff));
  id half = shift_right(unit, 1);
  // Up when rest > half, or rest == half and kept is odd: rest + (kept & 1) > half.
  id up = compare(Op::OpULessThan, half, binary(Op::OpIAdd, rest, and_constant(kept, 1)));
  id small = binary(Op::OpIAdd, kept, choose(up, one, m_.u32_constant(0), m_.u32()));

  id large = choose(below(0x7f800001), m_.u32_constant(0x7c00), m_.u32_constant(0x7e00), m_.u32());
  id finite = choose(below(0x38800000), small, normal, m_.u32());
  id nonzero = choose(below(0x33000000), m_.u32_constant(0), finite, m_.u32());
  id bits = choose(below(0x47800000), nonzero, large, m_.u32());
  return binary(Op::OpBitwiseOr, sign, bits);
}

}  // namespace terrane::kernels::spirv

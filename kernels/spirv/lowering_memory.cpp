#include <algorithm>
#include <bit>

#include <spirv/unified1/GLSL.std.450.h>

#include "kernels/spirv/lowering.hpp"

namespace terrane::kernels::spirv {

using spv::Op;

namespace {

// Short distances count words.
constexpr std::uint32_t distance_shift = 2, distance_unit = 1u << distance_shift;

std::uint32_t mask(spv::MemoryAccessMask m) { return word(m); }

}  // namespace

// ---- addresses

lowering::address lowering::address_of(value_id v) {
  if (!options_.short_distances) return {at(v), 0};
  return {at(v), at(v, 1), distance_shift};
}

void lowering::set_address(value_id v, address a) {
  at(v) = a.base;
  if (options_.short_distances) at(v, 1) = a.distance == 0 ? m_.u32_constant(0) : a.distance;
}

id lowering::whole(address a) {
  if (a.distance == 0 || a.distance == m_.u32_constant(0)) return a.base;
  id wide = m_.emit(Op::OpUConvert, m_.u64(), {a.distance});
  if (a.shift != 0)
    wide = m_.emit(Op::OpShiftLeftLogical, m_.u64(), {wide, m_.u32_constant(a.shift)});
  return m_.emit(Op::OpIAdd, m_.u64(), {a.base, wide});
}

lowering::address lowering::moved(address a, std::uint64_t bytes) {
  if (bytes == 0) return a;
  if (options_.short_distances && bytes % distance_unit == 0)
    return further(a, m_.u32_constant(static_cast<std::uint32_t>(bytes / distance_unit)));
  a.base = m_.emit(Op::OpIAdd, m_.u64(), {a.base, m_.u64_constant(bytes)});
  return a;
}

lowering::address lowering::moved(address a, id index, std::uint32_t scale) {
  if (options_.short_distances && scale % distance_unit == 0)
    return further(a, multiple(m_.u32(), index, scale / distance_unit));
  id bytes = multiple(m_.u64(), m_.emit(Op::OpUConvert, m_.u64(), {index}), scale);
  a.base = m_.emit(Op::OpIAdd, m_.u64(), {a.base, bytes});
  return a;
}

lowering::address lowering::further(address a, id units) {
  bool from_start = a.distance == 0 || a.distance == m_.u32_constant(0);
  a.distance = from_start ? units : binary(Op::OpIAdd, a.distance, units);
  return a;
}

id lowering::multiple(id type, id a, std::uint32_t factor) {
  if (factor == 1) return a;
  if (std::has_single_bit(factor)) {
    auto bits = static_cast<std::uint32_t>(std::countr_zero(factor));
    return m_.emit(Op::OpShiftLeftLogical, type, {a, m_.u32_constant(bits)});
  }
  id by = type == m_.u32() ? m_.u32_constant(factor) : m_.u64_constant(factor);
  return m_.emit(Op::OpIMul, type, {a, by});
}

// address + lane * bytes, to be used at once: its distance may count in smaller units.
lowering::address lowering::moved_by_lane(address a, id lane, std::uint32_t bytes) {
  if (!options_.short_distances) {
    id distance = m_.once(Op::OpIMul, m_.u32(), {lane, m_.u32_constant(bytes)});
    a.base = m_.emit(Op::OpIAdd, m_.u64(), {a.base, m_.once(Op::OpUConvert, m_.u64(), {distance})});
    return a;
  }
  for (std::uint32_t unit = distance_unit; unit > bytes; unit /= 2) {
    a.distance = multiple(m_.u32(), a.distance, 2);
    a.shift--;
  }
  std::uint32_t units = std::max(bytes / distance_unit, 1u);
  return further(a, m_.once(Op::OpIMul, m_.u32(), {lane, m_.u32_constant(units)}));
}

lowering::address lowering::column_address(address a, value_id stride, std::size_t column) {
  if (column == 0) return a;
  if (std::optional<std::uint32_t> bytes = known_[stride])
    return moved(a, std::uint64_t{*bytes} * column);
  return moved(a, at(stride), static_cast<std::uint32_t>(column));
}

void lowering::lower_offset(const instruction& in) {
  address a = address_of(in.operands[0]);
  if (std::optional<std::uint32_t> index = known_[in.operands[1]])
    return set_address(in.result, moved(a, std::uint64_t{*index} * in.imm));
  // A multiple of words counts words at once.
  if (std::optional<product> p = products_[in.operands[1]]; p && options_.short_distances) {
    std::uint64_t scale = std::uint64_t{p->factor} * in.imm;
    if (scale % distance_unit == 0 && scale <= UINT32_MAX)
      return set_address(in.result, moved(a, p->of, static_cast<std::uint32_t>(scale)));
  }
  set_address(in.result, moved(a, at(in.operands[1]), in.imm));
}

// ---- global memory

id lowering::load_raw(id of_type, address from, std::uint32_t alignment) {
  id pointer =
      m_.emit(Op::OpConvertUToPtr, m_.pointer(spv::StorageClass::PhysicalStorageBuffer, of_type),
              {whole(from)});
  return m_.emit(Op::OpLoad, of_type,
                 {pointer, mask(spv::MemoryAccessMask::Aligned) | access_, alignment});
}

id lowering::narrow_type(memory_type mem) {
  bool byte = byte_size(mem) == 1;
  m_.capability(byte ? spv::Capability::StorageBuffer8BitAccess
                     : spv::Capability::StorageBuffer16BitAccess);
  return m_.type(Op::OpTypeInt, {byte ? 8u : 16u, 0});
}

id lowering::load_element(memory_type mem, address from) {
  auto size = static_cast<std::uint32_t>(byte_size(mem));
  if (mem == memory_type::f32) return load_raw(m_.f32(), from, size);
  if (mem == memory_type::i32) return load_raw(m_.u32(), from, size);
  if (mem == memory_type::ptr) return load_raw(m_.u64(), from, size);
  bool has_sign = mem == memory_type::i8 || mem == memory_type::i16;
  id narrow = load_raw(narrow_type(mem), from, size);
  return m_.emit(has_sign ? Op::OpSConvert : Op::OpUConvert, m_.u32(), {narrow});
}

void lowering::store_element(memory_type mem, address to, id value) {
  auto size = static_cast<std::uint32_t>(byte_size(mem));
  id type = mem == memory_type::f32 ? m_.f32() : m_.u32();
  if (size < 4) {
    type = narrow_type(mem);
    value = m_.emit(Op::OpUConvert, type, {value});
  }
  id pointer = m_.emit(Op::OpConvertUToPtr,
                       m_.pointer(spv::StorageClass::PhysicalStorageBuffer, type), {whole(to)});
  m_.statement(Op::OpStore, {pointer, value, mask(spv::MemoryAccessMask::Aligned) | access_, size});
}

// 16 bytes, aligned as much, as 4 words.
lowering::ids lowering::load_four(address from) {
  if (options_.lavapipe) return load_four_by_halves(from);
  id four = load_raw(m_.vector(m_.u32(), 4), from, 16);
  ids words;
  for (std::uint32_t k = 0; k < 4; k++)
    words.push_back(m_.emit(Op::OpCompositeExtract, m_.u32(), {four, k}));
  return words;
}

// So many words, two or four at a time as they are aligned.
lowering::ids lowering::words_at(address from, std::size_t count, std::uint32_t alignment) {
  ids words;
  while (words.size() < count) {
    const std::size_t done = 4 * words.size(), left = count - words.size();
    std::uint32_t together = 1;
    if (alignment >= 8 && done % 8 == 0 && left >= 2) together = 2;
    if (alignment >= 16 && done % 16 == 0 && left >= 4) together = 4;
    const address at = moved(from, done);
    if (together == 1 || options_.lavapipe) {
      words.push_back(load_element(memory_type::i32, at));
      continue;
    }
    const id all = load_raw(m_.vector(m_.u32(), together), at, 4 * together);
    for (std::uint32_t k = 0; k < together; k++)
      words.push_back(m_.emit(Op::OpCompositeExtract, m_.u32(), {all, k}));
  }
  return words;
}

void lowering::if_then(id condition, const auto& body) {
  id inside = m_.fresh(), after = m_.fresh();
  m_.statement(Op::OpSelectionMerge, {after, word(spv::SelectionControlMask::MaskNone)});
  m_.statement(Op::OpBranchConditional, {condition, inside, after});
  m_.open_block(inside);
  body();
  m_.statement(Op::OpBranch, {after});
  m_.open_block(after);
}

void lowering::lower_global(const instruction& in) {
  address pointer = address_of(in.operands[0]);
  auto size = static_cast<std::uint32_t>(byte_size(in.mem));
  using enum opcode;
  switch (in.op) {
    case opcode::load:
      if (in.mem == memory_type::ptr) {
        id base = load_element(in.mem, pointer);
        if (options_.lavapipe && is_uniform_address(in.result)) base = same_address(base);
        return set_address(in.result, {base, 0});
      }
      return set(in, load_element(in.mem, pointer));
    case load_words: {
      const ids words = shares_words() && uniform(in.operands[0])
                            ? share_words(pointer, in.imm)
                            : words_at(pointer, in.imm, divisors_.divisor(in.operands[0]));
      for (unsigned k = 0; k < in.imm; k++) at(in.result + k) = words[k];
      return;
    }
    case load_lanes:
      return set(in, load_element(in.mem, moved_by_lane(pointer, lane_, size)));
    case load_lanes_x4: {
      ids four = load_four(moved_by_lane(pointer, lane_, 16));
      for (unsigned k = 0; k < 4; k++) at(in.result + k) = four[k];
      return;
    }
    case store_lanes:
      return store_element(in.mem, moved_by_lane(pointer, lane_, size), at(in.operands[1]));
    default: {  // store: by the first lane alone where the address is uniform
      bool conditional = in.operands.size() == 3;
      id wanted = conditional ? at(in.operands[2]) : 0;
      if (uniform(in.operands[0]))
        wanted = conditional ? compare(Op::OpLogicalAnd, first_lane_, wanted) : first_lane_;
      auto body = [&] { store_element(in.mem, pointer, at(in.operands[1])); };
      if (wanted != 0)
        if_then(wanted, body);
      else
        body();
    }
  }
}

// ---- shared memory and lanes

id lowering::shared_pointer(id index) {
  return m_.emit(Op::OpAccessChain, m_.pointer(spv::StorageClass::Workgroup, m_.u32()),
                 {shared_, index});
}

id lowering::load_shared(id index) {
  return m_.emit(Op::OpLoad, m_.u32(),
                 {shared_pointer(index), mask(spv::MemoryAccessMask::NonPrivatePointer)});
}

void lowering::store_shared(id index, id value) {
  m_.statement(Op::OpStore,
               {shared_pointer(index), value, mask(spv::MemoryAccessMask::NonPrivatePointer)});
}

void lowering::lower_shared(const instruction& in) {
  using enum opcode;
  id index = at(in.operands[0]);
  if (in.op == shared_load_lanes || in.op == shared_store_lanes)
    index = binary(Op::OpIAdd, index, lane_);
  if (in.op == shared_load || in.op == shared_load_lanes) {
    id value = load_shared(index);
    return set(in, p_.values[in.result].scalar == scalar_type::f32 ? float_of(value) : value);
  }
  id value = at(in.operands[1]);
  if (p_.values[in.operands[1]].scalar == scalar_type::f32) value = bits_of(value);
  auto body = [&] { store_shared(index, value); };
  if (in.op == shared_store && uniform(in.operands[0]))
    if_then(first_lane_, body);
  else
    body();
}

// Everything this workgroup stored, in shared and global memory, is seen by all of it afterwards.
void lowering::group_barrier() {
  using spv::MemorySemanticsMask;
  id group = m_.u32_constant(word(spv::Scope::Workgroup));
  std::uint32_t semantics = 0;
  for (MemorySemanticsMask m :
       {MemorySemanticsMask::AcquireRelease, MemorySemanticsMask::UniformMemory,
        MemorySemanticsMask::WorkgroupMemory, MemorySemanticsMask::MakeAvailable,
        MemorySemanticsMask::MakeVisible})
    semantics |= word(m);
  m_.statement(Op::OpControlBarrier, {group, group, m_.u32_constant(semantics)});
}

id lowering::meet(opcode op, id a, id b) {
  if (op == opcode::lane_tree_add) return float_op(Op::OpFAdd, a, b);
  if (op == opcode::lane_sum) return binary(Op::OpIAdd, a, b);
  return m_.emit(Op::OpExtInst, m_.u32(), {m_.extended_set(), GLSLstd450SMax, a, b});
}

id lowering::exchange(opcode op, id value, std::uint32_t distance) {
  m_.capability(spv::Capability::GroupNonUniform);
  m_.capability(spv::Capability::GroupNonUniformShuffle);
  return m_.emit(Op::OpGroupNonUniformShuffleXor, op == opcode::lane_tree_add ? m_.f32() : m_.u32(),
                 {m_.u32_constant(word(spv::Scope::Subgroup)), value, m_.u32_constant(distance)});
}

// Lane l meets lane l ^ s for s = 16, 8, 4, 2, 1. Addition commutes, so every lane gets the halving
// tree's own bits. Lanes of one subgroup shuffle; further ones meet in shared memory.
void lowering::lower_reduction(const instruction& in) {
  id value = at(in.operands[0]);
  std::uint32_t near = std::min<std::uint32_t>(warp_lanes, options_.subgroup_lanes);
  if (near < warp_lanes) value = meet_in_shared_memory(in.op, value);
  for (std::uint32_t s = near / 2; s > 0; s /= 2)
    value = meet(in.op, value, exchange(in.op, value, s));
  set(in, value);
}

// The steps that cross subgroups. Two scratch areas take turns, so one barrier is enough: whoever
// writes an area again has passed the other's barrier, and with it all reads of this one.
id lowering::meet_in_shared_memory(opcode op, id value) {
  bool is_float = op == opcode::lane_tree_add;
  std::uint32_t area = warp_lanes * static_cast<std::uint32_t>(p_.warps);
  if (turn_ == 0) turn_ = m_.local_variable(m_.u32(), m_.u32_constant(0));
  id turn = m_.emit(Op::OpLoad, m_.u32(), {turn_});
  id base = add_constant(turn, p_.shared_words);
  store_shared(binary(Op::OpIAdd, base, local_index_), is_float ? bits_of(value) : value);
  m_.statement(Op::OpStore, {turn_, binary(Op::OpBitwiseXor, turn, m_.u32_constant(area))});
  group_barrier();
  id mine = binary(Op::OpIAdd, base, binary(Op::OpISub, local_index_, lane_));
  std::uint32_t near = std::max(1u, options_.subgroup_lanes);
  ids parts;
  for (std::uint32_t k = 0; k < warp_lanes; k += near) {
    id other = near == 1 ? m_.u32_constant(k)
                         : m_.once(Op::OpBitwiseXor, m_.u32(), {lane_, m_.u32_constant(k)});
    id part = load_shared(binary(Op::OpIAdd, mine, other));
    parts.push_back(is_float ? float_of(part) : part);
  }
  for (std::size_t s = parts.size() / 2; s > 0; s /= 2)
    for (std::size_t k = 0; k < s; k++) parts[k] = meet(op, parts[k], parts[k + s]);
  return parts[0];
}

// ---- tiles

void lowering::lower_tile(const instruction& in) {
  if (in.op == opcode::tile_zero) {
    bool is_float = p_.values[in.result].scalar == scalar_type::f32;
    for (std::size_t c = 0; c < width(in.result); c++)
      at(in.result, c) = is_float ? m_.f32_constant(0) : m_.u32_constant(0);
    return;
  }
  value_id tile = in.op == opcode::tile_load ? in.result : in.operands[2];
  memory_type mem =
      p_.values[tile].scalar == scalar_type::f32 ? memory_type::f32 : memory_type::i32;
  for (std::size_t c = 0; c < width(tile); c++) {
    address here =
        moved_by_lane(column_address(address_of(in.operands[0]), in.operands[1], c), lane_, 4);
    if (in.op == opcode::tile_load)
      at(tile, c) = load_element(mem, here);
    else
      store_element(mem, here, at(tile, c));
  }
}

void lowering::lower_tile_map(const instruction& in) {
  const region& body = in.regions[0];
  for (std::uint32_t c = 0; c < in.imm; c++) {
    at(body.parameters[0]) = m_.u32_constant(c);
    known_[body.parameters[0]] = c;
    for (std::size_t k = 0; k < in.operands.size(); k++)
      at(body.parameters[k + 1]) = at(in.operands[k], c);
    lower_region(body);
    for (unsigned k = 0; k < in.results; k++) at(in.result + k, c) = at(body.yields[k]);
  }
}

// A lane's value, for all lanes of its subgroup.
id lowering::of_lane(id value, std::uint32_t lane) {
  m_.capability(spv::Capability::GroupNonUniform);
  m_.capability(spv::Capability::GroupNonUniformShuffle);
  const id scope = m_.u32_constant(word(spv::Scope::Subgroup));
  return m_.emit(Op::OpGroupNonUniformShuffle, m_.u32(), {scope, value, m_.u32_constant(lane)});
}

// The words of x that a tile_dot wants: column by column.
lowering::ids lowering::activation_words(const instruction& in, std::size_t words,
                                         std::size_t columns) {
  const std::uint32_t alignment =
      columns < many_columns
          ? std::min(divisors_.divisor(in.operands[1]), divisors_.divisor(in.operands[2]))
          : 4;
  ids all;
  for (std::size_t c = 0; c < columns; c++) {
    address x = column_address(address_of(in.operands[1]), in.operands[2], c);
    const ids column = shares_words() ? share_words(x, words) : words_at(x, words, alignment);
    all.insert(all.end(), column.begin(), column.end());
  }
  if (touched_by_ == &in) {
    touched_by_ = nullptr;
    all[0] = of_lane(touched_, 0);
  }
  return all;
}

void lowering::lower_tile_dot(const instruction& in) {
  std::size_t words = in.operands.size() - 3, columns = width(in.result);
  ids x = activation_words(in, words, columns);
  std::vector<ids> weights;
  if (!options_.integer_dot)
    for (std::size_t k = 0; k < words; k++)
      weights.push_back(bytes_unsigned(at(in.operands[k + 3])));
  for (std::size_t c = 0; c < columns; c++) {
    id sum = at(in.operands[0], c);
    for (std::size_t k = 0; k < words; k++) {
      id with = x[c * words + k];
      sum = options_.integer_dot ? dot(at(in.operands[k + 3]), with, sum, in.imm)
                                 : dot_of_bytes(weights[k], bytes_signed(with), sum);
    }
    at(in.result, c) = sum;
  }
}

// c + sum of u8(a) * s8(b). With at most 7 bits used a byte of a is also a signed one, and the
// plain signed product does, which more hardware has.
id lowering::dot(id a, id b, id c, std::uint32_t bits_of_a) {
  if (!options_.integer_dot) return dot_of_bytes(bytes_unsigned(a), bytes_signed(b), c);
  m_.extension("SPV_KHR_integer_dot_product");
  m_.capability(spv::Capability::DotProduct);
  m_.capability(spv::Capability::DotProductInput4x8BitPacked);
  std::uint32_t packed = word(spv::PackedVectorFormat::PackedVectorFormat4x8Bit);
  id sum = bits_of_a < 8 ? m_.emit(Op::OpSDot, m_.u32(), {a, b, packed})
                         : m_.emit(Op::OpSUDot, m_.u32(), {b, a, packed});
  return binary(Op::OpIAdd, c, sum);
}

lowering::ids lowering::bytes_unsigned(id four) {
  ids bytes = {and_constant(four, 255)};
  for (std::uint32_t k = 1; k < 3; k++)
    bytes.push_back(and_constant(shift_right(four, 8 * k), 255));
  bytes.push_back(shift_right(four, 24));
  return bytes;
}

lowering::ids lowering::bytes_signed(id four) {
  ids bytes;
  for (std::uint32_t k = 0; k < 3; k++)
    bytes.push_back(shift_right_signed(shift_left(four, 24 - 8 * k), 24));
  bytes.push_back(shift_right_signed(four, 24));
  return bytes;
}

id lowering::dot_of_bytes(const ids& a, const ids& b, id c) {
  for (std::size_t k = 0; k < 4; k++) c = binary(Op::OpIAdd, c, binary(Op::OpIMul, a[k], b[k]));
  return c;
}

}  // namespace terrane::kernels::spirv

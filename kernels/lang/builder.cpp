#include "kernels/lang/builder.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>

namespace terrane::kernels {

namespace {

spread join(spread a, spread b) { return std::max(a, b); }

spread join(std::initializer_list<val> operands) {
  spread s = spread::group;
  for (const val& v : operands) s = join(s, v.type().vary);
  return s;
}

bool is_load(opcode op) { return op >= opcode::load && op <= opcode::load_lanes_x4; }

}  // namespace

const value_type& val::type() const { return builder_->type_of(id_); }

builder::builder(std::string name, int warps) {
  program_.name = std::move(name);
  program_.warps = warps;
  open_.push_back(&program_.body);
}

void builder::require(bool condition, const char* what) const {
  if (condition) return;
  std::fprintf(stderr, "kernel program '%s': %s\n", program_.name.c_str(), what);
  std::abort();
}

value_id builder::add_value(value_type type) {
  program_.values.push_back(type);
  return static_cast<value_id>(program_.values.size() - 1);
}

vals builder::emit(opcode op, std::vector<value_id> operands, std::vector<value_type> types,
                   std::uint32_t imm, memory_type mem, std::vector<region> regions) {
  instruction in;
  in.op = op;
  in.mem = mem;
  in.imm = imm;
  in.settled = settled_ && is_load(op);
  in.operands = std::move(operands);
  in.regions = std::move(regions);
  in.results = static_cast<std::uint8_t>(types.size());
  in.result = static_cast<value_id>(program_.values.size());
  vals out;
  for (const value_type& t : types) out.push_back(val(this, add_value(t)));
  // Built-in values stand once, at the start of the program, so that every region may use them.
  if (op <= opcode::lane) {
    for (const instruction& e : program_.body.body) {
      if (e.op == op && e.imm == imm && program_.values[e.result] == types[0]) {
        program_.values.pop_back();
        return {val(this, e.result)};
      }
    }
    open_.front()->body.push_back(std::move(in));
  } else {
    open_.back()->body.push_back(std::move(in));
  }
  return out;
}

val builder::emit_one(opcode op, std::initializer_list<val> operands, value_type type,
                      std::uint32_t imm, memory_type mem) {
  std::vector<value_id> ids;
  for (const val& v : operands) ids.push_back(v.id());
  return emit(op, std::move(ids), {type}, imm, mem)[0];
}

val builder::i32(std::int32_t v) {
  return emit_one(opcode::const_i32, {}, {scalar_type::i32}, static_cast<std::uint32_t>(v));
}

val builder::f32(float v) {
  return emit_one(opcode::const_f32, {}, {scalar_type::f32}, std::bit_cast<std::uint32_t>(v));
}

val builder::argument(int slot, scalar_type type) {
  require(slot >= 0 && slot < max_arguments, "argument slot out of range");
  return emit_one(opcode::argument, {}, {type}, static_cast<std::uint32_t>(slot));
}

val builder::group_x() { return emit_one(opcode::group_x, {}, {scalar_type::i32}); }
val builder::group_y() { return emit_one(opcode::group_y, {}, {scalar_type::i32}); }
val builder::warp() { return emit_one(opcode::warp, {}, {scalar_type::i32, spread::warp}); }
val builder::lane() { return emit_one(opcode::lane, {}, {scalar_type::i32, spread::lane}); }

val builder::unary(opcode op, val a) {
  value_type t = a.type();
  switch (op) {
    case opcode::i2f:
      require(t.scalar == scalar_type::i32, "i2f wants i32");
      t.scalar = scalar_type::f32;
      break;
    case opcode::bits_to_float:
      t.scalar = scalar_type::f32;
      break;
    case opcode::float_to_bits:
      t.scalar = scalar_type::i32;
      break;
    case opcode::h2f:
      t.scalar = scalar_type::f32;
      break;
    case opcode::f2h:
      t.scalar = scalar_type::i32;
      break;
    case opcode::pnot:
      break;
    case opcode::lane_max:
    case opcode::lane_sum:
    case opcode::lane_tree_add:
      t.vary = spread::warp;
      break;
    default:
      require(false, "not a unary operation");
  }
  return emit_one(op, {a}, t);
}

val builder::half_number(val bits) {
  require(bits.type().scalar == scalar_type::i32, "half_number wants i32");
  return emit_one(opcode::h2f, {bits}, {scalar_type::f32, bits.type().vary}, 1);
}

val builder::binary(opcode op, val a, val b) {
  require(a.type().scalar == b.type().scalar, "operands of different types");
  scalar_type s = a.type().scalar;
  switch (op) {
    case opcode::ieq:
    case opcode::ine:
    case opcode::islt:
    case opcode::iult:
    case opcode::flt:
    case opcode::feq:
      s = scalar_type::pred;
      break;
    default:
      break;
  }
  return emit_one(op, {a, b}, {s, join({a, b})});
}

val builder::select(val condition, val a, val b) {
  require(a.type().scalar == b.type().scalar, "select between different types");
  return emit_one(opcode::select, {condition, a, b}, {a.type().scalar, join({condition, a, b})});
}

val builder::fma_exact(val a, val b, val c) {
  return emit_one(opcode::fma_exact, {a, b, c}, {scalar_type::f32, join({a, b, c})});
}

val builder::dot4(val a, val b, val c, int bits_of_a) {
  return emit_one(opcode::dot4, {a, b, c}, {scalar_type::i32, join({a, b, c})},
                  static_cast<std::uint32_t>(bits_of_a));
}

val builder::look_up(const byte_table& table, val codes) {
  std::vector<byte_table>& tables = program_.byte_tables;
  const auto at = std::ranges::find(tables, table) - tables.begin();
  if (static_cast<std::size_t>(at) == tables.size()) tables.push_back(table);
  return emit_one(opcode::look_up, {codes}, {scalar_type::i32, codes.type().vary},
                  static_cast<std::uint32_t>(at));
}

val builder::offset(val pointer, val index, std::uint32_t bytes_per_index) {
  return emit_one(opcode::offset, {pointer, index}, {scalar_type::ptr, join({pointer, index})},
                  bytes_per_index);
}

val builder::offset(val pointer, std::int64_t bytes) {
  require(bytes >= 0 && bytes <= INT32_MAX, "constant offset out of range");
  return bytes == 0 ? pointer : offset(pointer, i32(static_cast<std::int32_t>(bytes)), 1);
}

val builder::load(memory_type mem, val pointer) {
  scalar_type s = mem == memory_type::f32   ? scalar_type::f32
                  : mem == memory_type::ptr ? scalar_type::ptr
                                            : scalar_type::i32;
  return emit_one(opcode::load, {pointer}, {s, pointer.type().vary}, 0, mem);
}

vals builder::load_words(val pointer, int count) {
  std::vector<value_type> types(static_cast<std::size_t>(count),
                                {scalar_type::i32, pointer.type().vary});
  return emit(opcode::load_words, {pointer.id()}, types, static_cast<std::uint32_t>(count));
}

val builder::load_lanes(memory_type mem, val pointer) { return lanes_at(mem, pointer, 0); }
val builder::stream_lanes(memory_type mem, val pointer) { return lanes_at(mem, pointer, ahead_); }

val builder::lanes_at(memory_type mem, val pointer, std::uint32_t imm) {
  scalar_type s = mem == memory_type::f32 ? scalar_type::f32 : scalar_type::i32;
  return emit_one(opcode::load_lanes, {pointer}, {s, spread::lane}, imm, mem);
}

vals builder::settled(const std::function<vals()>& loads) {
  settled_ = true;
  vals loaded = loads();
  settled_ = false;
  return loaded;
}

vals builder::load_lanes_x4(val pointer) { return lanes_x4_at(pointer, 0); }
vals builder::stream_lanes_x4(val pointer) { return lanes_x4_at(pointer, ahead_); }

vals builder::lanes_x4_at(val pointer, std::uint32_t imm) {
  std::vector<value_type> types(4, {scalar_type::i32, spread::lane});
  return emit(opcode::load_lanes_x4, {pointer.id()}, types, imm);
}

void builder::store(memory_type mem, val pointer, val value) {
  emit(opcode::store, {pointer.id(), value.id()}, {}, 0, mem);
}

void builder::store_if(val condition, memory_type mem, val pointer, val value) {
  emit(opcode::store, {pointer.id(), value.id(), condition.id()}, {}, 0, mem);
}

void builder::store_lanes(memory_type mem, val pointer, val value) {
  emit(opcode::store_lanes, {pointer.id(), value.id()}, {}, 0, mem);
}

void builder::prefetch(val pointer, std::uint32_t bytes) {
  emit(opcode::prefetch, {pointer.id()}, {}, bytes);
}

std::uint32_t builder::shared(std::uint32_t words) {
  std::uint32_t first = program_.shared_words;
  program_.shared_words += words;
  return first;
}

val builder::shared_load(scalar_type type, val index) {
  // What a uniform index finds may differ between warps that arrive at different times.
  return emit_one(opcode::shared_load, {index}, {type, join(index.type().vary, spread::warp)});
}

val builder::shared_load_lanes(scalar_type type, val base) {
  return emit_one(opcode::shared_load_lanes, {base}, {type, spread::lane});
}

void builder::shared_store(val index, val value) {
  emit(opcode::shared_store, {index.id(), value.id()}, {});
}

void builder::shared_store_lanes(val base, val value) {
  emit(opcode::shared_store_lanes, {base.id(), value.id()}, {});
}

void builder::barrier() { emit(opcode::barrier, {}, {}); }

val builder::tile_zero(scalar_type type, int columns) {
  return emit_one(opcode::tile_zero, {}, {type, spread::lane, static_cast<std::uint8_t>(columns)});
}

val builder::tile_dot(val acc, val x, val stride, std::span<const val> words, int bits_of_weights) {
  std::vector<value_id> operands = {acc.id(), x.id(), stride.id()};
  for (const val& w : words) operands.push_back(w.id());
  return emit(opcode::tile_dot, std::move(operands), {acc.type()},
              static_cast<std::uint32_t>(bits_of_weights))[0];
}

region builder::build_region(const vals& parameters, const std::function<vals()>& body) {
  region r;
  for (const val& p : parameters) r.parameters.push_back(p.id());
  open_.push_back(&r);
  for (const val& y : body()) r.yields.push_back(y.id());
  open_.pop_back();
  return r;
}

vals builder::tile_map(std::span<const val> tiles, int columns,
                       const std::function<vals(val column, const vals& elements)>& body) {
  vals parameters = {val(this, add_value({scalar_type::i32}))};
  std::vector<value_id> operands;
  for (const val& t : tiles) {
    operands.push_back(t.id());
    parameters.push_back(val(this, add_value({t.type().scalar, spread::lane})));
  }
  region r = build_region(parameters, [&] {
    return body(parameters[0], vals(parameters.begin() + 1, parameters.end()));
  });
  std::vector<value_type> types;
  for (value_id y : r.yields)
    types.push_back({program_.values[y].scalar, spread::lane, static_cast<std::uint8_t>(columns)});
  std::vector<region> regions;
  regions.push_back(std::move(r));
  return emit(opcode::tile_map, std::move(operands), types, static_cast<std::uint32_t>(columns),
              memory_type::i32, std::move(regions));
}

val builder::tile_load(scalar_type type, val pointer, val stride, int columns) {
  return emit_one(opcode::tile_load, {pointer, stride},
                  {type, spread::lane, static_cast<std::uint8_t>(columns)});
}

void builder::tile_store(val pointer, val stride, val tile) {
  emit(opcode::tile_store, {pointer.id(), stride.id(), tile.id()}, {});
}

vals builder::loop(val begin, val end, int step, const vals& carried,
                   const std::function<vals(val i, const vals& carried)>& body) {
  require(step > 0, "a loop's step is positive");
  std::vector<value_id> operands = {begin.id(), end.id()};
  std::vector<value_type> types;
  vals parameters = {val(this, add_value({scalar_type::i32, join({begin, end})}))};
  for (const val& c : carried) {
    operands.push_back(c.id());
    types.push_back(c.type());
    parameters.push_back(val(this, add_value(c.type())));
  }
  std::vector<region> regions;
  regions.push_back(build_region(parameters, [&] {
    return body(parameters[0], vals(parameters.begin() + 1, parameters.end()));
  }));
  return emit(opcode::loop, std::move(operands), types, static_cast<std::uint32_t>(step),
              memory_type::i32, std::move(regions));
}

void builder::loop(val begin, val end, int step, const std::function<void(val i)>& body) {
  loop(begin, end, step, {}, [&](val i, const vals&) {
    body(i);
    return vals{};
  });
}

vals builder::branch(val condition, const std::function<vals()>& then,
                     const std::function<vals()>& otherwise) {
  std::vector<region> regions;
  regions.push_back(build_region({}, then));
  regions.push_back(build_region({}, otherwise));
  std::vector<value_type> types;
  require(regions[0].yields.size() == regions[1].yields.size(),
          "a branch's sides yield differently");
  for (std::size_t k = 0; k < regions[0].yields.size(); k++) {
    value_type a = program_.values[regions[0].yields[k]];
    const value_type& b = program_.values[regions[1].yields[k]];
    a.vary = join(join(a.vary, b.vary), condition.type().vary);
    types.push_back(a);
  }
  return emit(opcode::branch, {condition.id()}, types, 0, memory_type::i32, std::move(regions));
}

void builder::branch(val condition, const std::function<void()>& then) {
  branch(
      condition,
      [&] {
        then();
        return vals{};
      },
      [] { return vals{}; });
}

val builder::spread_to_lanes(val uniform) {
  // A select on a lane predicate with equal sides is the identity with a lane's type.
  return select(eq(lane(), lane()), uniform, uniform);
}

program builder::finish() {
  require(open_.size() == 1, "finish() inside a region");
  result<void> ok = verify(program_);
  if (!ok) require(false, ok.error().message.c_str());
  return std::move(program_);
}

namespace {
val by_type(val a, val b, opcode integer, opcode floating) {
  return a.owner().binary(a.type().scalar == scalar_type::f32 ? floating : integer, a, b);
}
}  // namespace

val operator+(val a, val b) { return by_type(a, b, opcode::iadd, opcode::fadd); }
val operator-(val a, val b) { return by_type(a, b, opcode::isub, opcode::fsub); }
val operator*(val a, val b) { return by_type(a, b, opcode::imul, opcode::fmul); }
val operator&(val a, val b) { return a.owner().binary(opcode::iand, a, b); }
val operator|(val a, val b) { return a.owner().binary(opcode::ior, a, b); }
val operator^(val a, val b) { return a.owner().binary(opcode::ixor, a, b); }
val operator<<(val a, int bits) { return a.owner().binary(opcode::ishl, a, a.owner().i32(bits)); }
val lshr(val a, int bits) { return a.owner().binary(opcode::ilshr, a, a.owner().i32(bits)); }
val ashr(val a, int bits) { return a.owner().binary(opcode::iashr, a, a.owner().i32(bits)); }
val eq(val a, val b) { return by_type(a, b, opcode::ieq, opcode::feq); }
val ne(val a, val b) { return a.owner().binary(opcode::ine, a, b); }
val lt(val a, val b) { return by_type(a, b, opcode::islt, opcode::flt); }
val ult(val a, val b) { return a.owner().binary(opcode::iult, a, b); }
val umin(val a, val b) { return a.owner().select(ult(a, b), a, b); }
val smin(val a, val b) { return a.owner().binary(opcode::ismin, a, b); }
val smax(val a, val b) { return a.owner().binary(opcode::ismax, a, b); }
val both(val a, val b) { return a.owner().binary(opcode::pand, a, b); }
val either(val a, val b) { return a.owner().binary(opcode::por, a, b); }
val negate(val pred) { return pred.owner().unary(opcode::pnot, pred); }

}  // namespace terrane::kernels

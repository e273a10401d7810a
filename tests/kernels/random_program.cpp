#include "tests/kernels/random_program.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "kernels/interp/interpreter.hpp"
#include "kernels/lang/builder.hpp"

namespace terrane::kernels {

std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::uint32_t edge_word(std::uint64_t& state) {
  static constexpr std::uint32_t edges[] = {
      0u,          1u,          0xffffffffu, 0x80000000u, 0x7fffffffu, 0x7f800000u, 0xff800000u,
      0x7fc00000u, 0x7f800001u, 0xffc12345u, 0x00000007u, 0x807fffffu, 0x00800000u, 0x3f800000u,
      0xbf800000u, 0x7f7fffffu, 0x477fe000u, 0x477ff000u, 0x47800000u, 0x38800000u, 0x387fe000u,
      0x33000000u, 0x33000001u, 0x32ffffffu, 0x3f801000u, 0x3f803000u, 0x7c017dffu, 0x03ff0001u,
      0x80808080u, 0x7f7f7f7fu, 0x80ff7f01u};
  std::uint64_t r = next_random(state);
  auto low = static_cast<std::uint32_t>(r);
  switch ((r >> 32) % 6) {
    case 0:
      return edges[low % std::size(edges)];
    case 1:
      return low % 64 - 32;
    case 2:  // a float of moderate size
      return (low & 0x807fffffu) | ((120 + (low >> 8) % 16) << 23);
    case 3:  // a float that f16 rounds, ties included
      return (low & 0x807ff000u) | ((100 + (low >> 8) % 32) << 23);
    default:
      return low;
  }
}

std::array<std::uint64_t, 5> random_case::arguments(std::uint64_t input_address,
                                                    std::uint64_t output_address,
                                                    std::uint64_t table_address) const {
  return {input_address, output_address, table_address, static_cast<std::uint32_t>(number),
          std::bit_cast<std::uint32_t>(real)};
}

std::vector<std::byte> interpreted_output(const random_case& c) {
  std::vector<std::byte> output(c.output_bytes, output_fill);
  auto address = [](const void* p) { return reinterpret_cast<std::uint64_t>(p); };
  std::uint64_t table = address(c.input.data());
  auto arguments = c.arguments(address(c.input.data()), address(output.data()), address(&table));
  interpret(c.code, arguments, c.groups_x, c.groups_y);
  return output;
}

namespace {

constexpr std::uint32_t input_bytes = 4096;   // where indices point
constexpr std::uint32_t input_margin = 4096;  // read past it by vectors and tiles
constexpr std::uint32_t slice_bytes = 8192;   // of output, for each warp
constexpr std::uint32_t most_exchanges = 6;   // through shared memory, each with its own words

class generator {
 public:
  generator(std::uint64_t seed, const random_options& options)
      : options_(options), state_(seed), warps_(pick_warps()), b_("random", warps_) {}

  random_case make();

 private:
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>(next_random(state_) >> 33) % n;
  }
  bool chance(std::uint32_t percent) { return below(100) < percent; }
  int pick_warps() {
    static constexpr int choices[] = {1, 1, 2, 3, 4, 8};
    return std::min(choices[below(6)], options_.max_warps);
  }

  // Values in scope
  void offer(val v) { (v.type().is_tile() ? tiles_ : pool_).push_back(v); }
  val pick(scalar_type s, spread most = spread::lane);
  val constant(scalar_type s);
  val clean(val f32);
  template <class Body>
  auto in_scope(Body body);

  // One random step each
  void step(int depth);
  void integer();
  void floating();
  void predicate();
  void conversion();
  void select();
  void look_up();
  void dot();
  void fused();
  void load();
  void load_vector();
  void store();
  void reduce();
  void exchange();
  void own_word();
  void tile();
  void tile_product();
  void tile_function();
  void loop(int depth);
  void branch(int depth);
  void block(int depth, int length);

  val input_pointer(std::uint32_t unit, spread most);
  val output(std::uint32_t bytes);
  memory_type pick_memory();
  void store_tile(val tile);
  val matching(const val& like);
  scalar_type pick_number() { return chance(50) ? scalar_type::i32 : scalar_type::f32; }

  random_options options_;
  std::uint64_t state_;
  int warps_;
  builder b_;
  vals pool_, tiles_;
  val input_, slice_;
  std::uint32_t written_ = 0;  // bytes of the slice
  std::uint32_t exchanges_ = 0;
  bool together_ = true;  // control is the same for all warps
  bool in_tile_ = false;
  int left_ = 0;
};

template <class Body>
auto generator::in_scope(Body body) {
  std::size_t values = pool_.size(), tiles = tiles_.size();
  auto result = body();
  pool_.resize(values);
  tiles_.resize(tiles);
  return result;
}

val generator::constant(scalar_type s) {
  switch (s) {
    case scalar_type::i32:
      return b_.u32(edge_word(state_));
    case scalar_type::f32: {
      float v = std::bit_cast<float>(edge_word(state_));
      return b_.f32(v == v && std::abs(v) > 1e-30f && std::abs(v) < 1e30f ? v : 1.5f);
    }
    default:
      return lt(b_.i32(static_cast<int>(below(2))), b_.i32(1));
  }
}

// A value in scope, recent ones more often, that is no more spread than `most`.
val generator::pick(scalar_type s, spread most) {
  vals fit;
  for (const val& v : pool_)
    if (v.type().scalar == s && v.type().vary <= most) fit.push_back(v);
  if (fit.empty() || chance(10)) return constant(s);
  std::size_t recent = std::min<std::size_t>(fit.size(), 6);
  return chance(60) ? fit[fit.size() - 1 - below(static_cast<std::uint32_t>(recent))]
                    : fit[below(static_cast<std::uint32_t>(fit.size()))];
}

// Replaces what the options or the language leave open.
val generator::clean(val f) {
  val bits = b_.unary(opcode::float_to_bits, f);
  val magnitude = bits & b_.u32(0x7fffffffu);
  if (options_.infinities)
    bits = b_.select(ult(b_.u32(0x7f800000u), magnitude), b_.u32(0x7fc00000u), bits);
  else
    bits = b_.select(ult(magnitude, b_.u32(0x7f800000u)), bits, b_.u32(0x3f800000u));
  if (!options_.denormals) bits = b_.select(ult(magnitude, b_.u32(0x00800000u)), b_.u32(0), bits);
  return b_.unary(opcode::bits_to_float, bits);
}

// ---- arithmetic

void generator::integer() {
  static constexpr opcode plain[] = {opcode::iadd, opcode::isub, opcode::imul,  opcode::iand,
                                     opcode::ior,  opcode::ixor, opcode::ismin, opcode::ismax};
  static constexpr opcode shifts[] = {opcode::ishl, opcode::ilshr, opcode::iashr};
  val a = pick(scalar_type::i32), c = pick(scalar_type::i32);
  switch (below(4)) {
    case 0:
      return offer(b_.binary(shifts[below(3)], a, c & b_.i32(31)));
    case 1:
      if (chance(50))
        return offer(b_.binary(chance(50) ? opcode::iudiv : opcode::iurem, a, c | b_.i32(1)));
      [[fallthrough]];
    default:
      return offer(b_.binary(plain[below(std::size(plain))], a, c));
  }
}

void generator::floating() {
  static constexpr opcode operations[] = {opcode::fadd, opcode::fsub, opcode::fmul};
  val a = pick(scalar_type::f32), c = pick(scalar_type::f32);
  offer(clean(b_.binary(operations[below(3)], a, c)));
}

void generator::predicate() {
  static constexpr opcode integers[] = {opcode::ieq, opcode::ine, opcode::islt, opcode::iult};
  switch (below(4)) {
    case 0:
      return offer(b_.binary(integers[below(4)], pick(scalar_type::i32), pick(scalar_type::i32)));
    case 1:
      return offer(b_.binary(chance(50) ? opcode::flt : opcode::feq, pick(scalar_type::f32),
                             pick(scalar_type::f32)));
    case 2:
      return offer(negate(pick(scalar_type::pred)));
    default:
      return offer(b_.binary(chance(50) ? opcode::pand : opcode::por, pick(scalar_type::pred),
                             pick(scalar_type::pred)));
  }
}

void generator::conversion() {
  switch (below(5)) {
    case 0:
      return offer(b_.unary(opcode::i2f, pick(scalar_type::i32)));
    case 1:
      return offer(clean(b_.unary(opcode::bits_to_float, pick(scalar_type::i32))));
    case 2:
      return offer(b_.unary(opcode::float_to_bits, pick(scalar_type::f32)));
    case 3:
      return offer(clean(chance(50) ? b_.unary(opcode::h2f, pick(scalar_type::i32))
                                    : b_.half_number(pick(scalar_type::i32))));
    default:
      return offer(b_.unary(opcode::f2h, pick(scalar_type::f32)));
  }
}

void generator::select() {
  scalar_type s = chance(20) ? scalar_type::pred : pick_number();
  offer(b_.select(pick(scalar_type::pred), pick(s), pick(s)));
}

void generator::look_up() {
  byte_table table;
  for (std::uint8_t& byte : table) byte = static_cast<std::uint8_t>(below(256));
  offer(b_.look_up(table, pick(scalar_type::i32)));
}

void generator::dot() {
  if (chance(30)) return look_up();
  int bits = 1 + static_cast<int>(below(8));
  val mask = b_.u32(((1u << bits) - 1u) * 0x01010101u);
  offer(
      b_.dot4(pick(scalar_type::i32) & mask, pick(scalar_type::i32), pick(scalar_type::i32), bits));
}

void generator::fused() {
  // Finite f16 values and small integers: any product of two is exact.
  auto factor = [&] {
    val v = pick(scalar_type::i32);
    return chance(50) ? b_.unary(opcode::h2f, v & b_.u32(0xbbffu))
                      : b_.unary(opcode::i2f, (v & b_.i32(2047)) - b_.i32(1024));
  };
  val a = factor(), c = factor();
  offer(clean(b_.fma_exact(a, c, pick(scalar_type::f32))));
}

void generator::reduce() {
  if (!together_ || in_tile_) return integer();
  if (chance(34)) return offer(clean(b_.unary(opcode::lane_tree_add, pick(scalar_type::f32))));
  offer(b_.unary(chance(50) ? opcode::lane_max : opcode::lane_sum, pick(scalar_type::i32)));
}

// ---- memory

memory_type generator::pick_memory() {
  if (!options_.narrow_memory) return chance(50) ? memory_type::i32 : memory_type::f32;
  return static_cast<memory_type>(below(6));
}

// Somewhere in the input, at a multiple of `unit` bytes.
val generator::input_pointer(std::uint32_t unit, spread most) {
  val base = input_;
  if (chance(15)) base = b_.load(memory_type::ptr, b_.argument_ptr(2));
  val index = pick(scalar_type::i32, most) & b_.u32(input_bytes / unit - 1);
  return b_.offset(base, index, unit);
}

void generator::load() {
  memory_type mem = pick_memory();
  if (chance(25)) {
    int count = 2 + static_cast<int>(below(7));
    for (const val& v : b_.load_words(input_pointer(4, spread::lane), count)) offer(v);
    return;
  }
  auto size = static_cast<std::uint32_t>(byte_size(mem));
  val v = b_.load(mem, input_pointer(size, spread::lane));
  offer(mem == memory_type::f32 ? clean(v) : v);
}

void generator::load_vector() {
  if (chance(40)) {
    const val from = input_pointer(16, spread::warp);
    for (const val& v : chance(50) ? b_.stream_lanes_x4(from) : b_.load_lanes_x4(from)) offer(v);
    return;
  }
  memory_type mem = pick_memory();
  auto size = static_cast<std::uint32_t>(byte_size(mem));
  const val from = input_pointer(size, spread::warp);
  val v = chance(50) ? b_.stream_lanes(mem, from) : b_.load_lanes(mem, from);
  offer(mem == memory_type::f32 ? clean(v) : v);
}

// The next bytes of this warp's slice, 16-byte aligned; call only if they are there.
val generator::output(std::uint32_t bytes) {
  val p = b_.offset(slice_, static_cast<std::int64_t>(written_));
  written_ += (bytes + 15) / 16 * 16;
  return p;
}

void generator::store() {
  if (written_ + 256 > slice_bytes) return;
  memory_type mem = pick_memory();
  scalar_type s = mem == memory_type::f32 ? scalar_type::f32 : scalar_type::i32;
  auto size = static_cast<std::uint32_t>(byte_size(mem));
  std::uint32_t kind = below(options_.scattered_stores ? 4 : 2);
  if (kind == 0) return b_.store_lanes(mem, output(32 * size), pick(s));
  if (kind == 1) {
    val v = pick(s, spread::warp), p = output(size);
    return chance(50) ? b_.store(mem, p, v)
                      : b_.store_if(pick(scalar_type::pred, spread::warp), mem, p, v);
  }
  // Each lane at a place of its own, in another order.
  val place = b_.lane() ^ b_.i32(static_cast<int>(below(32)));
  val p = b_.offset(output(32 * size), place, size);
  return kind == 2 ? b_.store(mem, p, pick(s))
                   : b_.store_if(pick(scalar_type::pred), mem, p, pick(s));
}

// What one warp writes to shared memory another reads.
void generator::exchange() {
  if (!together_ || in_tile_ || exchanges_ == most_exchanges) return integer();
  exchanges_++;
  std::uint32_t base = b_.shared(static_cast<std::uint32_t>(warps_) * warp_lanes);
  scalar_type s = pick_number();
  val mine = b_.u32(base) + b_.warp() * b_.i32(warp_lanes);
  val other = (b_.warp() + b_.i32(1 + static_cast<int>(below(3))));
  other = b_.u32(base) + b_.binary(opcode::iurem, other, b_.i32(warps_)) * b_.i32(warp_lanes);
  b_.barrier();  // in a loop the words were read before
  val v = pick(s);
  if (chance(50))
    b_.shared_store_lanes(mine, v);
  else
    b_.shared_store(mine + (b_.lane() ^ b_.i32(5)), v);
  b_.barrier();
  switch (below(3)) {
    case 0:
      return offer(b_.shared_load_lanes(s, other));
    case 1:
      return offer(b_.shared_load(s, other + (pick(scalar_type::i32) & b_.i32(31))));
    default:
      return offer(b_.shared_load(s, other + (pick(scalar_type::i32, spread::warp) & b_.i32(31))));
  }
}

// A word of shared memory that only one lane uses.
void generator::own_word() {
  if (in_tile_ || exchanges_ == most_exchanges) return integer();
  exchanges_++;
  std::uint32_t base = b_.shared(static_cast<std::uint32_t>(warps_) * warp_lanes);
  val at = b_.u32(base) + b_.warp() * b_.i32(warp_lanes) + b_.lane();
  scalar_type s = pick_number();
  b_.shared_store(at, pick(s));
  offer(b_.shared_load(s, at));
}

// ---- tiles

void generator::store_tile(val t) {
  std::uint32_t bytes = 128u * t.type().columns;
  if (written_ + bytes > slice_bytes) return;
  b_.tile_store(output(bytes), b_.i32(128), t);
}

void generator::tile_product() {
  int bits = 1 + static_cast<int>(below(8));
  int columns = 1 + static_cast<int>(below(8));
  val acc = b_.tile_zero(scalar_type::i32, columns);
  for (const val& t : tiles_)
    if (t.type().scalar == scalar_type::i32 && chance(40)) acc = t;
  val mask = b_.u32(((1u << bits) - 1u) * 0x01010101u);
  vals words;
  for (std::uint32_t k = 1 + below(5); k > 0; k--) words.push_back(pick(scalar_type::i32) & mask);
  val stride = chance(50) ? b_.i32(4 * static_cast<int>(below(40)))
                          : (pick(scalar_type::i32, spread::warp) & b_.i32(31)) << 2;
  offer(b_.tile_dot(acc, input_pointer(4, spread::warp), stride, words, bits));
}

void generator::tile_function() {
  if (tiles_.empty()) return tile_product();
  vals in = {tiles_[below(static_cast<std::uint32_t>(tiles_.size()))]};
  int columns = in[0].type().columns;
  for (const val& t : tiles_)
    if (t.type().columns == columns && in.size() < 3 && chance(40)) in.push_back(t);
  bool before = in_tile_;
  in_tile_ = true;
  vals made = b_.tile_map(in, columns, [&](val column, const vals& elements) {
    return in_scope([&] {
      offer(column);
      for (const val& e : elements) offer(e.type().scalar == scalar_type::f32 ? clean(e) : e);
      block(2, 1 + static_cast<int>(below(4)));
      vals out = {pick(pick_number())};
      if (chance(40)) out.push_back(pick(pick_number()));
      return out;
    });
  });
  in_tile_ = before;
  for (const val& t : made) offer(t);
}

void generator::tile() {
  if (in_tile_) return dot();
  switch (below(5)) {
    case 0: {
      int columns = 1 + static_cast<int>(below(8));
      return offer(b_.tile_load(pick_number(), input_pointer(4, spread::warp),
                                b_.i32(4 * static_cast<int>(below(64))), columns));
    }
    case 1:
      if (!tiles_.empty()) store_tile(tiles_[below(static_cast<std::uint32_t>(tiles_.size()))]);
      return;
    case 2:
      return tile_function();
    default:
      return tile_product();
  }
}

// ---- control

// A value of the same type, no more spread, that may stand for `like` after a turn of a loop.
val generator::matching(const val& like) {
  const value_type& t = like.type();
  if (!t.is_tile()) return pick(t.scalar, t.vary);
  for (const val& v : tiles_)
    if (v.type() == t && chance(50)) return v;
  return like;
}

void generator::loop(int depth) {
  bool same = chance(70), before = together_;
  val end =
      same ? b_.i32(static_cast<int>(below(5))) : pick(scalar_type::i32, spread::warp) & b_.i32(3);
  together_ = together_ && end.type().vary == spread::group;
  vals carried;
  for (std::uint32_t k = below(4); k > 0; k--) {
    val v = pick(chance(15) ? scalar_type::pred : pick_number());
    if (!tiles_.empty() && chance(30)) v = tiles_[below(static_cast<std::uint32_t>(tiles_.size()))];
    carried.push_back(!v.type().is_tile() && chance(40) ? b_.spread_to_lanes(v) : v);
  }
  int first = static_cast<int>(below(3)) - 1, by = 1 + static_cast<int>(below(2));
  vals last = b_.loop(b_.i32(first), end, by, carried, [&](val i, const vals& now) {
    return in_scope([&] {
      offer(i);
      for (const val& v : now) offer(v);
      block(depth + 1, 3 + static_cast<int>(below(8)));
      vals next;
      for (const val& v : now) next.push_back(matching(v));
      return next;
    });
  });
  together_ = before;
  for (const val& v : last) offer(v);
}

void generator::branch(int depth) {
  bool before = together_;
  val condition = pick(scalar_type::pred, chance(60) ? spread::group : spread::warp);
  together_ = together_ && condition.type().vary == spread::group;
  std::vector<scalar_type> types;
  for (std::uint32_t k = below(3); k > 0; k--) types.push_back(pick_number());
  auto side = [&] {
    return in_scope([&] {
      block(depth + 1, 2 + static_cast<int>(below(6)));
      vals out;
      for (scalar_type s : types) out.push_back(pick(s));
      return out;
    });
  };
  vals made = b_.branch(condition, side, side);
  together_ = before;
  for (const val& v : made) offer(v);
}

void generator::step(int depth) {
  std::uint32_t kind = below(100);
  if (kind < 18) return integer();
  if (kind < 34) return floating();
  if (kind < 41) return predicate();
  if (kind < 50) return conversion();
  if (kind < 55) return select();
  if (kind < 59) return dot();
  if (kind < 62) return fused();
  if (kind < 67) return load();
  if (kind < 71) return load_vector();
  if (kind < 76) return reduce();
  if (kind < 81) return exchange();
  if (kind < 83) return own_word();
  if (kind < 89) return tile();
  if (kind < 93) return store();
  if (depth >= 3) return floating();
  return chance(60) ? loop(depth) : branch(depth);
}

void generator::block(int depth, int length) {
  for (int k = 0; k < length && left_ > 0; k++) {
    left_--;
    step(depth);
  }
}

random_case generator::make() {
  random_case c;
  c.groups_x = 1 + below(3);
  c.groups_y = 1 + below(2);
  input_ = b_.argument_ptr(0);
  val group = b_.group_x() + b_.group_y() * b_.u32(c.groups_x);
  slice_ = b_.offset(b_.argument_ptr(1), group * b_.i32(warps_) + b_.warp(), slice_bytes);
  for (const val& v : {b_.argument_i32(3), b_.group_x(), b_.group_y(), b_.warp(), b_.lane()})
    offer(v);
  offer(clean(b_.argument_f32(4)));
  for (int k = 0; k < 2; k++) load_vector();
  left_ = options_.instructions;
  while (left_ > 0) block(0, left_);
  // What is left in scope shows what the steps computed.
  std::size_t shown = std::min<std::size_t>(pool_.size(), 24);
  for (std::size_t k = pool_.size() - shown; k < pool_.size() && written_ + 128 <= slice_bytes;
       k++) {
    scalar_type s = pool_[k].type().scalar;
    val v = s == scalar_type::pred ? b_.select(pool_[k], b_.i32(1), b_.i32(0)) : pool_[k];
    b_.store_lanes(s == scalar_type::f32 ? memory_type::f32 : memory_type::i32, output(128), v);
  }
  for (const val& t : tiles_) store_tile(t);
  c.code = b_.finish();
  c.output_bytes =
      std::size_t{c.groups_x} * c.groups_y * static_cast<std::size_t>(warps_) * slice_bytes;
  c.input.resize(input_bytes + input_margin);
  for (std::size_t at = 0; at < c.input.size(); at += 4) {
    std::uint32_t w = edge_word(state_);
    std::memcpy(c.input.data() + at, &w, 4);
  }
  c.number = static_cast<std::int32_t>(edge_word(state_));
  c.real = std::bit_cast<float>(edge_word(state_));
  return c;
}

}  // namespace

random_case make_random_case(std::uint64_t seed, const random_options& options) {
  return generator(seed, options).make();
}

}  // namespace terrane::kernels

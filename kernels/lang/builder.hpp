// Builds kernel programs in C++ that reads like the kernel itself.
//
//   builder b("scale", 1);
//   val x = b.argument_ptr(0);
//   b.store_lanes(memory_type::f32, x, b.load_lanes(memory_type::f32, x) * b.f32(2.0f));
//   program p = b.finish();
//
// A `val` is a handle on a value of the program being built; operators build instructions. Wrong
// types are programmer errors and abort with the program's name. Not thread safe; finish() once.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "kernels/lang/program.hpp"

namespace terrane::kernels {

class builder;

// A value of the program under construction.
class val {
 public:
  val() = default;
  value_id id() const { return id_; }
  const value_type& type() const;
  bool is_uniform() const { return type().vary != spread::lane; }
  builder& owner() const { return *builder_; }

 private:
  friend class builder;
  val(builder* b, value_id id) : builder_(b), id_(id) {}
  builder* builder_ = nullptr;
  value_id id_ = 0;
};

using vals = std::vector<val>;

class builder {
 public:
  explicit builder(std::string name, int warps = 1);

  // Built-in values
  val i32(std::int32_t v);
  val u32(std::uint32_t v) { return i32(static_cast<std::int32_t>(v)); }
  val f32(float v);
  val argument(int slot, scalar_type type);
  val argument_ptr(int slot) { return argument(slot, scalar_type::ptr); }
  val argument_i32(int slot) { return argument(slot, scalar_type::i32); }
  val argument_f32(int slot) { return argument(slot, scalar_type::f32); }
  val group_x();
  val group_y();
  val warp();
  val lane();
  int warps() const { return program_.warps; }

  // Arithmetic without an operator
  val unary(opcode op, val a);
  // As unary(h2f), where the bits of a NaN are of no interest: fewer instructions on most targets.
  val half_number(val bits);
  val binary(opcode op, val a, val b);
  val select(val condition, val a, val b);
  val fma_exact(val a, val b, val c);
  val dot4(val a, val b, val c, int bits_of_a);
  val look_up(const byte_table& table, val codes);

  // Global memory
  val offset(val pointer, val index, std::uint32_t bytes_per_index);
  val offset(val pointer, std::int64_t bytes);  // a constant, not negative
  val load(memory_type mem, val pointer);
  vals load_words(val pointer, int count);
  val load_lanes(memory_type mem, val pointer);
  vals load_lanes_x4(val pointer);
  // What `loads` loads is written by nobody while the program waits to be run (weights; tables that
  // change between steps alone): see instruction::settled.
  vals settled(const std::function<vals()>& loads);
  val settled(const std::function<val()>& load) {
    return settled([&] { return vals{load()}; })[0];
  }
  // As load_lanes, of memory that is read through once from low to high addresses (weights): a
  // target may fetch what lies `fetch_ahead` bytes further on, 16 KiB unless said otherwise; 0:
  // nothing.
  void fetch_ahead(std::uint32_t bytes) { ahead_ = bytes; }
  val stream_lanes(memory_type mem, val pointer);
  vals stream_lanes_x4(val pointer);
  void store(memory_type mem, val pointer, val value);
  void store_if(val condition, memory_type mem, val pointer, val value);
  void store_lanes(memory_type mem, val pointer, val value);
  void prefetch(val pointer, std::uint32_t bytes);

  // Shared memory. Returns the index of the first of `words` words.
  std::uint32_t shared(std::uint32_t words);
  val shared_load(scalar_type type, val index);
  val shared_load_lanes(scalar_type type, val base);
  void shared_store(val index, val value);
  void shared_store_lanes(val base, val value);
  void barrier();

  // Tiles
  val tile_zero(scalar_type type, int columns);
  val tile_dot(val acc, val x, val stride, std::span<const val> words, int bits_of_weights);
  // body(column, elements) returns the elements of the result tiles, all i32 or f32.
  vals tile_map(std::span<const val> tiles, int columns,
                const std::function<vals(val column, const vals& elements)>& body);
  val tile_load(scalar_type type, val pointer, val stride, int columns);
  void tile_store(val pointer, val stride, val tile);

  // Control. The carried values keep their types; a carried value that starts uniform and becomes
  // a lane value must start as one (use `spread_to_lanes`).
  vals loop(val begin, val end, int step, const vals& carried,
            const std::function<vals(val i, const vals& carried)>& body);
  void loop(val begin, val end, int step, const std::function<void(val i)>& body);
  vals branch(val condition, const std::function<vals()>& then,
              const std::function<vals()>& otherwise);
  void branch(val condition, const std::function<void()>& then);
  val spread_to_lanes(val uniform);  // the same value, typed as a lane value

  const value_type& type_of(value_id id) const { return program_.values[id]; }
  // Verifies (aborting on a programmer's error) and gives the program away.
  program finish();

 private:
  value_id add_value(value_type type);
  vals emit(opcode op, std::vector<value_id> operands, std::vector<value_type> types,
            std::uint32_t imm = 0, memory_type mem = memory_type::i32,
            std::vector<region> regions = {});
  val emit_one(opcode op, std::initializer_list<val> operands, value_type type,
               std::uint32_t imm = 0, memory_type mem = memory_type::i32);
  val lanes_at(memory_type mem, val pointer, std::uint32_t imm);
  vals lanes_x4_at(val pointer, std::uint32_t imm);
  void require(bool condition, const char* what) const;
  region build_region(const vals& parameters, const std::function<vals()>& body);

  program program_;
  std::uint32_t ahead_ = usual_fetch_ahead;
  bool settled_ = false;
  std::vector<region*> open_;  // innermost last
};

// i32 or f32 by the operands' type
val operator+(val a, val b);
val operator-(val a, val b);
val operator*(val a, val b);
// i32
val operator&(val a, val b);
val operator|(val a, val b);
val operator^(val a, val b);
val operator<<(val a, int bits);
val lshr(val a, int bits);
val ashr(val a, int bits);
val eq(val a, val b);
val ne(val a, val b);
val lt(val a, val b);  // signed, or ordered f32
val ult(val a, val b);
val umin(val a, val b);
val smin(val a, val b);
val smax(val a, val b);
val both(val a, val b);
val either(val a, val b);
val negate(val pred);

}  // namespace terrane::kernels

// The walk over a program that writes its SPIR-V: one method per group of instructions. Split over
// lowering.cpp (control and scalars), lowering_memory.cpp (memory, lanes, tiles),
// lowering_early_loads.cpp (weights before what is computed with them) and lowering_lavapipe.cpp
// (what Mesa's software device wants).
//
// How values are held: a pred is a bool, an i32 an unsigned 32-bit integer, an f32 a float, a ptr
// an unsigned 64-bit integer (or two parts, see `address`); a tile is one such value a column. A
// uniform value is computed by every invocation alike.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "kernels/lang/known_values.hpp"
#include "kernels/spirv/emit_spirv.hpp"
#include "kernels/spirv/module.hpp"

namespace terrane::kernels::spirv {

// True if another invocation of the workgroup may read global memory that the program wrote: such
// accesses take part in the memory model's synchronisation, others stay free of it.
bool reads_what_it_wrote(const program& p);

// Tiles of so many columns need the registers themselves: loads are neither early nor by fours,
// with which prompts are read slower (tests/bench/README.md, Vulkan).
inline constexpr std::size_t many_columns = 8;

class lowering {
 public:
  lowering(const program& p, const spirv_options& options);
  std::vector<std::uint32_t> run();

 private:
  using ids = std::vector<id>;
  // base + (distance << shift) bytes. Distances other than 0 (no distance) are used where options
  // say that they are short; a ptr is then held as base and distance.
  struct address {
    id base = 0;
    id distance = 0;
    std::uint32_t shift = 0;
  };

  // Values
  id& at(value_id v, std::size_t column = 0) { return held_[first_[v] + column]; }
  std::size_t width(value_id v) const { return p_.values[v].is_tile() ? p_.values[v].columns : 1; }
  std::size_t slots(value_id v) const;
  id slot_type(value_id v, std::size_t slot);
  id type_of(scalar_type s);
  bool uniform(value_id v) const { return p_.values[v].vary != spread::lane; }
  bool is_uniform_address(value_id v) const {
    return p_.values[v].scalar == scalar_type::ptr && uniform(v);
  }
  void set(const instruction& in, id value) { at(in.result) = value; }

  // lowering.cpp
  void declare_interface();
  void lower_region(const region& r);
  void lower(const instruction& in);
  void lower_builtin(const instruction& in);
  bool is_pred(value_id v) const { return p_.values[v].scalar == scalar_type::pred; }
  id as_carried(value_id v, std::size_t slot);
  id from_carried(value_id v, id carried);
  bool has_no_turn(const instruction& in) const;
  void lower_loop(const instruction& in);
  id next_turn(const instruction& in, id i);
  void lower_branch(const instruction& in);
  bool fold(const instruction& in);
  void lower_arithmetic(const instruction& in);
  void lower_conversion(const instruction& in);
  id binary(spv::Op op, id a, id b) { return m_.emit(op, m_.u32(), {a, b}); }
  id float_op(spv::Op op, id a, id b);
  id compare(spv::Op op, id a, id b) { return m_.emit(op, m_.boolean(), {a, b}); }
  id choose(id condition, id a, id b, id type);
  id shift(spv::Op op, value_id a, value_id amount);
  id add_constant(id a, std::uint32_t c) { return binary(spv::Op::OpIAdd, a, m_.u32_constant(c)); }
  id and_constant(id a, std::uint32_t c) {
    return binary(spv::Op::OpBitwiseAnd, a, m_.u32_constant(c));
  }
  id shift_left(id a, std::uint32_t bits);
  id shift_right(id a, std::uint32_t bits);         // zeros come in
  id shift_right_signed(id a, std::uint32_t bits);  // the sign comes in
  id smallest(id a, id b);                          // unsigned
  id to_float(id a);
  id bits_of(id f) { return m_.emit(spv::Op::OpBitcast, m_.u32(), {f}); }
  id float_of(id bits) { return m_.emit(spv::Op::OpBitcast, m_.f32(), {bits}); }
  id half_to_float(id h);
  id unpacked_half(id h);
  id float_to_half(id f);

  // lowering_memory.cpp
  void lower_offset(const instruction& in);
  void lower_global(const instruction& in);
  void lower_shared(const instruction& in);
  void lower_reduction(const instruction& in);
  void lower_tile(const instruction& in);
  void lower_tile_dot(const instruction& in);
  void lower_tile_map(const instruction& in);
  address address_of(value_id v);
  void set_address(value_id v, address a);
  id whole(address a);
  address further(address a, id units);
  id multiple(id type, id a, std::uint32_t factor);
  address moved(address a, std::uint64_t bytes);
  address moved(address a, id index, std::uint32_t scale);
  address moved_by_lane(address a, id lane, std::uint32_t bytes);
  address column_address(address a, value_id stride, std::size_t column);
  id load_element(memory_type mem, address from);
  void store_element(memory_type mem, address to, id value);
  ids load_four(address from);
  ids words_at(address from, std::size_t count, std::uint32_t alignment);
  id narrow_type(memory_type mem);
  id load_raw(id of_type, address from, std::uint32_t alignment);
  void if_then(id condition, const auto& body);
  id shared_pointer(id index);
  id load_shared(id index);
  void store_shared(id index, id value);
  void group_barrier();
  id meet(opcode op, id a, id b);  // one step of a reduction
  id exchange(opcode op, id value, std::uint32_t distance);
  id meet_in_shared_memory(opcode op, id value);
  id of_lane(id value, std::uint32_t lane);
  ids activation_words(const instruction& in, std::size_t words, std::size_t columns);
  id dot(id a, id b, id c, std::uint32_t bits_of_a);
  ids bytes_unsigned(id word);
  ids bytes_signed(id word);
  id dot_of_bytes(const ids& a, const ids& b, id c);

  // lowering_early_loads.cpp
  struct maker {
    const instruction* in = nullptr;
    const region* inside = nullptr;
    std::size_t place = 0;  // in the order of the program
  };
  void note_makers(const region& r);
  bool has_registers_for_loads() const;
  std::optional<std::int32_t> constant_of(value_id v) const;
  std::uint32_t short_turns(const instruction& in) const;
  bool reads_weights_in_short_turns(const instruction& in) const;
  std::optional<std::vector<const instruction*>> needed_for(const instruction& load,
                                                            const region& body,
                                                            const region& r) const;
  void load_early(const region& r);
  void load_now(const instruction& load, const std::vector<const instruction*>& needed);
  void keep_in_front();
  void touch_activations(const region& r);
  std::vector<value_id> read_beside(const region& r, const instruction& loop) const;
  std::optional<std::vector<const instruction*>> needed_for(value_id v, const region& body,
                                                            const region& r) const;
  bool take_early(const instruction& load);
  void set_turn(const instruction& loop, std::uint32_t turn);
  void write_out(const instruction& loop);

  // lowering_lavapipe.cpp
  bool shares_words() const;
  ids share_words(address from, std::size_t count);
  id same_address(id base);
  ids load_four_by_halves(address from);
  id hide_zero(id f);

  const program& p_;
  const spirv_options& options_;
  module_writer m_;
  std::vector<std::size_t> first_;
  ids held_;
  struct product {
    id of = 0;
    std::uint32_t factor = 0;
  };
  // What is known of i32 values, by value_id: the value, or that it is a multiple of another.
  std::vector<std::optional<std::uint32_t>> known_;
  std::vector<std::optional<product>> products_;
  const known_values divisors_;  // where words may be loaded several at a time
  id arguments_ = 0, group_ = 0, local_index_ = 0, lane_ = 0, warp_ = 0, first_lane_ = 0;
  id shared_ = 0, turn_ = 0;
  const bool loads_early_;
  std::vector<maker> makers_;                            // of each value, where loads are early
  std::size_t noted_ = 0;                                // instructions in it
  std::map<const instruction*, std::deque<ids>> early_;  // what was loaded, by turns to come
  // What touch_activations() has loaded: lane 0 has the first word of the tile_dot's activations.
  const instruction* touched_by_ = nullptr;
  id touched_ = 0;
  std::uint32_t access_ = 0;  // memory operands of every global access besides Aligned
};

}  // namespace terrane::kernels::spirv

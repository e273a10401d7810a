// The rules of the language, checked: each value is defined before use in an enclosing scope,
// operand types fit, uniform places get uniform values, and whatever all warps must reach together
// stands under control that is the same for all of them.
#include <algorithm>

#include "kernels/lang/program.hpp"

namespace terrane::kernels {

namespace {

class verifier {
 public:
  explicit verifier(const program& p) : p_(p), defined_(p.values.size(), false) {}

  result<void> run() {
    if (p_.warps < 1 || p_.warps > 32) return error_in("a workgroup has 1 to 32 warps");
    check_region(p_.body, true);
    if (!fault_.empty()) return error_in(fault_);
    return {};
  }

 private:
  result<void> error_in(const std::string& what) const {
    return fail(error_code::invalid_input, "kernel program '" + p_.name + "': " + what);
  }

  void check(bool condition, const instruction& in, const char* what) {
    if (!condition && fault_.empty())
      fault_ = std::string(to_string(in.op)) + " (%" + std::to_string(in.result) + "): " + what;
  }

  const value_type& type(const instruction& in, std::size_t k) const {
    return p_.values[in.operands[k]];
  }
  bool scalar(const instruction& in, std::size_t k, scalar_type s) const {
    return type(in, k).scalar == s && !type(in, k).is_tile();
  }
  bool uniform(const instruction& in, std::size_t k) const {
    return type(in, k).vary != spread::lane && !type(in, k).is_tile();
  }

  void check_region(const region& r, bool all_warps_together) {
    std::vector<value_id> here = r.parameters;
    for (value_id v : here) define(v);
    for (const instruction& in : r.body) {
      check_instruction(in, all_warps_together);
      if (!fault_.empty()) return;
      for (unsigned k = 0; k < in.results; k++) {
        define(in.result + k);
        here.push_back(in.result + k);
      }
    }
    for (value_id v : r.yields)
      if (v >= defined_.size() || !defined_[v])
        fault_ = "a region yields %" + std::to_string(v) + ", which it cannot see";
    for (value_id v : here) defined_[v] = false;  // the scope ends
  }

  void define(value_id v) {
    if (v >= defined_.size() || defined_[v])
      fault_ = "value %" + std::to_string(v) + " is defined twice or out of range";
    else
      defined_[v] = true;
  }

  void check_instruction(const instruction& in, bool together) {
    for (value_id v : in.operands)
      if (v >= defined_.size() || !defined_[v])
        return check(false, in, "an operand is not defined here");
    if (in.result + in.results > p_.values.size())
      return check(false, in, "a result is out of range");
    using enum opcode;
    switch (in.op) {
      case const_i32:
      case const_f32:
      case group_x:
      case group_y:
      case warp:
      case lane:
        return check(in.operands.empty() && in.results == 1, in, "takes no operands");
      case argument:
        return check(in.imm < max_arguments, in, "argument slot out of range");
      case iadd:
      case isub:
      case imul:
      case iand:
      case ior:
      case ixor:
      case ishl:
      case ilshr:
      case iashr:
      case iudiv:
      case iurem:
      case ismin:
      case ismax:
      case ieq:
      case ine:
      case islt:
      case iult:
        return check(scalar(in, 0, scalar_type::i32) && scalar(in, 1, scalar_type::i32), in,
                     "wants two i32");
      case fadd:
      case fsub:
      case fmul:
      case flt:
      case feq:
        return check(scalar(in, 0, scalar_type::f32) && scalar(in, 1, scalar_type::f32), in,
                     "wants two f32");
      case fma_exact:
        return check(scalar(in, 0, scalar_type::f32) && scalar(in, 1, scalar_type::f32) &&
                         scalar(in, 2, scalar_type::f32),
                     in, "wants three f32");
      case pand:
      case por:
        return check(scalar(in, 0, scalar_type::pred) && scalar(in, 1, scalar_type::pred), in,
                     "wants two pred");
      case pnot:
        return check(scalar(in, 0, scalar_type::pred), in, "wants a pred");
      case select:
        return check(scalar(in, 0, scalar_type::pred) && type(in, 1).scalar == type(in, 2).scalar &&
                         !type(in, 1).is_tile() && !type(in, 2).is_tile(),
                     in, "wants a pred and two equal types");
      case i2f:
      case bits_to_float:
      case h2f:
        return check(scalar(in, 0, scalar_type::i32), in, "wants i32");
      case float_to_bits:
      case f2h:
        return check(scalar(in, 0, scalar_type::f32), in, "wants f32");
      case dot4:
        return check(scalar(in, 0, scalar_type::i32) && scalar(in, 1, scalar_type::i32) &&
                         scalar(in, 2, scalar_type::i32) && in.imm >= 1 && in.imm <= 8,
                     in, "wants three i32 and 1 to 8 bits");
      case look_up:
        return check(scalar(in, 0, scalar_type::i32) && in.imm < p_.byte_tables.size(), in,
                     "wants i32 and one of the program's tables");
      case offset:
        return check(
            scalar(in, 0, scalar_type::ptr) && scalar(in, 1, scalar_type::i32) && in.imm > 0, in,
            "wants a pointer, an index and a scale");
      case load:
        return check(scalar(in, 0, scalar_type::ptr), in, "wants a pointer");
      case load_words:
        return check(
            scalar(in, 0, scalar_type::ptr) && in.results == in.imm && in.imm >= 2 && in.imm <= 8,
            in, "wants a pointer and 2 to 8 words");
      case load_lanes:
      case load_lanes_x4:
        return check(scalar(in, 0, scalar_type::ptr) && uniform(in, 0) &&
                         in.mem != memory_type::ptr && in.imm <= most_fetched_ahead,
                     in, "wants a uniform pointer and to fetch ahead at most 64 KiB");
      case store:
        return check(scalar(in, 0, scalar_type::ptr) && !type(in, 1).is_tile() &&
                         (!uniform(in, 0) || uniform(in, 1)) &&
                         (in.operands.size() == 2 || scalar(in, 2, scalar_type::pred)) &&
                         stored_type_fits(in, 1),
                     in, "wants a pointer and a value no more spread than the pointer");
      case store_lanes:
        return check(scalar(in, 0, scalar_type::ptr) && uniform(in, 0) && !type(in, 1).is_tile() &&
                         stored_type_fits(in, 1),
                     in, "wants a uniform pointer and a value of the element's type");
      case prefetch:
        return check(scalar(in, 0, scalar_type::ptr) && type(in, 0).vary == spread::group &&
                         in.imm > 0 && in.imm % 16 == 0,
                     in, "wants a pointer that is the same for the group and whole 16 bytes");
      case shared_load:
      case shared_load_lanes:
        return check(scalar(in, 0, scalar_type::i32) && (in.op == shared_load || uniform(in, 0)),
                     in, "wants an index");
      case shared_store:
      case shared_store_lanes:
        return check(
            scalar(in, 0, scalar_type::i32) && !type(in, 1).is_tile() &&
                (in.op == shared_store ? !uniform(in, 0) || uniform(in, 1) : uniform(in, 0)),
            in, "wants an index and a value no more spread than it");
      case barrier:
        return check(together, in, "stands under control that differs between warps");
      case lane_max:
      case lane_sum:
        return check(scalar(in, 0, scalar_type::i32) && together, in,
                     "wants i32 under control that is the same for all warps");
      case lane_tree_add:
        return check(scalar(in, 0, scalar_type::f32) && together, in,
                     "wants f32 under control that is the same for all warps");
      case tile_zero:
        return check(p_.values[in.result].is_tile(), in, "makes a tile");
      case tile_dot:
        return check_tile_dot(in);
      case tile_map:
        return check_tile_map(in, together);
      case tile_load:
      case tile_store:
        return check(scalar(in, 0, scalar_type::ptr) && uniform(in, 0) &&
                         scalar(in, 1, scalar_type::i32) && uniform(in, 1),
                     in, "wants a uniform pointer and a uniform stride");
      case loop:
        return check_loop(in, together);
      case branch:
        return check_branch(in, together);
    }
  }

  bool stored_type_fits(const instruction& in, std::size_t k) const {
    return in.mem != memory_type::ptr &&
           type(in, k).scalar == (in.mem == memory_type::f32 ? scalar_type::f32 : scalar_type::i32);
  }

  void check_tile_dot(const instruction& in) {
    check(
        in.operands.size() >= 4 && type(in, 0).is_tile() && type(in, 0).scalar == scalar_type::i32,
        in, "wants an i32 tile and words");
    check(scalar(in, 1, scalar_type::ptr) && uniform(in, 1) && scalar(in, 2, scalar_type::i32) &&
              uniform(in, 2),
          in, "wants a uniform pointer and stride");
    for (std::size_t k = 3; k < in.operands.size(); k++)
      check(scalar(in, k, scalar_type::i32), in, "wants i32 words");
    check(in.imm >= 1 && in.imm <= 8, in, "wants 1 to 8 bits");
  }

  void check_tile_map(const instruction& in, bool together) {
    check(in.regions.size() == 1 && in.regions[0].parameters.size() == in.operands.size() + 1 &&
              in.regions[0].yields.size() == in.results,
          in, "has a body that does not fit");
    for (std::size_t k = 0; k < in.operands.size(); k++)
      check(type(in, k).is_tile() && type(in, k).columns == in.imm, in,
            "wants tiles of equal columns");
    if (!fault_.empty()) return;
    check(!has_barrier(in.regions[0]), in, "may not hold a barrier");
    check_region(in.regions[0], together);
  }

  void check_loop(const instruction& in, bool together) {
    check(in.operands.size() >= 2 && scalar(in, 0, scalar_type::i32) &&
              scalar(in, 1, scalar_type::i32) && uniform(in, 0) && uniform(in, 1) && in.imm > 0,
          in, "wants uniform bounds and a step");
    check(in.regions.size() == 1 && in.results == in.operands.size() - 2 &&
              in.regions[0].parameters.size() == in.operands.size() - 1 &&
              in.regions[0].yields.size() == in.results,
          in, "has a body that does not fit");
    if (!fault_.empty()) return;
    for (unsigned k = 0; k < in.results; k++) {
      const value_type& t = p_.values[in.result + k];
      const value_type& y = p_.values[in.regions[0].yields[k]];
      check(t == type(in, k + 2) && t.scalar == y.scalar && t.columns == y.columns &&
                y.vary <= t.vary,
            in, "carries a value that changes its type or spreads further");
    }
    bool same = type(in, 0).vary == spread::group && type(in, 1).vary == spread::group;
    check_region(in.regions[0], together && same);
  }

  void check_branch(const instruction& in, bool together) {
    check(in.operands.size() == 1 && scalar(in, 0, scalar_type::pred) && uniform(in, 0) &&
              in.regions.size() == 2,
          in, "wants a uniform pred and two sides");
    if (!fault_.empty()) return;
    for (const region& r : in.regions) {
      check(r.yields.size() == in.results && r.parameters.empty(), in,
            "has a side that does not fit");
      if (!fault_.empty()) return;
      check_region(r, together && type(in, 0).vary == spread::group);
    }
  }

  const program& p_;
  std::vector<bool> defined_;
  std::string fault_;
};

}  // namespace

result<void> verify(const program& p) { return verifier(p).run(); }

}  // namespace terrane::kernels

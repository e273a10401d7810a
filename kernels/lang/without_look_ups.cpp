#include "kernels/lang/without_look_ups.hpp"

#include <utility>

namespace terrane::kernels {

namespace {

class tree_writer {
 public:
  explicit tree_writer(program& p) : p_(p) {}

  void rewrite(region& r) {
    std::vector<instruction> body;
    for (instruction& in : r.body) {
      for (region& inner : in.regions) rewrite(inner);
      if (in.op == opcode::look_up) {
        out_ = &body;
        spread_ = p_.values[in.result].vary;
        write_tree(in);
      } else {
        body.push_back(std::move(in));
      }
    }
    r.body = std::move(body);
  }

 private:
  static constexpr std::uint32_t every_byte = 0x01010101u;

  value_id put(opcode op, std::vector<value_id> operands, spread vary, std::uint32_t imm = 0) {
    instruction in;
    in.op = op;
    in.imm = imm;
    in.operands = std::move(operands);
    in.results = 1;
    in.result = static_cast<value_id>(p_.values.size());
    p_.values.push_back({scalar_type::i32, vary});
    out_->push_back(std::move(in));
    return out_->back().result;
  }
  value_id constant(std::uint32_t bits) { return put(opcode::const_i32, {}, spread::group, bits); }
  value_id both(opcode op, value_id a, value_id b) { return put(op, {a, b}, spread_); }

  // All bits of each byte whose code has `bit`.
  value_id byte_mask(value_id codes, std::uint32_t bit) {
    const value_id moved = bit == 0 ? codes : both(opcode::ilshr, codes, constant(bit));
    const value_id ones = both(opcode::iand, moved, constant(every_byte));
    // Times 255, without a carry between the bytes.
    return both(opcode::isub, both(opcode::ishl, ones, constant(8)), ones);
  }

  void write_tree(const instruction& in) {
    const byte_table& table = p_.byte_tables[in.imm];
    std::vector<value_id> level;
    const value_id first = byte_mask(in.operands[0], 0);
    for (std::size_t code = 0; code < table.size(); code += 2) {
      const std::uint32_t clear = table[code], set = table[code + 1];
      const value_id change = both(opcode::iand, first, constant((clear ^ set) * every_byte));
      level.push_back(both(opcode::ixor, constant(clear * every_byte), change));
    }
    for (std::uint32_t bit = 1; bit < 4; bit++) {
      const value_id mask = byte_mask(in.operands[0], bit);
      std::vector<value_id> next;
      for (std::size_t k = 0; k < level.size(); k += 2) {
        const value_id differ = both(opcode::ixor, level[k], level[k + 1]);
        next.push_back(both(opcode::ixor, level[k], both(opcode::iand, mask, differ)));
      }
      level = std::move(next);
    }
    out_->back().result = in.result;  // the last value made is not used, the look_up's is
  }

  program& p_;
  std::vector<instruction>* out_ = nullptr;
  spread spread_ = spread::lane;
};

}  // namespace

program without_look_ups(program p) {
  if (p.byte_tables.empty()) return p;
  tree_writer(p).rewrite(p.body);
  return p;
}

}  // namespace terrane::kernels

#include "kernels/lang/known_values.hpp"

#include <algorithm>

namespace terrane::kernels {

namespace {

constexpr std::uint32_t widest = 16;  // bytes of the widest load

// The largest power of two that divides x, at most `widest`.
std::uint32_t power_of_two_in(std::uint32_t x) {
  return x == 0 ? widest : std::min(x & -x, widest);
}

}  // namespace

known_values::known_values(const program& p)
    : divisors_(p.values.size(), 1),
      most_(p.values.size(), INT32_MAX),
      constants_(p.values.size()),
      p_(p) {
  visit(p.body);
}

void known_values::visit(const region& r) {
  for (const instruction& in : r.body) {
    if (in.op == opcode::const_i32) constants_[in.result] = in.imm;
    if (in.results == 1) {
      divisors_[in.result] = divisor_of(in);
      most_[in.result] = most_of(in);
    }
    // A loop's counter takes its begin and multiples of the step from there.
    if (in.op == opcode::loop)
      divisors_[in.regions[0].parameters[0]] =
          std::min(divisors_[in.operands[0]], power_of_two_in(in.imm));
    for (const region& inner : in.regions) visit(inner);
  }
}

std::uint32_t known_values::divisor_of(const instruction& in) const {
  auto divides = [&](std::size_t k) { return divisors_[in.operands[k]]; };
  using enum opcode;
  switch (in.op) {
    case const_i32:
      return power_of_two_in(in.imm);
    case load:  // of an address in a table
    case argument:
      return p_.values[in.result].scalar == scalar_type::ptr ? widest : 1;
    case iadd:
    case isub:
    case ior:
    case ixor:
    case ismin:
    case ismax:
      return std::min(divides(0), divides(1));
    case imul:
      return std::min(divides(0) * divides(1), widest);
    case iand:
      return std::max(divides(0), divides(1));
    case ishl: {
      auto amount = constants_[in.operands[1]];
      return amount ? std::min(divides(0) << std::min(*amount, 4u), widest) : divides(0);
    }
    case select:
      return std::min(divides(1), divides(2));
    case offset:
      return std::min(divides(0), divides(1) * power_of_two_in(in.imm));
    default:
      return 1;
  }
}

std::int32_t known_values::most_of(const instruction& in) const {
  switch (in.op) {
    case opcode::const_i32:
      return static_cast<std::int32_t>(in.imm);
    case opcode::ismin:
      return std::min(most_[in.operands[0]], most_[in.operands[1]]);
    default:
      return INT32_MAX;
  }
}

}  // namespace terrane::kernels

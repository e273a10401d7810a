// Looks through PTX text for what the numeric contract demands: float operations that round once to
// nearest even and keep denormals, nothing fused but `fma_exact`, no built-in functions.
#pragma once

#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/lang/program.hpp"

namespace terrane::kernels {

struct ptx_findings {
  std::size_t float_operations = 0;  // additions, subtractions and products
  std::size_t fused = 0;             // fma
  std::vector<std::string> faults;   // lines
};

inline ptx_findings scan_ptx(const std::string& text) {
  ptx_findings found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::string_view rest = line;
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    if (rest.starts_with("@")) {  // a predicate comes first
      rest.remove_prefix(std::min(rest.find_first_of(" \t"), rest.size()));
      rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    }
    std::string_view name = rest.substr(0, rest.find_first_of(" \t;"));
    auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
    bool on_floats = has(".f32") || has(".f16") || has(".bf16") || has(".f64");
    if (!on_floats) continue;
    auto is = [&](std::string_view op) { return name.starts_with(op); };
    bool forbidden = has(".ftz") || has(".approx") || has(".full") || has(".f64") || has(".sat") ||
                     has(".rz") || has(".rm") || has(".rp");
    // A sign may be turned (neg): the language subtracts from -0.
    for (std::string_view op : {"div.", "sqrt.", "rsqrt.", "rcp.", "ex2.", "lg2.", "sin.", "cos.",
                                "tanh.", "mad.", "min.", "max.", "abs.", "atom.", "red."})
      forbidden = forbidden || is(op);
    bool arithmetic = is("add.") || is("sub.") || is("mul.");
    found.float_operations += arithmetic;
    if (is("fma.")) found.fused++;
    if (arithmetic || is("fma.")) forbidden = forbidden || !has(".rn.f32");
    // Narrowing and integer conversions round; widening from f16 is exact and has no rounding.
    if (is("cvt.")) forbidden = forbidden || !(has(".rn.") || name == "cvt.f32.f16");
    if (forbidden) found.faults.push_back(line);
  }
  return found;
}

inline bool uses(const region& r, opcode op) {
  for (const instruction& in : r.body) {
    if (in.op == op) return true;
    for (const region& inner : in.regions)
      if (uses(inner, op)) return true;
  }
  return false;
}

}  // namespace terrane::kernels

// Looks through a SPIR-V module for what the numeric contract demands: NoContraction on every float
// operation, no float built-in that may round otherwise.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <spirv/unified1/GLSL.std.450.h>
#include <spirv/unified1/spirv.hpp11>

namespace terrane::kernels {

struct spirv_findings {
  std::size_t float_operations = 0;
  std::vector<std::string> faults;
};

inline spirv_findings scan_spirv(std::span<const std::uint32_t> module) {
  constexpr std::size_t header_words = 5;
  spirv_findings found;
  std::set<std::uint32_t> decorated, float_types;
  auto each = [&](auto&& visit) {
    for (std::size_t at = header_words; at < module.size();) {
      std::size_t length = module[at] >> 16;
      if (length == 0 || at + length > module.size()) {
        found.faults.push_back("an instruction of length 0 or past the end");
        return;
      }
      visit(static_cast<spv::Op>(module[at] & 0xffffu), module.subspan(at + 1, length - 1));
      at += length;
    }
  };
  each([&](spv::Op op, std::span<const std::uint32_t> w) {
    if (op == spv::Op::OpDecorate &&
        static_cast<spv::Decoration>(w[1]) == spv::Decoration::NoContraction)
      decorated.insert(w[0]);
    if (op == spv::Op::OpTypeFloat) float_types.insert(w[0]);
  });
  each([&](spv::Op op, std::span<const std::uint32_t> w) {
    bool arithmetic = false, forbidden = false;
    switch (op) {
      case spv::Op::OpFAdd:
      case spv::Op::OpFSub:
      case spv::Op::OpFMul:
        arithmetic = true;
        break;
      case spv::Op::OpFDiv:
      case spv::Op::OpFRem:
      case spv::Op::OpFMod:
      case spv::Op::OpFNegate:
      case spv::Op::OpFConvert:
      case spv::Op::OpDot:
      case spv::Op::OpGroupNonUniformFAdd:
      case spv::Op::OpGroupNonUniformFMul:
        forbidden = true;
        break;
      case spv::Op::OpExtInst:
        arithmetic = float_types.count(w[0]) != 0;
        forbidden = arithmetic && w[3] != GLSLstd450Fma;
        break;
      default:
        break;
    }
    if (forbidden)
      found.faults.push_back("a forbidden float operation, %" + std::to_string(w[1]));
    else if (arithmetic && decorated.count(w[1]) == 0)
      found.faults.push_back("no NoContraction on %" + std::to_string(w[1]));
    found.float_operations += arithmetic;
  });
  return found;
}

}  // namespace terrane::kernels

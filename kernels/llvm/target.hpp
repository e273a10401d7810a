// What code is generated for: a triple, a processor to tune for, and the features it may use. Of
// the host, the features are asked for one by one: a virtual machine may hide some that its
// processor's name implies. Plain values; any thread. Internal to kernels/llvm.
#pragma once

#include <memory>
#include <string>

#include <llvm/Target/TargetMachine.h>

#include "kernels/result.hpp"

namespace terrane::kernels {

struct code_target {
  std::string triple;
  std::string cpu;       // whose instructions are there without asking
  std::string tune_cpu;  // whose instruction costs count; empty: cpu's
  std::string features;  // "+avx2,-avx512f,..." on top of cpu's
};

// The processor that this runs on; or, if `processor` is not empty, one of LLVM's names for a
// lesser one of the same architecture ("x86-64-v3").
code_target host_target(const std::string& processor = {});

// Fails with unsupported when LLVM was built without the triple's architecture.
result<std::unique_ptr<llvm::TargetMachine>> make_target_machine(const code_target& target);

// What the lowering asks of a target's instructions.
struct target_features {
  enum class architecture { x86, aarch64, other };
  architecture arch = architecture::other;
  bool ssse3 = false, avx2 = false, avx512 = false;  // avx512: F, BW, DQ and VL
  bool vnni_512 = false, vnni_256 = false;           // vpdpbusd on 512 and on 256 bits
  bool amx_int8 = false;                             // tdpbsud on tiles of 16 rows of 64 bytes
  bool half_conversion = false;                      // f16 <-> f32, four lanes or more at once
  bool fma = false;
  bool dot_signed = false, dot_mixed = false;  // sdot; usdot

  // An instruction that looks bytes up in a table of 16.
  bool byte_look_up() const { return ssse3 || arch == architecture::aarch64; }
  // 32-bit lanes of a full register.
  unsigned register_lanes() const { return avx512 ? 16 : avx2 ? 8 : 4; }
};
target_features features_of(const llvm::TargetMachine& machine);

}  // namespace terrane::kernels

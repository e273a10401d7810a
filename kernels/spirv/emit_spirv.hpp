// Kernel programs as SPIR-V modules for Vulkan 1.2, written directly, no compiler in between.
//
// An invocation is a lane: the local size is 32 * warps, a warp is 32 invocations in a row. The
// module has one entry point, "main", and one interface: 128 bytes of push constants holding the
// program's 16 arguments of 8 bytes. Global memory is reached by buffer device addresses. Every
// float operation is decorated NoContraction.
//
// Asks of the device: Vulkan 1.2 with bufferDeviceAddress, vulkanMemoryModel, shaderInt64 and 8-
// and 16-bit storage buffer access; the options say what else it offers. Stateless; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/lang/program.hpp"

namespace terrane::kernels {

// Raise when the same program would become other code; drivers keep their own caches by the module.
inline constexpr std::uint32_t spirv_lowering_version = 4;

struct spirv_options {
  // Width of every subgroup, a power of two, when subgroups are always full, hold consecutive
  // invocations and can shuffle. 0: not known; lanes then meet in shared memory.
  std::uint32_t subgroup_lanes = 0;
  bool integer_dot = false;     // VK_KHR_shader_integer_dot_product
  bool float_controls = false;  // RoundingModeRTE and SignedZeroInfNanPreserve for 32 bits
  bool fuse_exact = false;      // fma_exact as one operation: worth it where hardware has one
  // Every address that is used lies less than 4 GiB past an argument or an address from memory, as
  // it does where no allocation is larger: distances are then computed in 32 bits.
  bool short_distances = false;
  // The driver's UnpackHalf2x16 gives every half exactly, which Vulkan does not promise of those
  // that are denormal: h2f where a NaN may be any.
  bool unpack_half = false;
  // Weights are loaded as early as registers allow: see lowering_early_loads.cpp.
  bool load_early = false;
  bool lavapipe = false;  // Mesa's software device: see lowering_lavapipe.cpp
};

// The module's words. Wants a program that passed verify().
std::vector<std::uint32_t> emit_spirv(const program& p, const spirv_options& options);

// Bytes of shared memory a workgroup takes: the program's own and what reductions need.
std::uint32_t spirv_shared_bytes(const program& p, const spirv_options& options);

}  // namespace terrane::kernels

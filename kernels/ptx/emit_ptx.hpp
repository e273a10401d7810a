// Kernel programs as PTX text for NVIDIA GPUs, through LLVM's NVPTX backend; the driver makes
// machine code of it.
//
// A lane is a thread and a warp of the language a warp of the device. The text has one entry point,
// `ptx_entry`, to be launched as
//
//   grid (groups_x, groups_y, 1), block (32 * p.warps, 1, 1), dynamic shared memory
//   ptx_shared_bytes(p), and one parameter: the program's 16 arguments of 8 bytes, by value
//   (std::array<std::uint64_t, max_arguments>).
//
// Address arguments are 16-byte aligned. Every float operation rounds once to nearest even, keeps
// denormals and is never fused; nothing of a device library is called. Stateless; any thread,
// several at once. LLVM's NVPTX backend is set up at the first call.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/lang/program.hpp"

namespace terrane::kernels {

// Raise when the same program would become other code: part of every key of a code cache.
inline constexpr std::uint32_t ptx_lowering_version = 7;

inline constexpr const char* ptx_entry = "main_";

struct ptx_options {
  // The lower of the device's compute capability (major * 10 + minor) and 90, the highest that
  // LLVM 19 knows; newer devices take that text too. 75, 80, 86, 89 or 90.
  unsigned sm = 90;
};

// Fails with invalid_input where verify() does, with unsupported for another `sm`.
result<std::string> emit_ptx(const program& p, const ptx_options& options);

// Bytes of dynamic shared memory that a workgroup takes.
std::uint32_t ptx_shared_bytes(const program& p, const ptx_options& options);

}  // namespace terrane::kernels

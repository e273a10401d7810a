// The oracle: runs a kernel program slowly and by the letter. What it computes is right by
// definition; every lowering is tested for equal bits with it. Stateless; any thread.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/lang/program.hpp"

namespace terrane::kernels {

// Runs groups_x by groups_y workgroups one after another. `arguments` are 8-byte slots as the
// program's `argument` instructions read them: an i32 or f32 in the low 4 bytes, or an address of
// this process. Addresses are not checked. The program must have passed verify().
void interpret(const program& p, std::span<const std::uint64_t> arguments, std::uint32_t groups_x,
               std::uint32_t groups_y);

}  // namespace terrane::kernels

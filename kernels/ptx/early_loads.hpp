// Moves the loads of weights to the start of the straight code that uses them, and keeps ptxas from
// putting them back: left alone it loads two or three at a time to save registers, and a warp with
// little work then waits for memory again and again. No bit changes. Internal to kernels/ptx.
#pragma once

#include <llvm/IR/Function.h>

namespace terrane::kernels::ptx {

// Blocks that a warp enters as one have names that start so: there all its threads may meet.
inline constexpr const char* warp_block = "warp";

// What a kernel that starts early waits with, in PTX.
inline constexpr const char* wait_text = "griddepcontrol.wait;";

// `lone_barriers`: the program holds no barrier of its own, so that those of a warp order shared
// memory only.
void load_early(llvm::Function& f, bool lone_barriers);

}  // namespace terrane::kernels::ptx

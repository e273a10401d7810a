// A program without look_up, for targets that have no instruction for it: the same bits by a binary
// tree over the bits of each code, four bytes at a time.
#pragma once

#include "kernels/lang/program.hpp"

namespace terrane::kernels {

program without_look_ups(program p);

}  // namespace terrane::kernels

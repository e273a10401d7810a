// Counts the calls of operator new of the whole test program, so that a test can show that a step
// makes none. Any thread.
#pragma once

#include <cstddef>

namespace terrane::test {

// Allocations since the program started, of all threads.
std::size_t allocations();

}  // namespace terrane::test

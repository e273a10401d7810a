// Which layouts are worth a try. Pure functions; any thread.
#pragma once

#include <vector>

#include "engine/tuning/device_tuning.hpp"

namespace terrane::engine {

// Variations of the best layout so far, round by round: a later one varies what an earlier one left
// alone. Empty: there are no more rounds.
std::vector<kernel_layout> candidates(const device_info& on, const kernel_shape& shape,
                                      const kernel_layout& best, int round);

}  // namespace terrane::engine

// Looks through all logits of a step once, as fast as this processor reads them: a large vocabulary
// is half a megabyte a token. Pure; any thread.
#pragma once

#include <span>
#include <vector>

namespace terrane::engine {

// Sets `peaks` to the largest logit of each kernels::logits_of_a_peak in turn (the last may be of
// fewer); of zeros the positive one is the larger, and what a NaN gives is not said. Whether all
// are finite.
bool find_peaks(std::span<const float> logits, std::vector<float>& peaks);

}  // namespace terrane::engine

// "The nearest is": where a text says almost what was looked for in it. Pure; any thread.
#pragma once

#include <string_view>

namespace terrane::policies {

// The passage of the text that is closest to `wanted` by edit distance, whole words of one line;
// empty when none is close enough to be meant. Takes time by the product of both lengths.
std::string_view nearest_passage(std::string_view wanted, std::string_view text);

}  // namespace terrane::policies

// "Did you mean": the known name that a misspelt one is closest to. Pure; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace terrane::policies {

// The nearest of the names by edit distance; empty when none is close enough to be meant.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names);

// "; did you mean 'vram.used'?", or "; known: a, b, c" when no name is near.
std::string name_hint(std::string_view name, std::span<const std::string_view> names);

}  // namespace terrane::policies

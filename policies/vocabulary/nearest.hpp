// "Did you mean": the known name that a misspelt one is closest to, or those inside it. Pure; any
// thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace terrane::policies {

// The nearest of the names by edit distance; empty when none is close enough to be meant.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names);

// "; did you mean 'vram.used'?", or "; known: a, b, c" when no name is near.
std::string name_hint(std::string_view name, std::span<const std::string_view> names);

// Of the names those inside the one that is given as if it were one of them: of "layer.3"
// "'layer.3.attn', 'layer.3.ffn'", four at most and how many more; empty: there are none.
std::string names_within(std::string_view name, std::span<const std::string_view> names);

}  // namespace terrane::policies

// Which parts a person means: "layer.0-11", "layer.*.attn", "head", "all". A pattern is names
// between dots; "*" stands for any name, "N-M" for the numbers from N to M, and a pattern that ends
// early means everything below ("layer.3" is its attn and ffn). Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

namespace terrane::ipc {

bool part_matches(std::string_view pattern, std::string_view part);

// The parts that at least one pattern matches, in their own order. The error is the first pattern
// that matches none, or whose range begins or ends where no part is.
tl::expected<std::vector<std::string>, std::string> expand_parts(
    const std::vector<std::string>& patterns, const std::vector<std::string>& parts);

}  // namespace terrane::ipc

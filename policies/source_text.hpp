// What a policy file or a configuration must be before any language reads it: text in UTF-8, since
// messages quote it and are sent as JSON. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "policies/diagnostic.hpp"

namespace terrane::policies {

// The first byte that is not well-formed UTF-8 (The Unicode Standard, table 3-7), as a fault with
// its line and column, or nothing. `name` is what messages call the text.
std::optional<diagnostic> find_not_utf8(const std::string& name, std::string_view text);

// Text of a library that may quote half a character: bytes that are not UTF-8 become \xNN.
std::string with_escapes(std::string_view text);

}  // namespace terrane::policies

// How policies/ reports what may fail. A fault in a policy file is a diagnostic: where it stands,
// what is wrong, what was expected. Loading returns all of them, so an author fixes a file in one
// go. Plain values; any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "policies/vocabulary/plan.hpp"

namespace terrane::policies {

enum class severity { error, warning };

struct diagnostic {
  severity level = severity::error;
  source_location where;
  std::string message;  // one or two sentences, the nearest known name included
};

// "file:line:column: error: message"
std::string to_string(const diagnostic& d);

template <class T>
using result = tl::expected<T, diagnostic>;

inline tl::unexpected<diagnostic> fail(source_location where, std::string message) {
  return tl::unexpected<diagnostic>(
      diagnostic{severity::error, std::move(where), std::move(message)});
}

}  // namespace terrane::policies

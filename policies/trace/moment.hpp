// One moment of a recording: what the policies saw, what they were, and what they remembered when
// they saw it, for dry runs and comparisons elsewhere. Pure; any thread.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "policies/pipeline/policy_set.hpp"
#include "policies/pipeline/state.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies::trace {

struct moment {
  policy_set_ptr policies;
  snapshot seen;
  pipeline_state before;  // the tick that sees it begins with this
};

struct no_moment {
  std::string why;  // a clause: what is wrong with the recording, or which snapshots it has
  bool has_just_begun = false;  // nothing is wrong, but no snapshot is whole yet
};

// Of the snapshot of that number, or of the last one.
tl::expected<moment, no_moment> moment_of(std::istream& in,
                                          std::optional<std::uint64_t> number = {});

}  // namespace terrane::policies::trace

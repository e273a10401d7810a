// Whether a model fits, before a byte of it is read: where its parts would go, with what context,
// how fast; and where it does not fit, what blocks and the longest context with which it would.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "policies/placement/planner.hpp"

namespace terrane::policies::placement {

struct fit_answer {
  std::optional<answer> plan;         // with the context that was asked for
  refusal why_not;                    // where there is none
  std::uint32_t largest_context = 0;  // of a session, that fits with as many sessions; 0: none does
};

// `most_context`: what the model was trained for; larger ones are not tried. Contexts are tried in
// whole pages. A contradiction is refused, and not a matter of fitting.
// `at_context` sets what else depends on request::context_tokens, such as the devices' scratch.
outcome<fit_answer> fit(const request& r, std::uint32_t most_context,
                        const std::function<void(request&)>& at_context = {});

// The answer as lines for people: the devices, the terms of each, what a token takes; or what
// blocks.
std::string to_text(const request& r, const fit_answer& a);
// {"fits", "context_tokens", "sessions", "largest_context", "token_ms", "tokens_per_s", "exact",
// "devices": [{"name", "used", "reason", "parts", "weight_bytes", "kv_bytes", "scratch_bytes",
// "reserve_bytes", "room_bytes", "ms"}], "parts": [{"name", "device"}], "blocked_by", "message"}
std::string to_json(const request& r, const fit_answer& a);

}  // namespace terrane::policies::placement

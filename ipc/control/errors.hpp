// The named errors of io.terrane.Control, one function each: the numbers go in, the error with a
// sentence for people comes out. The daemon uses these to refuse a call (`answer::fail`), and adds
// no names of its own. Plain functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ipc/control/types.hpp"
#include "ipc/varlink/reply.hpp"

namespace terrane::ipc {

using refusal = varlink::named_error;

namespace refuse {

// `method` is the member's name, or what was asked for in words.
refusal not_permitted(std::string_view method, access_level needed);
refusal not_your_session(std::int64_t session);
refusal not_ready(daemon_state state, std::string_view why);
refusal shutting_down();
refusal too_many_connections(std::int64_t limit);
refusal too_slow(std::string_view what);
refusal busy(std::string_view why);
refusal cancelled(std::string_view what);
refusal stale_revision(std::int64_t given, std::int64_t current);
refusal no_room(std::string_view device, std::int64_t needed_bytes, std::int64_t free_bytes);
// `known` may be empty; the nearest name in it is suggested.
refusal unknown_part(std::string_view part, const std::vector<std::string>& known);
refusal unknown_device(std::string_view device, const std::vector<std::string>& known);
// A device that was refused or lost, and why.
refusal device_unusable(std::string_view device, std::string_view why);
refusal unknown_policy(std::string_view policy, const std::vector<std::string>& known);
// Bytes that could not leave a device, and why.
refusal not_freed(std::string_view device, std::int64_t left_bytes, std::string_view why);
// A yield that ended, and why, before so many bytes had left.
refusal yield_over(std::string_view device, std::int64_t left_bytes, std::string_view why);
// Nothing is to be brought to a device that yields; `left`: how long that holds, "until someone
// ends that" or "for another 12m".
refusal device_yields(const yield_info& order, std::string_view left);
refusal unknown_session(std::int64_t session);
refusal unknown_move(std::int64_t move);
// The ids that are still kept; `newest` 0 when there was no decision yet.
refusal unknown_decision(std::int64_t id, std::int64_t oldest, std::int64_t newest);
refusal context_exceeded(std::int64_t prompt_tokens, std::int64_t context_tokens);
// `message` is the policies' own sentence.
refusal quota_exceeded(std::string_view policy, std::int64_t held_bytes, std::int64_t quota_bytes,
                       const std::string& message);
refusal chat_unsupported(std::string_view why);
refusal not_finite(std::string_view part);
// `so` says what became of it, such as "the old set stays in force".
refusal policy_invalid(const std::vector<diagnostic>& diagnostics, std::string_view so);
// Whatever has no name of its own: what failed, where, why, what to do.
refusal failed(std::string_view message);
// A parameter whose type is right and whose value is not (org.varlink.service.InvalidParameter).
refusal invalid_parameter(std::string_view parameter, std::string_view why);

}  // namespace refuse

// The level of access that a group gives: "terrane" to operate, "terrane-admin" to administer;
// empty for observe, which everybody has.
std::string_view group_of(access_level level);

}  // namespace terrane::ipc

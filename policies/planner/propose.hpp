// Turns a YAML action into a proposal for one object: who would move, in which order, and how many
// bytes are enough to reach the leave level. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policies/planner/intent.hpp"
#include "policies/rule/rule.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies {

proposal propose(const rule& r, const declarative_action& action, const object_ref& object);

// Adds what gives all memory of the object's device back: its parts with their KV, and once there
// is none that could move, what sessions still have there. Tried in the order of `to`; without any,
// on the device with most room.
void propose_yield(const std::vector<target_choice>& to, const object_ref& object, proposal& p);

// Whether `do: {move: ...}` is about the part, wherever it is.
bool selects(const declarative_action& action, const part_state& part);

// The device whose memory an object's policy relieves: itself, or the CPU's for the host; null for
// sessions and parts.
const device_state* relieved_device(const object_ref& object);

// Parts in one of the orders that suit parts. Ties go by the model's own order.
void sort_parts(std::vector<const part_state*>& parts, ordering order);
// Sessions by their KV bytes on a device (everywhere when it is null) or by idleness; ties by id.
void sort_sessions(std::vector<const session_state*>& sessions, ordering order,
                   const device_state* on);

// Bytes of a session's KV on a device, or everywhere when it is null.
std::uint64_t kv_bytes_on(const session_state& s, const device_state* on);
// Whether a name is like a pattern, in which * is any run of characters and ? any one.
bool matches_pattern(std::string_view pattern, std::string_view name);
// What moves when a part moves: weights and KV, a matrix that it shares with others included.
std::uint64_t moving_bytes(const part_state& p);

// The bytes that must leave until the `leave` of a rule is met, as far as bytes can meet it; none
// when no fresh metric tells.
std::optional<double> bytes_until_leave(const rule& r, const object_ref& object);

// Why a policy acts on an object now: what is beyond its limit, or who asked.
std::string reason_of(const rule& r, const object_ref& object);

// "vram.used_ratio is 96 % (above 92 %)", for each condition that is met.
std::string met_clause(const condition& c, const object_ref& object);

}  // namespace terrane::policies

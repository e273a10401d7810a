#include "policies/scenario/names.hpp"

#include <algorithm>

#include "policies/planner/propose.hpp"
#include "policies/vocabulary/nearest.hpp"

namespace terrane::policies::scenario {
namespace {

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

std::vector<std::string_view> views(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

// "; did you mean 'layer.3.attn'?", or the parts of a layer that is named as if it were one; empty
// where no name is near.
std::string nearest_hint(std::string_view name, const std::vector<std::string_view>& names) {
  const std::string inside = names_within(name, names);
  if (!inside.empty()) return "; it has " + inside;
  const std::string_view near = nearest_name(name, names);
  return near.empty() ? "" : "; did you mean " + in_quotes(near) + "?";
}

std::string why_none(const std::string& what, std::string_view name,
                     const std::vector<std::string_view>& known) {
  if (std::ranges::find(known, name) != known.end()) return {};
  return "the machine has no " + what + " " + in_quotes(name) + nearest_hint(name, known);
}

}  // namespace

std::string why_no_device(std::string_view name, const machine_names& known) {
  const std::vector<std::string_view> all = views(known.devices);
  if (std::ranges::find(all, name) != all.end()) return {};
  return "the machine has no device " + in_quotes(name) + name_hint(name, all);
}

std::string why_no_part(std::string_view name, const machine_names& known) {
  return why_none("part", name, views(known.parts));
}

std::string why_no_session(std::string_view name, const machine_names& known) {
  return why_none("session", name, views(known.sessions));
}

std::string why_no_part_or_session(std::string_view name, const machine_names& known) {
  std::vector<std::string_view> all = views(known.parts);
  all.insert(all.end(), known.sessions.begin(), known.sessions.end());
  return why_none("part and no session", name, all);
}

std::string why_no_user(std::string_view name, const machine_names& known, bool makes_request) {
  const std::vector<std::string_view> all = views(known.users);
  const auto is_like = [&](std::string_view pattern) { return matches_pattern(pattern, name); };
  if (std::ranges::any_of(all, is_like)) return {};
  const std::string_view near = nearest_name(name, all);
  const std::string nobody = "no session is of user " + in_quotes(name);
  if (!near.empty()) return nobody + "; did you mean " + in_quotes(near) + "?";
  if (makes_request) return {};
  return nobody + ", and who holds nothing is admitted unless a 'request' is too large";
}

}  // namespace terrane::policies::scenario

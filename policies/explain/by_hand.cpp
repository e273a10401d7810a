#include "policies/explain/by_hand.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "policies/pipeline/what_if.hpp"

namespace terrane::policies {
namespace {

// "head", "head and 3 more".
std::string named(const std::vector<std::string>& parts) {
  return parts.front() +
         (parts.size() == 1 ? "" : " and " + std::to_string(parts.size() - 1) + " more");
}

const char* them(const std::vector<std::string>& parts) {
  return parts.size() == 1 ? "it" : "them";
}

using policy_and_device = std::pair<std::string, std::string>;
using policies_and_device = std::pair<std::vector<std::string>, std::string>;

// The policies that hold it away from home, each once.
std::vector<std::string> holders(const holding& held) {
  std::vector<std::string> found;
  for (const hold& h : held.by)
    if (std::ranges::find(found, h.policy) == found.end()) found.push_back(h.policy);
  return found;
}

// "policy 'a'", "policies 'a' and 'b'", "policies 'a', 'b' and 'c'".
std::string listed(const std::vector<std::string>& policies) {
  std::string text = policies.size() == 1 ? "policy " : "policies ";
  for (std::size_t i = 0; i < policies.size(); ++i) {
    if (i > 0) text += i + 1 == policies.size() ? " and " : ", ";
    text += "'" + policies[i] + "'";
  }
  return text;
}

// What policies brought there, or are bringing, and would bring home from there.
void add_claims(const pipeline_state& state, const std::vector<std::string>& parts,
                const std::string& device, std::vector<std::string>& to) {
  std::map<policies_and_device, std::vector<std::string>> claimed;
  for (const std::string& name : parts) {
    const auto held = state.held.find({subject_kind::part, name});
    if (held == state.held.end() || held->second.put_on != device) continue;
    if (held->second.by.empty() || held->second.home == device) continue;
    claimed[{holders(held->second), held->second.home}].push_back(name);
  }
  for (const auto& [by, names] : claimed) {
    const bool one = by.first.size() == 1;
    to.push_back(listed(by.first) + " had brought " + named(names) + " there for a while; now " +
                 (one ? "it does not bring " : "they do not bring ") + them(names) + " back to " +
                 by.second);
  }
}

void add_what_is_undone(const std::vector<planned_move>& away, const std::string& device,
                        std::vector<std::string>& to) {
  std::map<policy_and_device, std::vector<std::string>> taken;
  std::map<policy_and_device, std::string> reasons;
  for (const planned_move& m : away) {
    taken[{m.policy, m.to}].push_back(m.subject);
    reasons[{m.policy, m.to}] = m.reason;
  }
  for (const auto& [by, names] : taken) {
    // That which gives devices back is no policy that can be switched off.
    const std::string ends =
        by.first == yield_policy ? "yield --end " + device : "policy disable " + by.first;
    to.push_back("policy '" + by.first + "' would take " + named(names) + " away again, to " +
                 by.second + ": " + reasons.at(by) + "; terranectl " + ends + " keeps " +
                 them(names) + " there");
  }
}

}  // namespace

std::vector<std::string> notes_on_move(const policy_set& policies, const snapshot& now,
                                       const pipeline_state& state,
                                       const std::vector<std::string>& parts,
                                       const std::string& device) {
  std::vector<std::string> notes;
  add_claims(state, parts, device, notes);
  add_what_is_undone(taken_away_again(policies, now, state, parts, device), device, notes);
  return notes;
}

}  // namespace terrane::policies

// The objects of a snapshot that a scope is about. Pure; any thread.
#pragma once

#include <algorithm>
#include <string>

#include "policies/planner/propose.hpp"
#include "policies/rule/rule.hpp"
#include "policies/vocabulary/snapshot.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies {

inline bool is_device_scope(scope s) {
  return s == scope::device || s == scope::gpu || s == scope::cpu;
}

inline bool in_scope(scope s, const device_state& d) {
  return s == scope::device || (s == scope::gpu && d.kind == device_kind::gpu) ||
         (s == scope::cpu && d.kind == device_kind::cpu);
}

// Calls f(object_ref) for each object of the scope, in the snapshot's order.
template <class Function>
void for_each_object(scope s, const snapshot& now, Function f) {
  if (s == scope::host) f(object_ref{&now, nullptr, nullptr, nullptr});
  if (is_device_scope(s)) {
    for (const device_state& d : now.devices) {
      if (in_scope(s, d)) f(object_ref{&now, &d, nullptr, nullptr});
    }
  }
  if (s == scope::session) {
    for (const session_state& one : now.sessions) f(object_ref{&now, nullptr, &one, nullptr});
  }
  if (s == scope::tenant) {
    for (const tenant_state& one : now.tenants) {
      f(object_ref{&now, nullptr, nullptr, nullptr, &one});
    }
  }
  if (s == scope::part) {
    for (const part_state& one : now.parts) f(object_ref{&now, nullptr, nullptr, &one});
  }
}

// Whether a rule is about the object of that name, one of its scope.
inline bool is_about(const rule& r, const std::string& name) {
  return r.only.empty() || std::ranges::any_of(r.only, [&](const std::string& pattern) {
           return matches_pattern(pattern, name);
         });
}

// The objects of a rule: those of its scope, or only some of them.
template <class Function>
void for_each_object(const rule& r, const snapshot& now, Function f) {
  for_each_object(r.for_each, now, [&](const object_ref& object) {
    if (is_about(r, object_name(object))) f(object);
  });
}

}  // namespace terrane::policies

// Policies of tests, written without the head of their file.
#pragma once

#include <stdexcept>
#include <string>

#include "policies/pipeline/policy_set.hpp"

namespace terrane::policies::tests {

inline policy_set::load_result<policy_set_ptr> load(const std::string& policies) {
  return policy_set::from_sources({{"t.yaml", "apiVersion: terrane/v1\npolicies:\n" + policies}});
}

// Throws std::invalid_argument with the first fault.
inline policy_set_ptr set_of(const std::string& policies) {
  auto set = load(policies);
  if (!set) throw std::invalid_argument(to_string(set.error().front()));
  return *set;
}

}  // namespace terrane::policies::tests

// What a new set of policies has to pass before it takes the place of the one in force: the tests
// that their authors put beside them, and a look at what it would do now that the old one would
// not. Reads test files; changes nothing. Any thread; takes as long as the tests do.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "policies/diagnostic.hpp"
#include "policies/pipeline/policy_set.hpp"
#include "policies/pipeline/state.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies::canary {

struct test_report {
  std::size_t passed = 0;
  std::vector<diagnostic> faults;  // of tests that failed or could not run; empty: all passed
};

// Runs NAME.test.yaml beside each policy file of the paths, as policy_set::load takes them, and of
// a folder every test in it. Tests are asked `goes_on` one after the other: once it says no, the
// rest counts as one fault.
test_report run_tests(const std::vector<std::filesystem::path>& paths,
                      const std::function<bool()>& goes_on);

// In sentences, what `next` would do that `old` would not, and the other way round, if everything
// stayed as it is now for as long as they wait. Empty: the same.
std::vector<std::string> differences(const policy_set& old, const policy_set& next,
                                     const snapshot& now, const pipeline_state& state);

// What of a set can never act on this machine, as warnings: policies that move what the model does
// not have or the configuration pins, and levels beyond what a device has. A snapshot without a
// model or devices tells nothing.
std::vector<diagnostic> what_cannot_act(const policy_set& set, const snapshot& now);

}  // namespace terrane::policies::canary

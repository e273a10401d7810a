// A declarative test of policies as it was read from its YAML file: a machine, a trace of what
// happens to it, and the moves that must come of it. tests/scenarios/README.md has the format. What
// can be wrong with a file is found before anything runs. Plain values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/pipeline/policy_set.hpp"
#include "policies/scenario/machine.hpp"

namespace terrane::policies::scenario {

// One thing that happens to the machine.
struct change {
  std::string what;  // "vulkan:a.others": a later change of the same ends a swing
  std::function<void(machine& m, std::int64_t now_ms)> apply;
};

// Values that take turns from a step on, so that a test can shake a sensor.
struct swing {
  std::vector<change> turns;
  std::int64_t every_ms = 0;
};

struct wanted_text {
  std::string about;  // whom `why`, `placed` and `refused` are about
  std::string text;
  source_location where;
};

// The moves between a step and the one before it: these, in this order, or as many as that.
struct wanted_moves {
  std::vector<std::string> exactly;
  std::optional<std::size_t> at_least;
  std::optional<std::size_t> at_most;
  source_location where;

  bool counted() const { return at_least || at_most; }
};

struct step {
  std::int64_t at_ms = 0;
  std::vector<change> changes;
  std::vector<swing> swings;
  wanted_moves moves;
  wanted_moves shadow;  // what policies in shadow mode would have done
  std::vector<wanted_text> says;
  std::vector<wanted_text> why;
  std::vector<wanted_text> placed;  // once the moves planned by then have ended
  std::vector<wanted_text> refused;
  std::vector<wanted_text> admitted;
  std::vector<kv_residency> request;  // what each of these requests would reserve
  source_location where;
};

struct script {
  std::string title;
  policy_set_ptr policies;
  machine start;
  std::vector<step> steps;
};

// The longest trace.
inline constexpr std::int64_t longest_trace_ms = 7 * std::int64_t{86'400'000};

// `name` is what messages call the text. Policy files that it names are looked for from `folder`;
// one that names none is about the policy file beside it: vram.test.yaml tests vram.yaml or
// vram.lua. The error holds every fault, those of the policies included.
policy_set::load_result<script> read_script(const std::string& name, std::string_view text,
                                            const std::filesystem::path& folder);

// What is wrong with a policy file that is given for a test; names the test in the folder, if there
// is one.
diagnostic no_test(const std::filesystem::path& policy, const std::filesystem::path& folder);

}  // namespace terrane::policies::scenario

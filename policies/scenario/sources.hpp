// The policies that a scenario is about: files it names, the file beside it, or texts within it.
// One thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "policies/pipeline/policy_set.hpp"
#include "policies/yaml/map_reader.hpp"

namespace terrane::policies::scenario {

// The file that a scenario was read from.
struct scenario_file {
  std::string name;  // as messages call it
  std::string_view text;
  std::filesystem::path folder;
};

// Loads what the keys `policies`, `yaml` and `lua` name; null, with the faults, when that fails. A
// text within the scenario is reported by the scenario's own name and lines.
policy_set_ptr load_policies(const scenario_file& file, yaml::map_reader& top,
                             std::vector<diagnostic>& faults);

}  // namespace terrane::policies::scenario

// What a scenario may set of a machine, at its start and in its trace: names, units, and what each
// does. Readings go by the names of their metrics. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policies/scenario/script.hpp"
#include "policies/yaml/map_reader.hpp"

namespace terrane::policies::scenario {

enum class subject_is { host, device, session, parts };

// Something with values. The name of parts may be a pattern, such as layer.*.ffn.
struct subject {
  subject_is what = subject_is::host;
  std::string name;
};

// What may be set, and how it is written: for the schema and the reference page.
enum class setting_value { quantity, text, device, truth };
struct setting_word {
  std::string_view name;
  setting_value holds;
  unit measured_in;  // of a quantity
  std::string_view says;
  bool may_pass_the_whole = false;  // a ratio that may be more than 100 %
};
std::vector<setting_word> setting_words(subject_is what);

// Of the names, those by which a test is checked before it runs.
inline constexpr std::string_view setting_total = "total", setting_others = "others",
                                  setting_tenant = "tenant";

// The parts of a machine that a name or a pattern means.
std::vector<std::string> parts_like(const machine& m, std::string_view pattern);

// The changes that a map of settings asks for. `map` may hold keys that were asked for before; what
// is left is a fault.
std::vector<change> settings_of(const subject& who, yaml::map_reader& map, const machine& m);
std::vector<change> settings_of(const subject& who, const yaml::node& map, const machine& m,
                                std::vector<diagnostic>& faults);

// The same for a map whose values are lists that take turns: one list of changes for each key.
std::vector<std::vector<change>> turns_of(const subject& who, const yaml::node& map,
                                          const machine& m, std::vector<diagnostic>& faults);

}  // namespace terrane::policies::scenario

// A declarative test: policies, a machine, a trace of what happens to it, and the moves that must
// come of it. tests/scenarios/README.md has the format. Runs on one thread, without a clock.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace terrane::policies::tests {

// Runs one scenario file. Returns what was not as expected, one readable text for each; empty when
// all was. Policy files it names are looked for from `root`.
std::vector<std::string> run_scenario(const std::filesystem::path& file,
                                      const std::filesystem::path& root);

}  // namespace terrane::policies::tests

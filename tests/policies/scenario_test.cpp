// Every file in tests/scenarios is a test of its own.
#include "tests/policies/scenario.hpp"

#include <algorithm>
#include <cctype>

#include <gtest/gtest.h>

namespace terrane::policies::tests {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> scenario_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(TERRANE_TEST_DATA) / "scenarios")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

std::string name_of_file(const testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.stem().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class scenario_files_test : public testing::TestWithParam<fs::path> {};

TEST_P(scenario_files_test, gives_its_plan) {
  const fs::path root = fs::path(TERRANE_TEST_DATA).parent_path();
  for (const std::string& problem : run_scenario(GetParam(), root)) ADD_FAILURE() << problem;
}

INSTANTIATE_TEST_SUITE_P(scenarios, scenario_files_test, testing::ValuesIn(scenario_files()),
                         name_of_file);

}  // namespace
}  // namespace terrane::policies::tests

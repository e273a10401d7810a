// Every file in tests/scenarios is a test of its own.
#include <algorithm>
#include <cctype>

#include <gtest/gtest.h>

#include "policies/scenario/run.hpp"

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
  const scenario::report r = scenario::run_file(GetParam());
  EXPECT_TRUE(r.passed()) << to_text(r);
}

INSTANTIATE_TEST_SUITE_P(scenarios, scenario_files_test, testing::ValuesIn(scenario_files()),
                         name_of_file);

}  // namespace
}  // namespace terrane::policies::tests

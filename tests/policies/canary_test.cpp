// A new set of policies: its authors' tests, and what it would do that the old one would not.
#include "policies/canary/canary.hpp"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policies/machine.hpp"

namespace terrane::policies::canary {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::gib;
using tests::machine;

std::string relief(const std::string& above, const std::string& more = "") {
  return "apiVersion: terrane/v1\npolicies:\n  - name: relief\n    for_each: gpu\n" + more +
         "    enter: {metric: vram.used_ratio, above: " + above +
         ", held: 2s}\n"
         "    leave: {metric: vram.used_ratio, below: 50%}\n"
         "    do: {move: layers, to: cpu, until: 256MiB}\n";
}

const std::string expects =
    "scenario: A full card gives a layer up\n"
    "machine:\n  devices:\n    - {name: cpu, total: 32GiB}\n    - {name: gpu, total: 8GiB}\n"
    "  layers: {count: 2, attn: 256MiB, ffn: 256MiB, on: gpu}\n"
    "trace:\n  - {at: 5s, set: {gpu: {others: 6656MiB}}, expect: []}\n"
    "  - {at: 7s, expect: [move layer.1.ffn from gpu to cpu]}\n";

struct canary : testing::Test {
  fs::path folder;
  canary() {
    std::string name = (fs::temp_directory_path() / "terrane_canary_XXXXXX").string();
    folder = mkdtemp(name.data());
  }
  ~canary() override { fs::remove_all(folder); }
  fs::path write(const std::string& name, const std::string& text) {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
    return folder / name;
  }
  static test_report run(const std::vector<fs::path>& paths, bool goes_on = true) {
    return run_tests(paths, [goes_on] { return goes_on; });
  }
};

TEST_F(canary, runs_each_test_beside_the_policies_once) {
  const fs::path policy = write("relief.yaml", relief("90%"));
  write("relief.test.yaml", expects);
  write("below/other.test.yaml", "no test of these");
  EXPECT_EQ(run({policy}).passed, 1u);
  EXPECT_EQ(run({folder}).passed, 1u);
  const test_report both = run({folder, policy});
  EXPECT_EQ(both.passed, 1u);
  EXPECT_THAT(both.faults, IsEmpty());
  EXPECT_EQ(run({write("alone.yaml", relief("90%"))}).passed, 0u);
}

TEST_F(canary, a_test_that_fails_or_cannot_run_is_a_fault_with_its_place) {
  write("relief.yaml", relief("99%"));
  write("relief.test.yaml", expects);
  const test_report failed = run({folder});
  EXPECT_EQ(failed.passed, 0u);
  ASSERT_EQ(failed.faults.size(), 1u);
  EXPECT_THAT(to_string(failed.faults[0]), HasSubstr("relief.test.yaml:9:"));
  EXPECT_THAT(failed.faults[0].message, HasSubstr("test 'A full card gives a layer up'"));
  write("odd.test.yaml", "scenario: Odd\n");
  EXPECT_GT(run({folder}).faults.size(), 1u);
}

TEST_F(canary, tests_that_take_too_long_are_no_pass) {
  write("relief.yaml", relief("90%"));
  write("relief.test.yaml", expects);
  const test_report r = run({folder}, false);
  ASSERT_EQ(r.faults.size(), 1u);
  EXPECT_THAT(r.faults[0].message, HasSubstr("took too long"));
}

TEST_F(canary, tells_what_would_now_be_different_and_changes_nothing) {
  const auto set = [](const std::string& text) {
    return *policy_set::from_sources({{"relief.yaml", text}});
  };
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("gpu", 8 * gib, 5.5 * gib);
  m.add_layers(2, 0.25 * gib, 0.25 * gib, "gpu");
  const snapshot now = m.at(0);
  const pipeline_state state;
  const policy_set_ptr old = set(relief("90%")), eager = set(relief("75%"));
  EXPECT_THAT(differences(*old, *old, now, state), IsEmpty());
  EXPECT_THAT(differences(*old, *eager, now, state),
              ElementsAre(HasSubstr("these now move layer.1.ffn from gpu to cpu, 256 MiB")));
  EXPECT_THAT(differences(*eager, *old, now, state),
              ElementsAre(HasSubstr("these no longer move layer.1.ffn from gpu to cpu")));
  EXPECT_THAT(differences(*old, *set(relief("75%", "    mode: shadow\n")), now, state),
              ElementsAre(HasSubstr("in shadow mode these would now move layer.1.ffn")));
  EXPECT_EQ(state.next_decision, 1u);
}

TEST_F(canary, tells_what_can_never_act_on_this_machine) {
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("gpu", 8 * gib);
  m.add_layers(2, 0.25 * gib, 0.25 * gib, "gpu");
  m.part("layer.0.attn").pinned = m.part("layer.0.ffn").pinned = true;
  const auto told = [&](const std::string& levels, const std::string& what,
                        const std::string& each = "gpu") {
    const auto set = policy_set::from_sources(
        {{"p.yaml", "apiVersion: terrane/v1\npolicies:\n  - name: p\n    for_each: " + each + "\n" +
                        levels + "    do: {move: " + what + ", until: all, to: cpu}\n"}});
    EXPECT_TRUE(set.has_value()) << to_string(set.error().front());
    std::vector<std::string> texts;
    for (const diagnostic& d : what_cannot_act(**set, m.at(0))) texts.push_back(to_string(d));
    return texts;
  };
  const std::string hot =
      "    enter: {metric: temp_c, above: 85C}\n    leave: {metric: temp_c, below: 70C}\n";
  EXPECT_THAT(told(hot, "layers"), IsEmpty());
  EXPECT_THAT(
      told(hot, "layer.0.*"),
      ElementsAre("p.yaml:3:5: warning: policy 'p' moves 'layer.0.*', and the configuration pins "
                  "all 2 that it matches"));
  m.part("layer.1.attn").pinned = m.part("layer.1.ffn").pinned = true;
  const std::string on_battery =
      "    enter: {metric: host.on_battery, is: true}\n"
      "    leave: {metric: host.on_battery, is: false}\n";
  EXPECT_THAT(
      told(on_battery, "parts", "part"),
      ElementsAre("p.yaml:3:5: warning: policy 'p' moves 'parts', and the configuration pins all 4 "
                  "that it matches"));
  EXPECT_THAT(
      told("    only: layer.1.ffn\n" + on_battery, "parts", "part"),
      ElementsAre(HasSubstr("moves 'layer.1.ffn', and the configuration pins layer.1.ffn")));
  m.part("layer.1.attn").pinned = m.part("layer.1.ffn").pinned = false;
  EXPECT_THAT(told(hot, "experts"),
              ElementsAre(HasSubstr("moves 'experts', and the model has no")));
  EXPECT_THAT(told(hot, "layer.9.*"), ElementsAre(HasSubstr("the model has no such part")));
  const std::string levels =
      "    enter: {metric: vram.used, above: 12GiB}\n    leave: {metric: vram.used, below: "
      "10GiB}\n";
  EXPECT_THAT(
      told(levels, "layers"),
      ElementsAre(
          "p.yaml:3:5: warning: policy 'p' never acts for gpu: it waits for vram.used above "
          "12 GiB, and gpu has 8 GiB"));
  EXPECT_THAT(told(levels, "layers", "cpu"), IsEmpty());
  const std::string free_again =
      "    enter: {metric: vram.free, below: 1GiB}\n    leave: {metric: vram.free, above: 9GiB}\n";
  EXPECT_THAT(told(free_again, "layers"), ElementsAre(HasSubstr("never lets go of gpu")));
}

}  // namespace
}  // namespace terrane::policies::canary

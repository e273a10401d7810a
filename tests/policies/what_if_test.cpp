#include "policies/pipeline/what_if.hpp"

#include <gtest/gtest.h>

namespace terrane::policies {
namespace {

snapshot one_gpu() {
  snapshot s;
  s.sequence = 1;
  s.time_ms = 100'000;
  device_state cpu, gpu;
  cpu.name = "cpu";
  cpu.kind = device_kind::cpu;
  cpu.vram_total = {64e9, s.time_ms, 1000};
  cpu.vram_used = {1e9, s.time_ms, 1000};
  gpu.name = "vulkan:abc";
  gpu.kind = device_kind::gpu;
  gpu.vram_total = {1e9, s.time_ms, 1000};
  gpu.vram_used = {0.5e9, s.time_ms, 1000};
  s.devices = {cpu, gpu};
  for (int layer = 0; layer < 4; layer++) {
    part_state p;
    p.name = "layer." + std::to_string(layer) + ".ffn";
    p.layer = layer;
    p.device = gpu.name;
    p.weight_bytes = 100'000'000;
    s.parts.push_back(p);
  }
  return s;
}

policy_set_ptr spill() {
  auto set = policy_set::from_sources({{"spill.yaml", R"(apiVersion: terrane/v1
policies:
  - name: spill
    for_each: gpu
    enter: {metric: vram.used_ratio, above: 92%, held: 5s}
    leave: {metric: vram.used_ratio, below: 84%, held: 30s}
    do: {move: layers, order: top_down, until: leave, to: cpu}
)"}});
  EXPECT_TRUE(set.has_value()) << to_string(set.error().front());
  return *set;
}

TEST(what_if, an_assumption_fires_a_policy_as_if_it_had_held) {
  snapshot s = one_gpu();
  pipeline_state state;
  EXPECT_TRUE(evaluate_as_if_held(*spill(), s, state).records.empty());
  EXPECT_EQ(assume(s, {"vram.used_ratio", "vulkan", 0.97}), "");
  pipeline_state fresh;
  const decision d = evaluate_as_if_held(*spill(), s, fresh);
  ASSERT_EQ(d.records.size(), 1U);
  EXPECT_EQ(d.planned.moves.size(), 2U);  // 130 MB over the leave level, 100 MB a part
}

TEST(what_if, tells_who_would_take_away_again_what_a_person_puts_somewhere) {
  snapshot s = one_gpu();
  s.parts.back().device = "cpu";
  s.devices[1].vram_used.value = 0.9e9;
  const pipeline_state state;
  // 0.1 GB more, and the card is full.
  const auto back = taken_away_again(*spill(), s, state, {"layer.3.ffn"}, "vulkan:abc");
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(back[0].policy, "spill");
  EXPECT_EQ(back[0].to, "cpu");
  EXPECT_EQ(back[0].reason, "vram.used_ratio is 100 % (above 92 %)");
  s.devices[1].vram_used.value = 0.8e9;
  EXPECT_TRUE(taken_away_again(*spill(), s, state, {"layer.3.ffn"}, "vulkan:abc").empty());
  EXPECT_TRUE(taken_away_again(*spill(), s, state, {"layer.0.ffn"}, "cpu").empty());
}

TEST(what_if, refuses_what_cannot_be_assumed) {
  snapshot s = one_gpu();
  EXPECT_NE(assume(s, {"vram.colour", "vulkan", 1}), "");
  EXPECT_NE(assume(s, {"vram.used", "cuda", 1}), "");
  EXPECT_NE(assume(s, {"idle_s", "vulkan", 1}), "");
}

TEST(what_if, refuses_what_no_machine_reads) {
  snapshot s = one_gpu();
  EXPECT_EQ(assume(s, {"vram.used_ratio", "vulkan", -3}),
            "'vram.used_ratio' is never -300 %: it is a share of a whole, from 0 to 1");
  EXPECT_NE(assume(s, {"vram.used_ratio", "vulkan", 97}), "");
  EXPECT_EQ(assume(s, {"fan_ratio", "vulkan", 1.2}), "");
  EXPECT_EQ(assume(s, {"fan_ratio", "vulkan", -1}),
            "'fan_ratio' is never -100 %: it is a share, not below 0");
  EXPECT_NE(assume(s, {"vram.used", "vulkan", -1}), "");
  EXPECT_EQ(assume(s, {"vram.used", "vulkan", 900e9}), "vulkan:abc has only 954 MiB");
  EXPECT_EQ(assume(s, {"temp_c", "vulkan", -10}), "");
  EXPECT_NE(assume(s, {"host.on_battery", "host", 0.5}), "");
  EXPECT_EQ(assume(s, {"host.on_battery", "host", 1}), "");
}

TEST(what_if, a_dry_run_is_of_the_moment_that_was_asked_about) {
  snapshot s = one_gpu();
  ASSERT_EQ(assume(s, {"vram.used_ratio", "vulkan", 0.97}), "");
  pipeline_state state;
  const decision d = evaluate_as_if_held(*spill(), s, state);  // after five seconds
  ASSERT_EQ(d.records.size(), 1U);
  EXPECT_EQ(d.records[0].time_ms, s.time_ms);
  EXPECT_EQ(d.records[0].snapshot_sequence, s.sequence);
  EXPECT_EQ(d.planned.snapshot_sequence, s.sequence);
}

}  // namespace
}  // namespace terrane::policies

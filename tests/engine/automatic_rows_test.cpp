// How many rows a step has where nobody says so.
#include <gtest/gtest.h>

#include "engine/device/cpu/cpu_device.hpp"
#include "engine/placement/scratch.hpp"
#include "engine/session/workspace.hpp"
#include "tests/bench/forwarding_device.hpp"
#include "tests/bench/synth.hpp"
#include "tests/engine/gguf/temporary_folder.hpp"

namespace terrane::engine {
namespace {

constexpr std::uint64_t gib = 1ULL << 30;

// A card that has so much memory of its own. It computes nothing here.
struct card : bench::forwarding_device {
  explicit card(std::uint64_t bytes) : forwarding_device(make_cpu_device().value()) {
    info_.host_memory = false;
    info_.memory_bytes = bytes;
  }
};

class automatic_rows_of_a_step : public testing::Test {
 protected:
  void SetUp() override {
    const auto path = folder_.at("tiny.gguf");
    ASSERT_TRUE(bench::synthesize("tiny", "Q4_1", path, 1));
    model_ = model::open(path).value();
    options_.context_tokens = 512;
  }
  std::uint32_t rows(const std::vector<device*>& devices) {
    return automatic_rows(devices, *model_, options_);
  }
  test::temporary_folder folder_;
  std::unique_ptr<const model> model_;
  engine_options options_;
};

TEST_F(automatic_rows_of_a_step, are_few_in_the_hosts_memory) {
  const auto cpu = make_cpu_device().value();
  EXPECT_EQ(rows({cpu.get()}), engine_options().rows);
}

TEST_F(automatic_rows_of_a_step, are_many_on_a_card_with_room) {
  card large(64 * gib), tiny(gib / 256);
  EXPECT_EQ(rows({&large}), 2048U);
  EXPECT_EQ(rows({&tiny}), engine_options().rows);
  EXPECT_EQ(rows({&large, &tiny}), engine_options().rows);
}

TEST_F(automatic_rows_of_a_step, are_as_many_as_a_small_part_of_its_memory_holds) {
  card small(2 * gib);
  const std::uint32_t fitting = rows({&small});
  ASSERT_GT(fitting, engine_options().rows);
  ASSERT_LT(fitting, 2048U);
  const auto more_bytes = [&](std::uint32_t wanted) {
    engine_options o = options_;
    o.attention_bytes = 1;
    const std::uint64_t before = scratch_bytes(small, {&small}, *model_, o);
    o.rows = wanted;
    return scratch_bytes(small, {&small}, *model_, o) - before;
  };
  EXPECT_LE(more_bytes(fitting), 2 * gib / 256);
  EXPECT_GT(more_bytes(2 * fitting), 2 * gib / 256);
}

// Partial results of attention, here the most by far, have a bound of their own.
TEST_F(automatic_rows_of_a_step, are_no_fewer_with_a_long_context) {
  card large(64 * gib);
  options_.context_tokens = 16384;
  EXPECT_EQ(rows({&large}), 2048U);
}

// Rows of activations in kinds that no matrix takes would be half of a step's memory.
TEST_F(automatic_rows_of_a_step, have_activations_in_the_kinds_that_matrices_take) {
  card large(64 * gib);
  const workspace_shape shape{.context_tokens = 512};
  const auto space = workspace::on_paper(large, *model_, shape);
  EXPECT_GT(space->at().q8_by_32.bytes, 0U);
  EXPECT_EQ(space->at().q8_by_256.bytes, 0U);
  EXPECT_EQ(space->at().f16.bytes + space->at().f32.bytes, 0U);
  const auto path = folder_.at("tiny_f16.gguf");
  ASSERT_TRUE(bench::synthesize("tiny", "F16", path, 1));
  const std::unique_ptr<const model> halves = model::open(path).value();
  EXPECT_GT(workspace::on_paper(large, *halves, shape)->at().f16.bytes, 0U);
}

}  // namespace
}  // namespace terrane::engine

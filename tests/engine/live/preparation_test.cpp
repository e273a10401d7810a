// What a move makes its target do before the commit.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "tests/bench/forwarding_device.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::test {
namespace {

// Keeps count of what runs on it: the most rows of any list, as the grids of its kernels say.
class counting_device final : public bench::forwarding_device {
 public:
  explicit counting_device(std::unique_ptr<engine::device> inner)
      : forwarding_device(std::move(inner)) {}
  result<std::unique_ptr<engine::command_list>> record(
      std::span<const engine::dispatch> phases) override {
    auto made = forwarding_device::record(phases);
    if (made)
      for (const engine::dispatch& d : phases) {
        std::uint32_t& rows = rows_[made->get()];
        rows = std::max(rows, d.groups_y);
      }
    return made;
  }
  result<void> submit(engine::command_list& list) override {
    lists++;
    most_rows = std::max(most_rows, rows_[&list]);
    return forwarding_device::submit(list);
  }
  std::uint32_t most_rows = 0, lists = 0;

 private:
  std::map<const engine::command_list*, std::uint32_t> rows_;
};

// The steps of a prompt are recorded for the target, too, but not run for nothing.
TEST(preparation, warms_a_target_by_steps_of_few_rows) {
  auto model = engine::model::open(tiny_model("tiny", "Q4_1"));
  ASSERT_TRUE(model.has_value());
  std::vector<std::unique_ptr<engine::device>> devices;
  for (int d = 0; d < 2; d++) {
    auto cpu = engine::open_device("cpu", {});
    ASSERT_TRUE(cpu.has_value());
    devices.push_back(std::move(*cpu));
  }
  auto counting = std::make_unique<counting_device>(std::move(devices[1]));
  const counting_device& target = *counting;
  devices[1] = std::move(counting);
  engine::engine_options options;
  options.context_tokens = 512;
  auto e = engine::inference_engine::start(std::move(*model), std::move(devices), options);
  ASSERT_TRUE(e.has_value());

  engine::generate_request r;
  r.prompt = bench::random_tokens(**e, 64, 5);
  r.max_tokens = 4;
  r.keep = true;
  auto reply = std::make_shared<bench::recorder>();
  ASSERT_TRUE((*e)->generate(std::move(r), reply).has_value());
  reply->wait();
  const std::uint32_t lists_before = target.lists;
  engine::move_request all;
  for (engine::part_index p = 0; p < (*e)->loaded_model().parts().size(); p++)
    all.parts.push_back({p, 1});
  const engine::move_status moved = bench::move_and_wait(**e, std::move(all), [] {});
  ASSERT_EQ(moved.state, engine::move_state::committed)
      << (moved.failure ? to_string(*moved.failure) : "");
  EXPECT_GT(target.lists, lists_before);
  EXPECT_LE(target.most_rows, 8U);
}

}  // namespace
}  // namespace terrane::test

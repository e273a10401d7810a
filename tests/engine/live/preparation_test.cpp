// What a move makes its target do before the commit.
#include <algorithm>
#include <atomic>
#include <future>
#include <map>

#include <gtest/gtest.h>

#include "tests/bench/forwarding_device.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::test {
namespace {

using namespace std::chrono_literals;

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

struct counted_engine {
  counting_device* target = nullptr;
  std::unique_ptr<engine::inference_engine> engine;
  explicit counted_engine(engine::engine_options options = {}) {
    engine = engine_on_two_cpus(
        [&](std::unique_ptr<engine::device> cpu) {
          auto counting = std::make_unique<counting_device>(std::move(cpu));
          target = counting.get();
          return counting;
        },
        std::move(options));
  }
  // Lists that a move makes its target run, after replies of several sizes of step.
  std::uint32_t lists_of_a_move() {
    std::vector<std::shared_ptr<bench::recorder>> replies;
    for (std::size_t prompt : {64, 30, 7}) {
      engine::generate_request r = request(*engine, prompt, 4);
      r.keep = true;
      replies.push_back(std::make_shared<bench::recorder>());
      EXPECT_TRUE(engine->generate(std::move(r), replies.back()).has_value());
    }
    for (const auto& reply : replies) reply->wait();
    const std::uint32_t before = target->lists;
    const engine::move_status moved =
        bench::move_and_wait(*engine, bench::everything_to(*engine, 1));
    EXPECT_EQ(moved.state, engine::move_state::committed)
        << (moved.failure ? to_string(*moved.failure) : "");
    return target->lists - before;
  }
};

// The steps of a prompt are recorded for the target, too, but not run for nothing.
TEST(preparation, warms_a_target_by_steps_of_few_rows) {
  counted_engine at;
  EXPECT_GT(at.lists_of_a_move(), 0U);
  EXPECT_LE(at.target->most_rows, 8U);
}

// On a software device beside a reply each of them takes as long as many tokens.
TEST(preparation, warms_a_target_no_longer_than_it_may) {
  engine::engine_options options;
  options.warming = 0ms;
  EXPECT_EQ(counted_engine(options).lists_of_a_move(), 1U);
  options.warming = 1h;
  EXPECT_GT(counted_engine(options).lists_of_a_move(), 1U);
}

// Where a step ends only when it is told to.
class held_device final : public bench::forwarding_device {
 public:
  using forwarding_device::forwarding_device;
  result<void> wait() override {
    if (hold.exchange(false)) {
      held.set_value();
      released.get_future().wait();
    }
    return forwarding_device::wait();
  }
  std::atomic<bool> hold{false};
  std::promise<void> held, released;
};

// A step may take seconds where a device is slow: only the commit waits for it.
TEST(preparation, goes_on_in_the_middle_of_a_step) {
  held_device* source = nullptr;
  const auto e = engine_on_two_cpus([&](std::unique_ptr<engine::device> cpu) {
    auto made = std::make_unique<held_device>(std::move(cpu));
    source = made.get();
    return made;
  });
  auto expected = std::make_shared<bench::recorder>();
  ASSERT_TRUE(e->generate(request(*e, 40, 20), expected).has_value());
  expected->wait();
  ASSERT_EQ(bench::move_and_wait(*e, bench::everything_to(*e, 1)).state,
            engine::move_state::committed);
  auto reply = std::make_shared<bench::recorder>();
  reply->after_token = [&](std::size_t n) { source->hold = n == 3; };
  ASSERT_TRUE(e->generate(request(*e, 40, 20), reply).has_value());
  source->held.get_future().wait();

  std::promise<void> brought;
  std::promise<engine::move_state> ended;
  bool told = false;
  ASSERT_TRUE(e->move(bench::everything_to(*e, 0), [&](const engine::move_status& s) {
                 if (s.state != engine::move_state::preparing) ended.set_value(s.state);
                 if (!told && s.bytes_done > 0) brought.set_value();
                 told |= s.bytes_done > 0;
               }).has_value());
  EXPECT_EQ(brought.get_future().wait_for(10s), std::future_status::ready);
  auto status = std::async(std::launch::async, [&] { return e->status(); });
  EXPECT_EQ(status.wait_for(10s), std::future_status::ready);
  source->released.set_value();
  EXPECT_EQ(status.get().sessions.size(), 1U);
  EXPECT_EQ(ended.get_future().get(), engine::move_state::committed);
  reply->wait();
  EXPECT_EQ(reply->hashes, expected->hashes);
}

}  // namespace
}  // namespace terrane::test

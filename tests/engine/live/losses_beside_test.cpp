// A device that is lost while something else goes on that uses devices: kernels are timed, or the
// engine ends.
#include <atomic>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "tests/engine/live/losable_device.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::test {
namespace {

using namespace std::chrono_literals;

// Three devices; what is lost goes to the last.
engine::engine_options to_the_last(refuge_reports* told) {
  engine::engine_options o;
  o.context_tokens = 512;
  o.choose_refuge = [](const engine::lost_placement& from) {
    std::vector<std::uint32_t> where = from.parts;
    for (std::uint32_t& d : where)
      if (from.lost[d]) d = 2;
    return where;
  };
  if (told != nullptr) o.on_refuge = [told](const engine::refuge_report& r) { told->add(r); };
  return o;
}

void lose(const losable_engine& at, std::uint32_t device) {
  at.devices[device]->lose_at(1);
  EXPECT_FALSE(at.devices[device]->wait().has_value());
  at.engine->look_for_lost_devices();
}

// The parts go to the very card whose kernels are being timed: they come once that has ended, which
// is soon.
TEST(losses_beside, kernels_that_are_timed_end_that_first) {
  refuge_reports told;
  losable_engine at = start_losable("tiny", "Q4_1", 3, to_the_last(&told));
  engine::inference_engine& e = *at.engine;
  ASSERT_EQ(bench::move_and_wait(e, bench::everything_to(e, 1)).state,
            engine::move_state::committed);
  // Calls of that card by others, and how many there had been when its kernels were timed last.
  std::atomic<bool> lost{false};
  std::atomic<std::size_t> by_others{0};
  std::size_t beside = 0, timed = 0;
  at.devices[2]->at_each_call([&, timing = std::this_thread::get_id()] {
    if (!lost) return;
    if (std::this_thread::get_id() != timing) {
      by_others++;
      return;
    }
    beside = by_others;
    timed++;
  });
  const auto report = e.tune(2, 10min, [&](const engine::tuning_progress&) {
    if (!lost) lose(at, 1);
    lost = true;
    return true;
  });
  ASSERT_TRUE(report.has_value()) << to_string(report.error());
  EXPECT_TRUE(report->given_up);
  EXPECT_GT(timed, 0U);
  EXPECT_EQ(beside, 0U) << "moved to a card whose kernels are being timed";
  EXPECT_FALSE(told.wait_for(1).failure.has_value());
  for (const engine::part_status& p : e.status().parts) EXPECT_EQ(p.device, 2U);
}

// At each call of the device that the parts go to: nothing is waited for, and the reply that waits
// hears that it was stopped.
TEST(losses_beside, an_engine_that_ends_gives_up_their_refuge) {
  for (std::size_t n = 1;; n += n < 10 ? 1 : 9) {
    losable_engine at = start_losable("tiny", "Q4_1", 3, to_the_last(nullptr));
    engine::inference_engine& e = *at.engine;
    ASSERT_EQ(bench::move_and_wait(e, bench::everything_to(e, 1)).state,
              engine::move_state::committed);
    std::promise<void> reached, ends;
    at.devices[2]->call_at(n, [&] {
      reached.set_value();
      ends.get_future().wait();
    });
    auto reply = std::make_shared<bench::recorder>();
    reply->after_token = [&](std::size_t count) {
      if (count == 2) at.devices[1]->lose_at(1);
    };
    ASSERT_TRUE(e.generate(request(e, 40, 20), reply).has_value());
    auto in_refuge = reached.get_future();
    while (in_refuge.wait_for(1ms) != std::future_status::ready && !reply->ended()) continue;
    if (in_refuge.wait_for(0ms) != std::future_status::ready) {  // it was over before
      EXPECT_EQ(reply->wait().reason, engine::stop_reason::max_tokens);
      EXPECT_GT(n, 20U);
      return;
    }
    auto ended = std::async(std::launch::async, [&] { at.engine.reset(); });
    ends.set_value();
    ended.wait();
    const engine::stop_reason why = reply->wait().reason;
    EXPECT_TRUE(why == engine::stop_reason::stopped || why == engine::stop_reason::max_tokens)
        << "at call " << n << ": " << engine::to_string(why);
  }
}

}  // namespace
}  // namespace terrane::test

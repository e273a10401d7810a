// Loading beside the daemon's main thread: what it gives, and giving up.
#include "daemon/lifetime/load_thread.hpp"

#include <future>

#include <gtest/gtest.h>

#include "tests/engine/live/tiny_model.hpp"

namespace terrane::daemon {
namespace {

config on_the_cpu(const std::filesystem::path& model) {
  config c;
  c.model_file = model;
  c.context_tokens = 64;
  c.devices.push_back({"cpu", 1, 0, 0});
  return c;
}

// What came of a start, when it has ended.
class waiting_loader {
 public:
  load_thread thread{[this] { ended_.set_value(); }};

  result<started_engine> outcome() {
    ended_.get_future().wait();
    ended_ = {};
    auto taken = thread.take();
    EXPECT_TRUE(taken.has_value());
    EXPECT_FALSE(thread.take().has_value()) << "it is given once";
    return taken ? std::move(*taken) : fail(error_code::not_found, "nothing to take");
  }

 private:
  std::promise<void> ended_;
};

TEST(load_thread, gives_an_engine_after_it_gave_an_error) {
  waiting_loader loader;
  const config missing = on_the_cpu(test::test_folder() / "missing.gguf");
  loader.thread.start(missing, {});
  result<started_engine> none = loader.outcome();
  ASSERT_FALSE(none.has_value());
  EXPECT_NE(to_string(none.error()).find("missing.gguf"), std::string::npos);

  const config good = on_the_cpu(test::tiny_model("tiny", "Q4_1"));
  start_settings settings;
  settings.cache_folder = test::test_folder() / "cache";
  loader.thread.start(good, settings);
  result<started_engine> some = loader.outcome();
  ASSERT_TRUE(some.has_value()) << to_string(some.error());
  EXPECT_EQ(some->engine->devices().size(), 1U);
}

TEST(load_thread, a_start_that_is_given_up_ends_as_cancelled) {
  const config good = on_the_cpu(test::tiny_model("tiny", "Q4_1"));
  std::promise<void> opening, go_on;
  start_settings settings;
  settings.open_device = [&](const std::string& name, const engine::device_settings& s) {
    opening.set_value();
    go_on.get_future().wait();
    return engine::open_device(name, s);
  };
  waiting_loader loader;
  loader.thread.start(good, settings);
  opening.get_future().wait();
  loader.thread.give_up();
  go_on.set_value();
  result<started_engine> given_up = loader.outcome();
  ASSERT_FALSE(given_up.has_value());
  EXPECT_EQ(given_up.error().code, error_code::cancelled);
}

}  // namespace
}  // namespace terrane::daemon

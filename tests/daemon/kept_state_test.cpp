// What outlives the daemon: times over restarts and reboots, damage, the file.
#include "daemon/state/kept_state.hpp"

#include <fstream>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "daemon/process/left_behind.hpp"
#include "daemon/state/state_file.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::daemon {
namespace {

namespace fs = std::filesystem;
using policies::reading;
using testing::HasSubstr;

constexpr std::int64_t hour = 3'600'000;

kept_state some_state() {
  kept_state kept;
  policies::object_latch gpu{"gpu", {}};
  gpu.latch.phase = policies::latch_phase::engaged;
  gpu.latch.changed_ms = 90'000;
  gpu.latch.retry_ms = 130'000;
  kept.memory.policies.push_back({"hot", {gpu}, {}, 0, reading::never});
  policies::flap_memory flap;
  flap.pinned_until_ms = 100'000 + hour;
  flap.device = "gpu";
  kept.memory.flaps[{policies::subject_kind::part, "layer.0.ffn"}] = flap;
  kept.memory.held[{policies::subject_kind::part, "head"}].by.push_back({"hot", "gpu", false, ""});
  kept.memory.next_decision = 42;
  kept.disabled = {"cold"};
  kept.yields = {{"gpu", 95'000, 100'000 + 2 * hour, "user 7"},
                 {"cpu", 95'000, reading::never, "x"}};
  return kept;
}

const instant written{"boot a", 500'000, 1'800'000'000'000, 100'000};

TEST(kept_state, comes_back_on_the_same_boot_with_what_passed_counted_by_the_boot_clock) {
  const std::string text = to_text(some_state(), written, "m");
  // An hour passed, of which the monotonic clock saw a minute; somebody set the wall clock back.
  const instant later{"boot a", 500'000 + hour, 1'700'000'000'000, 160'000};
  const auto back = from_text(text, later, "m");
  ASSERT_TRUE(back.has_value()) << back.error();
  EXPECT_EQ(back->memory.next_decision, 42U);
  EXPECT_EQ(back->disabled, std::vector<std::string>{"cold"});
  const policies::latch_state& latch = back->memory.policies.at(0).latches.at(0).latch;
  EXPECT_EQ(latch.phase, policies::latch_phase::engaged);
  EXPECT_EQ(latch.changed_ms, 160'000 - hour - 10'000);
  EXPECT_EQ(latch.retry_ms, 160'000 - hour + 30'000);
  EXPECT_EQ(back->memory.flaps.begin()->second.pinned_until_ms, 160'000);
  ASSERT_EQ(back->yields.size(), 2U);
  EXPECT_EQ(back->yields[0].until_ms, 160'000 + hour);
  EXPECT_EQ(back->yields[0].by, "user 7");
  EXPECT_EQ(back->yields[1].until_ms, reading::never);
}

TEST(kept_state, after_a_reboot_the_wall_clock_says_what_passed_within_bounds) {
  const auto passed = [](std::int64_t unix_ms) {
    return passed_ms(written, {"boot b", 10'000, unix_ms, 9'000});
  };
  EXPECT_EQ(passed(written.unix_ms + 60'000), 60'000);
  EXPECT_EQ(passed(written.unix_ms - 60'000), 0);
  EXPECT_EQ(passed(written.unix_ms + 400 * 24 * hour), 7 * 24 * hour);
  const std::string text = to_text(some_state(), written, "m");
  const instant booted{"boot b", 10'000, written.unix_ms + 3 * hour, 9'000};
  const auto back = from_text(text, booted, "m");
  ASSERT_TRUE(back.has_value()) << back.error();
  EXPECT_EQ(back->memory.policies[0].latches[0].latch.changed_ms, 9'000 - 3 * hour - 10'000);
  ASSERT_EQ(back->yields.size(), 1U);  // the one of two hours is over
  EXPECT_EQ(back->yields[0].device, "cpu");
}

TEST(kept_state, of_another_model_nothing_about_parts_comes_back) {
  const auto back = from_text(to_text(some_state(), written, "m"), written, "another");
  ASSERT_TRUE(back.has_value()) << back.error();
  EXPECT_TRUE(back->memory.held.empty());
  EXPECT_TRUE(back->memory.flaps.empty());
  EXPECT_EQ(back->memory.policies.size(), 1U);
  EXPECT_EQ(back->disabled.size(), 1U);
}

TEST(kept_state, damage_is_named_whatever_byte_it_is) {
  const std::string text = to_text(some_state(), written, "m");
  const auto error = [](const std::string& bad) {
    const auto back = from_text(bad, written, "m");
    return back ? "" : back.error();
  };
  EXPECT_EQ(error(text), "");
  EXPECT_THAT(error(""), HasSubstr("damaged"));
  EXPECT_THAT(error("{}\n"), HasSubstr("no state of terraned"));
  EXPECT_THAT(error("[1]\n"), HasSubstr("no state of terraned"));
  EXPECT_THAT(error(text.substr(0, text.size() - 9)), HasSubstr("its sum is another"));
  std::string older = text;
  older.replace(older.find("\"terraned_state\":1"), 18, "\"terraned_state\":0");
  EXPECT_THAT(error(older), HasSubstr("it has version 0"));
  for (std::size_t i = 0; i < text.size(); i++) {
    std::string bad = text;
    bad[i] = bad[i] == '7' ? '8' : '7';
    EXPECT_NE(error(bad), "") << i;
  }
}

struct state_file_test : testing::Test {
  fs::path folder =
      test::test_folder() / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(state_file_test, what_is_no_file_is_told_and_not_waited_for) {
  fs::create_directories(folder);
  ASSERT_EQ(mkfifo((folder / "s").c_str(), 0600), 0);
  state_file file(folder / "s");
  EXPECT_EQ(file.read().text, std::nullopt);
  EXPECT_EQ(file.read().trouble, "it is not a regular file");
}

TEST_F(state_file_test, keeps_what_was_put_last_and_leaves_a_bad_one_aside) {
  {
    state_file file(folder / "below" / "s");
    EXPECT_EQ(file.read().text, std::nullopt);
    EXPECT_EQ(file.read().trouble, "");
    for (int i = 0; i < 100; i++) file.put(std::to_string(i));
  }
  state_file file(folder / "below" / "s");
  EXPECT_EQ(file.read().text, "99");
  const std::string aside = file.leave_aside(".left-aside");
  EXPECT_THAT(aside, HasSubstr("s.left-aside"));
  EXPECT_TRUE(fs::exists(aside));
  EXPECT_EQ(file.read().text, std::nullopt);
  EXPECT_EQ(file.trouble(), "");
}

TEST_F(state_file_test, a_link_stays_one_and_leads_to_the_newest) {
  fs::create_directories(folder / "elsewhere");
  std::ofstream(folder / "elsewhere" / "real") << "old";
  fs::create_symlink("elsewhere/real", folder / "s");
  state_file file(folder / "s");
  EXPECT_EQ(file.read().text, "old");
  EXPECT_EQ(file.wait(file.put("new"), std::chrono::seconds(10)), "");
  EXPECT_TRUE(fs::is_symlink(folder / "s"));
  EXPECT_EQ(file.read().text, "new");
  EXPECT_EQ(state_file(folder / "elsewhere" / "real").read().text, "new");
}

// Perhaps of a disk that is not mounted: the link is left aside, and what is kept lies in its
// place.
TEST_F(state_file_test, a_link_that_leads_nowhere_is_a_trouble) {
  fs::create_directories(folder);
  fs::create_symlink("/nowhere/real", folder / "s");
  state_file file(folder / "s");
  EXPECT_EQ(file.read().text, std::nullopt);
  EXPECT_EQ(file.read().trouble, "it is a link to /nowhere/real, which is not there");
  EXPECT_NE(file.leave_aside(".unreadable"), "");
  EXPECT_TRUE(fs::is_symlink(folder / "s.unreadable"));
  EXPECT_EQ(file.wait(file.put("new"), std::chrono::seconds(10)), "");
  EXPECT_EQ(file.read().text, "new");
}

TEST_F(state_file_test, who_waits_finds_on_the_disk_what_it_put) {
  state_file file(folder / "s");
  for (int i = 0; i < 20; i++) {
    file.put("older");
    EXPECT_EQ(file.wait(file.put(std::to_string(i)), std::chrono::seconds(10)), "");
    EXPECT_EQ(state_file(folder / "s").read().text, std::to_string(i));
  }
}

TEST_F(state_file_test, what_cannot_be_moved_aside_is_not_overwritten) {
  fs::create_directories(folder / "s.unreadable" / "in the way");
  std::ofstream(folder / "s") << "precious";
  {
    state_file file(folder / "s");
    EXPECT_EQ(file.leave_aside(".unreadable"), "");
    EXPECT_THAT(file.trouble(), HasSubstr("cannot move aside"));
    EXPECT_THAT(file.wait(file.put("new"), std::chrono::seconds(10)), HasSubstr("stays as it is"));
  }
  EXPECT_EQ(state_file(folder / "s").read().text, "precious");
}

// A disk that hangs keeps neither an order nor the daemon's end waiting.
TEST_F(state_file_test, a_disk_that_hangs_is_not_waited_for) {
  std::promise<void> answers, called, over;
  {
    state_file file(
        folder / "s",
        [&](const fs::path&, const std::string&) {
          called.set_value();
          answers.get_future().wait();
          over.set_value();
          return std::string();
        },
        std::chrono::milliseconds(0));
    EXPECT_THAT(file.wait(file.put("x"), std::chrono::milliseconds(0)),
                HasSubstr("does not answer"));
    called.get_future().wait();
  }
  EXPECT_EQ(threads_left_behind()--, 1);
  answers.set_value();
  over.get_future().wait();
}

TEST_F(state_file_test, a_place_that_cannot_be_written_is_a_trouble_and_nothing_more) {
  std::ofstream(folder) << "a file";
  state_file file(folder / "s");
  file.put("x");
  for (int i = 0; i < 1'000'000 && file.trouble().empty(); i++) std::this_thread::yield();
  EXPECT_THAT(file.trouble(), HasSubstr("state: cannot make"));
}

}  // namespace
}  // namespace terrane::daemon

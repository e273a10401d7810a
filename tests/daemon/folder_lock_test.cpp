// Folders that one daemon alone may write to.
#include "daemon/process/folder_lock.hpp"

#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "daemon/record/recorder.hpp"
#include "daemon/state/state_file.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::daemon {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

// A lock belongs to who opened the file, so two objects are as good as two processes.
struct folder_lock_test : testing::Test {
  fs::path folder = test::test_folder() / "locked";
  folder_locks ours;
  std::unique_ptr<folder_locks> other = std::make_unique<folder_locks>();
  const folder_locks::wait_call at_once = [] { return false; };

  void SetUp() override { fs::remove_all(folder); }
};

TEST_F(folder_lock_test, one_alone_has_a_folder) {
  EXPECT_EQ(ours.take(folder, at_once), "");
  EXPECT_EQ(ours.take(folder, at_once), "");  // its own
  const std::string why = other->take(folder, at_once);
  EXPECT_THAT(why, HasSubstr(folder.string() + " is used by another terraned (process " +
                             std::to_string(getpid()) + ")"));
}

TEST_F(folder_lock_test, a_link_to_it_is_the_same_folder) {
  EXPECT_EQ(ours.take(folder, at_once), "");
  const fs::path link = test::test_folder() / "link";
  fs::remove(link);
  fs::create_directory_symlink(folder, link);
  EXPECT_EQ(ours.take(link, at_once), "");
  EXPECT_NE(other->take(link, at_once), "");
}

// A daemon that was killed holds it until the kernel has taken it down.
TEST_F(folder_lock_test, one_that_is_about_to_end_is_waited_for) {
  EXPECT_EQ(other->take(folder, at_once), "");
  int waits = 0;
  EXPECT_EQ(ours.take(folder,
                      [&] {
                        if (++waits == 3) other.reset();
                        return true;
                      }),
            "");
  EXPECT_EQ(waits, 3);
}

TEST_F(folder_lock_test, one_that_stays_is_not_waited_for_forever) {
  EXPECT_EQ(other->take(folder, at_once), "");
  int waits = 0;
  EXPECT_NE(ours.take(folder, [&] { return ++waits < 5; }), "");
  EXPECT_EQ(waits, 5);
}

TEST_F(folder_lock_test, a_folder_that_was_made_anew_is_taken_anew) {
  EXPECT_EQ(ours.take(folder, at_once), "");
  fs::remove_all(folder);
  EXPECT_EQ(ours.keep(folder), "");
  EXPECT_NE(other->take(folder, at_once), "");
  fs::remove(folder / ".terraned.lock");
  EXPECT_EQ(ours.keep(folder), "");
  EXPECT_NE(other->take(folder, at_once), "");
}

TEST_F(folder_lock_test, a_folder_that_another_took_meanwhile_is_left_to_it) {
  EXPECT_EQ(ours.take(folder, at_once), "");
  fs::remove_all(folder);
  EXPECT_EQ(other->take(folder, at_once), "");
  EXPECT_THAT(ours.keep(folder), HasSubstr("is used by another terraned"));
  other.reset();
  EXPECT_EQ(ours.keep(folder), "");
}

// A lock that was removed between its opening and its locking keeps nobody away.
TEST_F(folder_lock_test, a_lock_that_is_removed_while_it_is_taken_is_taken_anew) {
  for (bool folder_too : {false, true}) {
    bool first = true;
    folder_locks late([&] {
      if (first) fs::remove_all(folder_too ? folder : folder / ".terraned.lock");
      first = false;
    });
    EXPECT_EQ(late.take(folder, at_once), "");
    EXPECT_NE(other->take(folder, at_once), "");
  }
  folder_locks never([&] { fs::remove(folder / ".terraned.lock"); });
  EXPECT_THAT(never.take(folder, at_once), HasSubstr("is removed again and again"));
}

// Each has a folder of its own, but both states lead to one file.
TEST_F(folder_lock_test, what_a_link_leads_to_is_written_by_one_alone) {
  const fs::path mine = folder / "mine" / "s", theirs = folder / "theirs" / "s",
                 real = folder / "real" / "s";
  for (const fs::path& p : {mine, theirs, real}) fs::create_directories(p.parent_path());
  std::ofstream(real) << "old";
  for (const fs::path& p : {mine, theirs}) fs::create_symlink(real, p);
  const auto first = state_file::under(std::make_shared<folder_locks>()),
             second = state_file::under(std::make_shared<folder_locks>());
  EXPECT_EQ(first(mine, "first"), "");
  EXPECT_THAT(second(theirs, "second"), HasSubstr("is used by another terraned"));
  EXPECT_EQ(state_file(mine).read().text, "first");
  EXPECT_FALSE(fs::exists(real.string() + ".new"));
}

TEST_F(folder_lock_test, no_recording_is_begun_in_a_folder_of_another) {
  record_settings settings;
  settings.folder = folder;
  settings.refused = [&] { return ours.keep(folder); };
  EXPECT_EQ(other->take(folder, at_once), "");
  trace_files files(settings);
  files.begin("begin\n");
  trace_files::progress p;
  while ((p = files.look()).of == trace_files::outcome::waiting) std::this_thread::yield();
  EXPECT_EQ(p.of, trace_files::outcome::failed);
  EXPECT_THAT(p.why, HasSubstr("is used by another terraned"));
  EXPECT_FALSE(fs::exists(folder / "trace-00000001.jsonl"));
}

}  // namespace
}  // namespace terrane::daemon

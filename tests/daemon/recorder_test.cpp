// Recording: an hour of the control loop replays bit for bit, from every file, in this process and
// another; disks that are full or hang hold nothing up.
#include "daemon/record/recorder.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <future>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/loop/control_loop.hpp"
#include "tests/bench/bench_model.hpp"
#include "tests/daemon/fixture.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::daemon {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* folder_variable = "TERRANE_TEST_RECORD";

// Temperatures that swing, by the ticks' numbers alone.
class swinging final : public telemetry_source {
 public:
  std::string_view name() const override { return "thermometer"; }
  void sample(policies::snapshot& s) override {
    const auto second = static_cast<double>(s.sequence % 300);
    s.devices[0].temp_c = {second < 100 ? 91.3 : 40.1, s.time_ms, 1000};
    s.devices[1].temp_c = {50.0 + second / 100, s.time_ms, 1000};
    s.devices[0].utilisation = {second / 300, s.time_ms, 1000};
  }
};

const std::string policy_text =
    "apiVersion: terrane/v1\npolicies:\n"
    "  - name: hot\n    for_each: device\n    min_stay: 0s\n    flapping: {times: 20, per: 1m}\n"
    "    enter: {metric: temp_c, above: 85C, held: 5s}\n"
    "    leave: {metric: temp_c, below: 60C, held: 30s}\n"
    "    do: {move: layers, to: most_free_gpu}\n    undo: restore\n";

policies::policy_set_ptr hot_policy() {
  return *policies::policy_set::from_sources({{"hot.yaml", policy_text}});
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

std::vector<policies::trace::replay_report> replay_all(const fs::path& folder) {
  std::vector<policies::trace::replay_report> reports;
  for (const fs::path& file : files_in(folder)) {
    std::ifstream in(file);
    reports.push_back(policies::trace::replay(in));
    EXPECT_FALSE(reports.back().fault) << file << ": " << reports.back().fault->message;
    EXPECT_EQ(reports.back().differences, 0U) << report_text(reports.back());
  }
  return reports;
}

// A disk that a test fills, empties, and holds up.
struct test_disk {
  std::atomic<bool> full{false};
  std::atomic<int> writes{0};
  std::shared_future<void> gate;

  ssize_t write(int file, const char* bytes, std::size_t count) {
    if (gate.valid()) gate.wait();
    writes++;
    if (!full) return ::write(file, bytes, count);
    if (const ssize_t some = ::write(file, bytes, count / 2); some > 0) return some;
    errno = ENOSPC;
    return -1;
  }
};

struct recorder_test : testing::Test {
  std::int64_t now_ms = 0;
  ipc::event_hub events;
  heard_events heard{events};
  test_engine t = engine_with_a_card();
  fs::path folder =
      test::test_folder() / testing::UnitTest::GetInstance()->current_test_info()->name();

  control_loop make_loop() {
    telemetry_sources sources;
    sources.push_back(make_device_memory_source(t.engine->devices(), {0, 0}, 1000));
    sources.push_back(std::make_unique<swinging>());
    return control_loop(*t.engine, snapshot_builder(*t.engine, std::move(sources), {}),
                        hot_policy(), events, [this] { return now_ms; });
  }
  void run(control_loop& loop, int ticks) {
    for (int i = 0; i < ticks; i++) {
      now_ms += 1000;
      loop.tick();
      // A simulated second is enough for a move.
      while (!t.engine->status().moves.empty()) std::this_thread::yield();
      hear_of_moves(loop);
    }
  }
  // A move is told of after it has left the list; one that follows ends after that. Else simulated
  // seconds could pass before the loop hears of it, and it would give the move up.
  void hear_of_moves(control_loop& loop) {
    const bool issued =
        loop.look([](const auto&, const auto&, const policies::pipeline_state& state, const auto&) {
          return !state.issued.empty();
        });
    if (!issued) return;
    engine::move_request nothing;
    nothing.parts = {{0, t.engine->status().parts[0].device}};
    EXPECT_TRUE(bench::move_and_wait(*t.engine, std::move(nothing)).nothing_moved);
  }
};

TEST_F(recorder_test, an_hour_of_the_control_loop_replays_from_every_file_and_in_another_process) {
  {
    recorder to({folder, 128 << 10, 6});
    control_loop loop = make_loop();
    loop.record(to);
    run(loop, 3600);
  }
  const std::vector<policies::trace::replay_report> reports = replay_all(folder);
  ASSERT_EQ(reports.size(), 6U);
  std::uint64_t decisions = 0;
  for (const auto& r : reports) decisions += r.decisions;
  EXPECT_GT(decisions, 2U);
  EXPECT_EQ(files_in(folder).back().extension(), ".jsonl");
  for (const fs::path& file : files_in(folder)) EXPECT_LT(fs::file_size(file), 160U << 10);

  ASSERT_EQ(setenv(folder_variable, folder.c_str(), 1), 0);
  const std::string program = fs::read_symlink("/proc/self/exe");
  std::string filter = "--gtest_filter=recorder.replays_the_folder_it_is_given";
  std::array<char*, 3> arguments = {const_cast<char*>(program.c_str()), filter.data(), nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments.data(), environ), 0);
  unsetenv(folder_variable);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// Run by the test before in a process of its own.
TEST(recorder, replays_the_folder_it_is_given) {
  const char* folder = std::getenv(folder_variable);
  if (folder == nullptr) GTEST_SKIP() << "for another process";
  EXPECT_EQ(replay_all(folder).size(), 6U);
}

// Whoever asks what would be decided now begins with the state after the tick: moves that the tick
// has taken in must not be counted again. The recording has them.
TEST_F(recorder_test, what_ended_is_recorded_and_then_taken_in) {
  std::size_t seen_after = 0;
  {
    recorder to({folder, 64 << 20, 2});
    control_loop loop = make_loop();
    loop.record(to);
    for (int i = 0; i < 200; i++) {
      run(loop, 1);
      seen_after += loop.look([](const auto&, const policies::snapshot& last, const auto&,
                                 const auto&) { return last.completed.size(); });
    }
  }
  std::ifstream in(files_in(folder).at(0));
  std::size_t recorded = 0;
  policies::trace::replay(in, nullptr,
                          [&](const auto&, const policies::snapshot& s, const auto&, const auto&) {
                            recorded += s.completed.size();
                          });
  EXPECT_GT(recorded, 0U);
  EXPECT_EQ(seen_after, 0U);
}

TEST_F(recorder_test, a_whole_hour_fits_one_file_and_only_what_changes_is_written) {
  {
    recorder to({folder, 64 << 20, 2});
    control_loop loop = make_loop();
    loop.record(to);
    run(loop, 3600);
  }
  const auto reports = replay_all(folder);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].ticks, 3600U);
  EXPECT_GE(reports[0].decisions, 20U);
  EXPECT_GT(reports[0].moves_recorded, 20U);
}

TEST_F(recorder_test, a_full_disk_is_told_once_and_recording_goes_on_when_there_is_room) {
  test_disk disk;
  {
    recorder to({folder, 64 << 20, 2},
                [&](int f, const char* b, std::size_t n) { return disk.write(f, b, n); });
    control_loop loop = make_loop();
    loop.record(to);
    run(loop, 5);
    while (disk.writes < 3) std::this_thread::yield();
    disk.full = true;
    const auto troubled = [&] { return !loop.troubles().empty(); };
    for (int i = 0; i < 100'000 && !troubled(); i++) run(loop, 1), std::this_thread::yield();
    ASSERT_EQ(loop.troubles().size(), 1U);
    EXPECT_THAT(loop.troubles()[0], HasSubstr("cannot write"));
    EXPECT_THAT(loop.troubles()[0], HasSubstr("No space left on device"));
    run(loop, 10);
    EXPECT_EQ(heard.of(ipc::event_kind::warning).size(), 1U);
    run(loop, 200);  // it is tried again and again, and what there is stays
    disk.full = false;
    run(loop, 61);
    for (int i = 0; i < 100'000 && troubled(); i++) run(loop, 1), std::this_thread::yield();
    EXPECT_THAT(loop.troubles(), IsEmpty());
    run(loop, 10);
  }
  const auto reports = replay_all(folder);
  ASSERT_EQ(reports.size(), 2U);  // the first is cut back to whole lines
  EXPECT_GE(reports[0].ticks, 1U);
}

TEST_F(recorder_test, a_disk_that_hangs_holds_nothing_up) {
  std::promise<void> open;
  test_disk disk;
  disk.gate = open.get_future().share();
  recorder to({folder, 64 << 20, 2},
              [&](int f, const char* b, std::size_t n) { return disk.write(f, b, n); });
  const policies::policy_set_ptr set = hot_policy();
  policies::snapshot large;
  large.model.name.assign(1 << 20, 'x');
  int ticks = 0;
  for (; ticks < 100 && to.trouble().empty(); ticks++) {
    large.model.name[0] = static_cast<char>('a' + ticks % 2);
    to.before_tick(*set, {}, ++now_ms, 0);
    to.after_tick(*set, large, {});
  }
  EXPECT_LT(ticks, 40);  // what waits is bounded
  EXPECT_THAT(to.trouble(), HasSubstr("does not keep up"));
  EXPECT_EQ(disk.writes, 0);
  open.set_value();
}

TEST_F(recorder_test, a_recording_that_is_removed_is_told_and_another_begins) {
  {
    recorder to({folder, 64 << 20, 2});
    control_loop loop = make_loop();
    loop.record(to);
    const auto recorded = [&] { return fs::exists(folder) && !fs::is_empty(folder); };
    for (int i = 0; i < 100'000 && !recorded(); i++) run(loop, 1), std::this_thread::yield();
    fs::rename(folder, folder.string() + ".moved");
    for (int i = 0; i < 100'000 && !recorded(); i++) run(loop, 1), std::this_thread::yield();
    const std::vector<ipc::event> told = heard.of(ipc::event_kind::warning);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_THAT(told[0].message, HasSubstr("was removed"));
    run(loop, 5);
    for (int i = 0; i < 100'000 && !loop.troubles().empty(); i++)
      run(loop, 1), std::this_thread::yield();
    EXPECT_THAT(loop.troubles(), IsEmpty());
  }
  EXPECT_EQ(replay_all(folder).size(), 1U);
  EXPECT_EQ(replay_all(folder.string() + ".moved").size(), 1U);
}

TEST_F(recorder_test, a_folder_that_cannot_be_is_told) {
  std::ofstream(folder) << "a file";
  recorder to({folder / "below", 64 << 20, 2});
  control_loop loop = make_loop();
  loop.record(to);
  for (int i = 0; i < 100'000 && loop.troubles().empty(); i++)
    run(loop, 1), std::this_thread::yield();
  ASSERT_EQ(loop.troubles().size(), 1U);
  EXPECT_THAT(loop.troubles()[0], HasSubstr("cannot make"));
}

TEST_F(recorder_test, other_files_of_the_folder_stay_and_numbers_go_on) {
  fs::create_directories(folder);
  for (const char* name : {"trace-00000007.jsonl", "trace-00000009.jsonl", "notes.txt",
                           "trace-x.jsonl", "trace-00000008.jsonl.gz"})
    std::ofstream(folder / name) << "?";
  {
    recorder to({folder, 64 << 20, 2});
    control_loop loop = make_loop();
    loop.record(to);
    run(loop, 2);
  }
  std::vector<std::string> names;
  for (const fs::path& file : files_in(folder)) names.push_back(file.filename());
  EXPECT_THAT(names, ElementsAre("notes.txt", "trace-00000008.jsonl.gz", "trace-00000009.jsonl",
                                 "trace-00000010.jsonl", "trace-x.jsonl"));
}

}  // namespace
}  // namespace terrane::daemon

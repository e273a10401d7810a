// Record and replay: an hour gives the same decisions in this process and in another; what others
// would have done; damaged traces; the state over a restart.
#include "policies/trace/trace.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include "policies/explain/explain.hpp"
#include "policies/vocabulary/set_reading.hpp"
#include "tests/policies/machine.hpp"

namespace terrane::policies::trace {
namespace {

using testing::HasSubstr;
using tests::gib;
using tests::machine;
using tests::mib;

constexpr const char* trace_variable = "TERRANE_TEST_TRACE";

const std::string policies =
    "apiVersion: terrane/v1\npolicies:\n"
    "  - name: full\n    for_each: gpu\n    cooldown: 15s\n"
    "    enter: {metric: vram.used_ratio, above: 90%, held: 3s}\n"
    "    leave: {metric: vram.used_ratio, below: 80%, held: 10s}\n"
    "    do: {move: layers, to: cpu}\n    undo: restore\n";
const std::string lua =
    "policy 'hot' {\n for_each = 'gpu', enter = above('temp_c', 85):held '2s',\n"
    " leave = below('temp_c', 70), undo = 'restore',\n"
    " plan = function (gpu, out)\n"
    "  for part in gpu:parts():movable():top_down():first(2) do\n"
    "   out:move(part, 'cpu', 'at ' .. gpu.temp_c)\n  end\n end }\n";

policy_set_ptr set_of(const std::string& yaml) {
  return *policy_set::from_sources({{"t.yaml", yaml}, {"t.lua", lua}});
}

// An hour of a machine whose sensors swing at random.
std::string recorded(std::int64_t seconds = 3600) {
  const policy_set_ptr set = set_of(policies);
  std::mt19937 random(7);
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("gpu", 8 * gib).state.temp_c = {50, 0};
  m.add_layers(8, 100 * mib, 300 * mib, "gpu");
  m.add_session("1", 100, 10 * mib, "gpu");
  pipeline_state state;
  writer w;
  std::string text = w.begin(*set, state);
  for (std::int64_t t = 0; t < seconds; ++t) {
    if (random() % 11 == 0) m.device("gpu").others = random() % 1000 * (6.1 * mib);
    if (random() % 11 == 0) m.device("gpu").state.temp_c.value = 40.0 + random() % 600 / 10.0 + 0.1;
    if (random() % 50 == 0) m.stop_sensor("gpu", "temp");
    if (random() % 20 == 0) m.resume_sensor("gpu", "temp");
    const snapshot& now = m.at(t * 1000);
    const decision d = evaluate(*set, now, state);
    text += w.tick(*set, now, d);
    m.carry_out(d.planned, t * 1000);
  }
  return text;
}

replay_report replayed(const std::string& text, policy_set_ptr others = nullptr) {
  std::istringstream in(text);
  return replay(in, std::move(others));
}

TEST(trace, an_hour_gives_the_same_decisions) {
  const std::string text = recorded();
  const replay_report r = replayed(text);
  EXPECT_FALSE(r.fault) << r.fault->message;
  EXPECT_EQ(r.ticks, 3600u);
  EXPECT_GT(r.decisions, 50u);
  EXPECT_EQ(r.differences, 0u) << report_text(r);
  EXPECT_LT(text.size(), 3600u * 1500);  // only what changes
}

// Run by the next test in a process of its own.
TEST(trace, replays_the_file_it_is_given) {
  const char* file = std::getenv(trace_variable);
  if (file == nullptr) GTEST_SKIP() << "for another process";
  std::ifstream in(file);
  const replay_report r = replay(in);
  EXPECT_EQ(r.ticks, 3600u);
  EXPECT_EQ(r.differences, 0u) << report_text(r);
  EXPECT_FALSE(r.fault);
}

TEST(trace, another_process_decides_the_same) {
  if (std::getenv(trace_variable) != nullptr) GTEST_SKIP();
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("terrane-trace-" + std::to_string(getpid()));
  std::ofstream(file) << recorded();
  ASSERT_EQ(setenv(trace_variable, file.c_str(), 1), 0);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  std::string filter = "--gtest_filter=trace.replays_the_file_it_is_given";
  std::array<char*, 3> arguments = {const_cast<char*>(program.c_str()), filter.data(), nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments.data(), environ), 0);
  unsetenv(trace_variable);
  int status = -1;
  waitpid(child, &status, 0);
  std::filesystem::remove(file);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(trace, other_policies_show_what_would_have_been_different) {
  std::string changed = policies;
  changed.replace(changed.find("above: 90%"), 10, "above: 97%");
  const replay_report r = replayed(recorded(), set_of(changed));
  EXPECT_FALSE(r.fault);
  EXPECT_GT(r.differences, 0u);
  ASSERT_FALSE(r.first.empty());
  EXPECT_THAT(report_text(r), HasSubstr("are different"));
  EXPECT_THAT(report_text(r), HasSubstr("Was:\n  move "));
  EXPECT_THAT(report_text(r), HasSubstr("Now nothing would be decided.\n"));
  EXPECT_GT(r.moves_recorded, 0u);
  EXPECT_NE(r.moves_recorded, r.moves_replayed);
  EXPECT_THAT(report_json(r), HasSubstr("\"differences\":"));
}

// Where a policy's file lies, and how decisions are numbered, is no difference of what is moved.
TEST(trace, the_same_policies_under_another_name_move_the_same) {
  const policy_set_ptr set = *policy_set::from_sources(
      {{"elsewhere.yaml", "# A line more.\n" + policies}, {"elsewhere.lua", lua}});
  const replay_report r = replayed(recorded(), set);
  EXPECT_EQ(r.differences, 0u) << report_text(r);
  EXPECT_EQ(r.moves_recorded, r.moves_replayed);
  EXPECT_GT(r.moves_recorded, 0u);
}

TEST(trace, a_difference_says_when_it_was) {
  const policy_set_ptr set = set_of(policies);
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("gpu", 8 * gib).state.temp_c = {90, 0};
  m.add_layers(2, 100 * mib, 300 * mib, "gpu");
  pipeline_state state;
  writer w;
  std::string text = w.begin(*set, state, 1'800'000'000'000);
  for (std::int64_t t = 0; t < 10'000; t += 1000) {
    const snapshot& now = m.at(t);
    text += w.tick(*set, now, evaluate(*set, now, state));
  }
  const std::size_t reason = text.find("at 90");
  ASSERT_NE(reason, std::string::npos);
  text.replace(reason, 5, "at 91");
  const replay_report r = replayed(text);
  EXPECT_EQ(r.differences, 1u);
  EXPECT_THAT(report_text(r), HasSubstr("2027-01-15 08:00:02 UTC"));
  EXPECT_THAT(report_text(r), HasSubstr("something else was decided"));
  EXPECT_THAT(report_text(r), HasSubstr("at 91"));
}

TEST(trace, carries_every_reading) {
  machine m;
  m.add_device("cpu", 32 * gib);
  snapshot now = m.at(5000);
  double value = 0.1;
  for_each_reading(now, [&](reading& r) { r = {value += 1, 4321, 777}; });
  writer w;
  const policy_set_ptr none = policy_set::empty();
  std::istringstream in(w.begin(*none, {}) + w.tick(*none, now, {}));
  int ticks = 0;
  replay(in, nullptr,
         [&](const policy_set&, const snapshot& seen, const pipeline_state&, const decision&) {
           ++ticks;
           snapshot copy = seen;
           double expected = 0.1;
           for_each_reading(copy, [&](reading& r) {
             EXPECT_EQ(r.value, expected += 1);
             EXPECT_EQ(r.sampled_ms, 4321);
             EXPECT_EQ(r.period_ms, 777);
           });
         });
  EXPECT_EQ(ticks, 1);
}

TEST(trace, damage_is_named_by_line_and_never_more) {
  const std::string text = recorded(100);
  EXPECT_EQ(replayed("").fault->line, 0u);
  EXPECT_THAT(replayed("{\"x\":1}\n").fault->message, HasSubstr("no trace"));
  EXPECT_TRUE(replayed("{\"x\":1}\n").fault->no_trace);
  EXPECT_EQ(report_text(replayed("A letter.\n")).find("all the same"), std::string::npos);
  EXPECT_THAT(report_text(replayed("")), HasSubstr("it is no trace: it is empty"));
  const replay_report later = replayed("{\"terrane_trace\":9}\n");
  EXPECT_THAT(later.fault->message, HasSubstr("version 9, and this program knows versions up to "));
  EXPECT_TRUE(later.fault->no_trace);
  const replay_report cut = replayed(text.substr(0, text.size() - 10));
  ASSERT_TRUE(cut.fault);
  EXPECT_EQ(cut.fault->line, 101u);
  EXPECT_EQ(cut.ticks, 99u);
  EXPECT_TRUE(cut.fault->cut);
  EXPECT_THAT(report_text(cut), HasSubstr("ends in the middle of a line"));
  std::string odd = text;
  const std::size_t kind = odd.find("\"kind\":");
  ASSERT_NE(kind, std::string::npos);
  odd.replace(kind, 8, "\"kind\":9");  // 90 and more: no kind of device
  EXPECT_THAT(replayed(odd).fault->message, HasSubstr("'kind' has no value 9"));
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string bad = text;
    for (int n = 0; n < 3; ++n) bad[random() % bad.size()] = static_cast<char>(random() % 256);
    const replay_report r = replayed(bad);
    EXPECT_LE(r.ticks, 101u);
  }
}

std::string recorded_by(const std::string& file) {
  std::ifstream in(std::filesystem::path(TERRANE_TEST_DATA) / "policies/recorded" / file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Written by the program of each version; never written again.
TEST(trace, what_the_first_version_recorded_replays) {
  const std::string text = recorded_by("version-1.jsonl");
  ASSERT_TRUE(text.starts_with("{\"terrane_trace\":1,"));
  ASSERT_EQ(text.find("\"host_memory\""), std::string::npos);
  const replay_report r = replayed(text);
  EXPECT_FALSE(r.fault) << r.fault->message;
  EXPECT_EQ(r.ticks, 240U);
  EXPECT_EQ(r.decisions, 14U);
  EXPECT_EQ(r.differences, 0U) << report_text(r);
  // What it lacks is taken for what the table says, whatever was in the snapshot before.
  std::string as_newer = text;
  as_newer.replace(0, 19, "{\"terrane_trace\":2,");
  EXPECT_THAT(replayed(as_newer).fault->message, HasSubstr("'host_memory' is missing"));
  // A decision that is another one is seen still.
  std::string other = text;
  const std::size_t reason = other.find("\"bytes\":", other.find("\"decision\""));
  other.replace(reason, 9, "\"bytes\":1");
  EXPECT_EQ(replayed(other).differences, 1U);
  const auto state = state_from_text(recorded_by("version-1.state"), 0, 0);
  ASSERT_TRUE(state.has_value()) << state.error();
  EXPECT_GT(state->next_decision, 10U);
}

TEST(trace, lines_that_are_missing_or_out_of_order_end_it) {
  const std::string text = recorded(20);
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line + "\n");
  const auto joined = [](const std::vector<std::string>& of) {
    std::string all;
    for (const std::string& line : of) all += line;
    return replayed(all);
  };
  std::vector<std::string> fewer = lines;
  fewer.erase(fewer.begin() + 5);
  EXPECT_THAT(joined(fewer).fault->message, HasSubstr("tick 6 comes after tick 4"));
  EXPECT_EQ(joined(fewer).ticks, 4U);
  std::swap(lines[7], lines[8]);
  EXPECT_THAT(joined(lines).fault->message, HasSubstr("tick 8 comes after tick 6"));
}

void replays_though_refused(const std::vector<policy_source>& sources) {
  EXPECT_FALSE(policy_set::from_sources(sources));
  const auto set = policy_set::as_recorded(sources);
  ASSERT_TRUE(set.has_value()) << to_string(set.error().front());
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("gpu", 8 * gib);
  m.add_layers(2, 100 * mib, 300 * mib, "gpu");
  pipeline_state state;
  writer w;
  std::string text = w.begin(**set, state);
  const snapshot& now = m.at(0);
  const decision d = evaluate(**set, now, state);
  text += w.tick(**set, now, d);
  const replay_report r = replayed(text);
  EXPECT_FALSE(r.fault) << r.fault->message;
  EXPECT_EQ(r.ticks, 1U);
  EXPECT_EQ(r.differences, 0U);
}

// Lint has learnt since what can never be; what was in force is replayed all the same.
TEST(trace, policies_that_would_be_refused_today_replay) {
  const std::vector<policy_source> sources = {
      {"t.yaml", policies + "  - name: fill\n    for_each: gpu\n"
                            "    enter: {metric: vram.used_ratio, below: 95%}\n"
                            "    leave: {metric: vram.used_ratio, above: 97%}\n"
                            "    do: {move: layers, from: cpu, to: itself}\n"}};
  replays_though_refused(sources);
  // A way to engage that never comes.
  replays_though_refused(
      {{"t.yaml", policies + "  - name: hot\n    for_each: gpu\n"
                             "    enter: {any_of: [{metric: temp_c, above: 85C}, {metric: "
                             "vram.used_ratio, above: 100%}]}\n"
                             "    leave: {metric: temp_c, below: 70C}\n"
                             "    do: {move: layers, until: all, to: cpu}\n"}});
}

// What a line leaves out is as in the line before, so without the first tick nothing is known.
TEST(trace, a_recording_without_its_first_tick_is_not_compared) {
  const std::string text = recorded(20);
  const std::size_t first = text.find('\n') + 1, second = text.find('\n', first) + 1;
  const std::string header = text.substr(0, first), tail = text.substr(second);
  for (const std::string& cut : {header + tail, tail}) {
    const replay_report r = replayed(cut);
    EXPECT_EQ(r.differences, 0U);
    EXPECT_EQ(r.ticks, 0U);
    EXPECT_EQ(r.unknown.ticks, 19U);
    ASSERT_TRUE(r.fault);
    EXPECT_THAT(r.fault->message, HasSubstr("its beginning is missing: tick 2 tells only what"));
  }
  EXPECT_THAT(report_text(replayed(header + tail)),
              HasSubstr("nothing was replayed. Line 2: its "));
  EXPECT_TRUE(replayed(tail).fault->no_trace);
  // From where a recording begins, it is compared.
  const replay_report two = replayed(header + tail + text);
  EXPECT_FALSE(two.fault);
  EXPECT_EQ(two.ticks, 20U);
  EXPECT_EQ(two.differences, 0U);
  EXPECT_THAT(report_text(two),
              HasSubstr("19 ticks from line 2 on could not be compared: the first "
                        "tick of their recording is missing."));
}

TEST(trace, a_recording_of_which_no_tick_is_whole_is_not_called_the_same) {
  const std::string text = recorded(1);
  const replay_report r = replayed(text.substr(0, text.size() - 10));
  EXPECT_EQ(r.ticks, 0U);
  EXPECT_THAT(report_text(r),
              HasSubstr("nothing was replayed. Line 2: the trace ends in the middle"));
}

// Endless, and all one line.
class endless : public std::streambuf {
 public:
  std::size_t read = 0;

 private:
  std::array<char, 4096> text_{};
  int_type underflow() override {
    text_.fill('x');
    read += text_.size();
    setg(text_.data(), text_.data(), text_.data() + text_.size());
    return traits_type::to_int_type('x');
  }
};

TEST(trace, a_line_is_read_up_to_a_bound) {
  endless source;
  std::istream in(&source);
  const replay_report r = replay(in);
  ASSERT_TRUE(r.fault);
  EXPECT_TRUE(r.fault->no_trace);
  EXPECT_LT(source.read, longest_line + 2 * 4096);
}

// An hour in two files, as the recorder writes them.
std::array<std::string, 2> in_two_files(std::int64_t gap) {
  const policy_set_ptr set = set_of(policies);
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("gpu", 8 * gib).state.temp_c = {50, 0};
  m.add_layers(8, 100 * mib, 300 * mib, "gpu");
  pipeline_state state;
  writer w;
  std::array<std::string, 2> files;
  for (std::int64_t t = 0; t < 120; ++t) {
    if (t == 60 + gap || t == 0) files[t == 0 ? 0 : 1] = w.begin(*set, state);
    if (t == 40) m.device("gpu").others = 4.3 * gib;
    const snapshot& now = m.at(t * 1000);
    const decision d = evaluate(*set, now, state);
    const std::string line = w.tick(*set, now, d);
    if (t < 60) files[0] += line;
    if (t >= 60 + gap) files[1] += line;
    m.carry_out(d.planned, t * 1000);
  }
  return files;
}

TEST(trace, files_that_follow_each_other_go_on_with_what_others_did) {
  std::string changed = policies;
  changed.replace(changed.find("above: 90%"), 10, "above: 99%");
  for (const std::int64_t gap : {0, 10}) {
    const std::array<std::string, 2> files = in_two_files(gap);
    std::string last_place;
    replayer others(set_of(changed),
                    [&](const policy_set&, const snapshot& seen, const pipeline_state&,
                        const decision&) { last_place = find_part(seen, "layer.7.ffn")->device; });
    std::istringstream first(files[0]), second(files[1]);
    EXPECT_FALSE(others.next(first).fault);
    EXPECT_EQ(last_place, "gpu");  // the recorded policies had moved it
    const replay_report r = others.next(second);
    EXPECT_FALSE(r.fault) << r.fault->message;
    EXPECT_EQ(r.begins_anew, gap != 0);
    EXPECT_EQ(last_place, gap == 0 ? "gpu" : "cpu");
  }
  // Their own decide the same in each, however they lie.
  replayer own;
  for (const std::string& file : in_two_files(10)) {
    std::istringstream in(file);
    EXPECT_EQ(own.next(in).differences, 0U);
  }
}

TEST(state, goes_on_after_a_restart_with_its_times_shifted) {
  const policy_set_ptr set = set_of(policies);
  machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("gpu", 8 * gib).state.temp_c = {90, 0};
  m.add_layers(2, 100 * mib, 300 * mib, "gpu");
  pipeline_state state;
  for (std::int64_t t = 0; t < 30'000; t += 1000) {
    m.carry_out(evaluate(*set, m.at(t), state).planned, t);
  }
  state.failures[{{subject_kind::part, "layer.0.ffn"}, "cpu"}] = {2, 50'000};
  state.held[{subject_kind::session_kv, "3"}].by.push_back({"hot", "gpu", false, ""});
  const std::string text = state_text(state, 30'000);
  const auto back = state_from_text(text, 1'000'000, 5000);
  ASSERT_TRUE(back.has_value()) << back.error();
  EXPECT_EQ(back->failures.begin()->second.retry_ms, 50'000 + 1'000'000 - 35'000);
  EXPECT_EQ(back->next_move, state.next_move);
  EXPECT_EQ(back->policies.size(), state.policies.size());
  EXPECT_EQ(back->held.size(), state.held.size() - 1);  // sessions end with the daemon
  EXPECT_TRUE(back->issued.empty());
  for (const policy_memory& p : back->policies) {
    for (const object_latch& l : p.latches) {
      EXPECT_LE(l.latch.changed_ms, 1'000'000 - 5000);
    }
  }
  EXPECT_FALSE(state_from_text("", 0, 0).has_value());
  EXPECT_FALSE(state_from_text(text.substr(0, text.size() / 2), 0, 0).has_value());
  EXPECT_FALSE(
      state_from_text("{\"terrane_state\":7,\"clock_ms\":0,\"state\":{}}", 0, 0).has_value());
}

}  // namespace
}  // namespace terrane::policies::trace

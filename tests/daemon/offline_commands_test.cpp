// The commands of terranectl that need no daemon, as functions.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <boost/json/parse.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/terranectl/commands.hpp"
#include "policies/scenario/machine.hpp"
#include "policies/trace/trace.hpp"

namespace terrane::daemon::ctl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (fs::temp_directory_path() / "terrane_offline_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~temporary_folder() { fs::remove_all(path); }
  fs::path path;
};

struct offline_commands_test : testing::Test {
  temporary_folder folder;
  std::ostringstream out;
  std::ostringstream err;

  int run(std::vector<std::string> arguments) {
    out.str("");
    err.str("");
    ipc::ctl::surroundings around{out, err};
    around.socket = folder.path / "none.sock";
    return ipc::ctl::run(std::move(arguments), around, offline_commands());
  }
  std::string write(const std::string& name, const std::string& text) {
    const fs::path path = folder.path / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }
};

TEST_F(offline_commands_test, lint_tells_every_fault_of_files_and_folders) {
  const std::string good = write("good.yaml", "apiVersion: terrane/v1\npolicies: []\n");
  const std::string bad = write("bad.yaml", "apiVersion: terrane/v1\npolicies: []\nfault: 1\n");
  EXPECT_EQ(run({"policy", "lint", good}), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("good.yaml: no faults"));
  EXPECT_EQ(run({"policy", "lint", good, bad}), 1);
  EXPECT_THAT(out.str(), HasSubstr("bad.yaml:3:1: error: a policy file has no key 'fault'"));
  EXPECT_EQ(run({"policy", "lint", folder.path}), 1);
  EXPECT_THAT(out.str(), HasSubstr("bad.yaml:3:1"));
  EXPECT_EQ(run({"policy", "lint", folder.path / "missing.yaml"}), 1);
  EXPECT_THAT(out.str(), HasSubstr("does not exist"));
  EXPECT_EQ(run({"policy", "lint", bad, "--json"}), 1);
  const auto reply = boost::json::parse(out.str());
  EXPECT_FALSE(reply.at("valid").as_bool());
  EXPECT_EQ(reply.at("diagnostics").at(0).at("line").as_int64(), 3);
  EXPECT_EQ(run({"policy", "lint"}), 2);
}

TEST_F(offline_commands_test, a_new_policy_is_right_and_passes_its_own_test) {
  for (const bool lua : {false, true}) {
    const std::string name = lua ? "by-night" : "by-day";
    std::vector<std::string> arguments = {"policy", "new", name, "--dir", folder.path};
    if (lua) arguments.push_back("--lua");
    EXPECT_EQ(run(arguments), 0) << err.str();
    EXPECT_THAT(out.str(), HasSubstr("policy lint"));
    const std::string policy = folder.path / (name + (lua ? ".lua" : ".yaml"));
    EXPECT_EQ(run({"policy", "lint", policy}), 0) << out.str();
    EXPECT_THAT(out.str(), HasSubstr("no faults"));
    EXPECT_EQ(run({"policy", "test", folder.path / (name + ".test.yaml")}), 0) << out.str();
    EXPECT_THAT(out.str(), HasSubstr("4 moves)"));
  }
  EXPECT_EQ(run({"policy", "test", folder.path}), 0) << out.str();
  EXPECT_THAT(out.str(), HasSubstr("2 tests: 2 passed\n"));
}

TEST_F(offline_commands_test, a_new_policy_is_called_so_that_its_files_are_found_again) {
  for (const std::string name : {"a.test", "..", ".x", "-x", "_x", "a.yaml", "a.lua", "a b", ""}) {
    EXPECT_EQ(run({"policy", "new", "--dir", folder.path, "--", name}), 2) << name;
    EXPECT_THAT(err.str(),
                testing::AnyOf(HasSubstr("no policy name"),
                               HasSubstr("begin with a letter or a digit"), HasSubstr("NAME")))
        << name;
  }
  EXPECT_TRUE(fs::is_empty(folder.path));
  EXPECT_EQ(run({"policy", "new", "a.b-c_1", "--dir", folder.path}), 0) << err.str();
}

// What was not written was not done, whichever command it was.
// What it writes, the next step takes.
TEST_F(offline_commands_test, a_new_policy_has_no_name_that_lint_refuses) {
  for (const char* name : {"yield", "promotion"}) {
    EXPECT_EQ(run({"policy", "new", name, "--dir", folder.path}), 2) << name;
    EXPECT_THAT(err.str(), HasSubstr("nothing was written, since lint would refuse it: ")) << name;
    EXPECT_TRUE(fs::is_empty(folder.path)) << name;
  }
  EXPECT_EQ(run({"policy", "new", "yield", "--lua", "--dir", folder.path}), 2);
  EXPECT_THAT(err.str(), HasSubstr("'yield' is the name of a built-in policy; take another"));
  for (const char* name : {"true", "1e5", "2026-11-30", "no", "null", "0x10"}) {
    ASSERT_EQ(run({"policy", "new", name, "--dir", folder.path}), 0) << err.str();
    EXPECT_EQ(run({"policy", "lint", folder.path / (std::string(name) + ".yaml")}), 0) << out.str();
  }
  EXPECT_EQ(run({"policy", "test", folder.path}), 0) << out.str();
}

TEST_F(offline_commands_test, a_policy_that_is_given_for_a_test_is_told_with_its_test) {
  ASSERT_EQ(run({"policy", "new", "mine", "--dir", folder.path}), 0);
  EXPECT_EQ(run({"policy", "test", folder.path / "mine.yaml"}), 2);
  EXPECT_THAT(out.str(), HasSubstr("mine.yaml: error: is a policy file, and no test of one; its "
                                   "test is " +
                                   (folder.path / "mine.test.yaml").string()));
  EXPECT_EQ(out.str().find("no key"), std::string::npos);
  EXPECT_EQ(run({"policy", "test", write("other.lua", "policy 'other' {}\n")}), 2);
  EXPECT_THAT(out.str(), HasSubstr("is a policy file, and no test of one; a test of it would be "
                                   "other.test.yaml"));
}

// A line of the template that is changed is a line that fails.
TEST_F(offline_commands_test, the_places_in_a_new_test_prove_something) {
  ASSERT_EQ(run({"policy", "new", "mine", "--dir", folder.path}), 0);
  const fs::path test = folder.path / "mine.test.yaml";
  std::ostringstream text;
  text << std::ifstream(test).rdbuf();
  for (const auto& [right, wrong] :
       {std::pair<std::string, std::string>{"layer.5.*: cpu", "layer.5.*: gpu"},
        {"layer.4.*: gpu", "layer.4.*: cpu"},
        {"placed: {layer.*: gpu}", "placed: {layer.*: cpu}"}}) {
    std::string changed = text.str();
    ASSERT_NE(changed.find(right), std::string::npos) << right;
    changed.replace(changed.find(right), right.size(), wrong);
    EXPECT_EQ(run({"policy", "test", write("mine.test.yaml", changed)}), 1) << wrong;
    EXPECT_THAT(out.str(), HasSubstr("once the moves planned by then have ended")) << wrong;
  }
}

TEST_F(offline_commands_test, a_full_disk_is_told_and_is_a_failure) {
  const std::string good = write("good.yaml", "apiVersion: terrane/v1\npolicies: []\n");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"policy", "schema"},
                                             {"policy", "stubs"},
                                             {"policy", "reference"},
                                             {"policy", "lint", good},
                                             {"policy", "lint", good, "--json"},
                                             {"policy", "new", "fresh", "--dir", folder.path},
                                             {"--help"}}) {
    std::ofstream full("/dev/full");
    err.str("");
    ipc::ctl::surroundings around{full, err};
    EXPECT_EQ(ipc::ctl::run(arguments, around, offline_commands()), 1) << arguments.back();
    EXPECT_THAT(err.str(), HasSubstr("the output could not be written whole")) << arguments.back();
  }
}

TEST_F(offline_commands_test, a_new_policy_tells_editors_and_people_where_the_words_are) {
  EXPECT_EQ(run({"policy", "reference", "--into", folder.path / "words"}), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("REFERENCE.md"));
  const std::string made = folder.path / "words" / "reference";
  EXPECT_EQ(run({"policy", "new", "day", "--dir", folder.path, "--reference", made}), 0);
  std::ifstream policy(folder.path / "day.yaml");
  std::string first;
  std::getline(policy, first);
  EXPECT_EQ(first, "# yaml-language-server: $schema=" + made + "/policy.schema.json");
  EXPECT_EQ(run({"policy", "test", folder.path / "day.test.yaml"}), 0) << out.str();
  EXPECT_EQ(run({"policy", "new", "dusk", "--lua", "--dir", folder.path, "--reference", made}), 0);
  std::ifstream settings(folder.path / ".luarc.json");
  const std::string text{std::istreambuf_iterator<char>(settings), {}};
  const auto luarc = boost::json::parse(text);
  EXPECT_EQ(luarc.at("workspace.library").at(0).as_string(), made + "/terrane.lua");
  EXPECT_EQ(luarc.at("runtime.builtin").at("io").as_string(), "disable");
  EXPECT_EQ(run({"policy", "lint", folder.path}), 0) << out.str();
  // What is there is left as it is.
  EXPECT_EQ(run({"policy", "new", "dawn", "--lua", "--dir", folder.path, "--reference", made}), 0);
  EXPECT_THAT(out.str(), HasSubstr("its stubs are " + made + "/terrane.lua"));
  // Where nothing is installed it says who prints them.
  EXPECT_EQ(run({"policy", "new", "night", "--dir", folder.path, "--reference", "none"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("terranectl policy schema >policy.schema.json"));
}

TEST_F(offline_commands_test, prints_schema_stubs_and_reference) {
  EXPECT_EQ(run({"policy", "schema"}), 0);
  EXPECT_TRUE(boost::json::parse(out.str()).at("$defs").at("policy").is_object());
  EXPECT_EQ(run({"policy", "schema", "--tests"}), 0);
  EXPECT_TRUE(boost::json::parse(out.str()).at("$defs").at("step").is_object());
  EXPECT_EQ(run({"policy", "stubs"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("---@meta\n"));
  EXPECT_EQ(run({"policy", "reference"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("| `for_each` |"));
}

TEST_F(offline_commands_test, a_new_policy_overwrites_nothing) {
  write("mine.test.yaml", "precious");
  EXPECT_EQ(run({"policy", "new", "mine", "--dir", folder.path}), 1);
  EXPECT_THAT(err.str(), HasSubstr("mine.test.yaml is there already; nothing was written"));
  EXPECT_FALSE(fs::exists(folder.path / "mine.yaml"));
  EXPECT_EQ(run({"policy", "new", "a name", "--dir", folder.path}), 2);
  EXPECT_THAT(err.str(), HasSubstr("is no policy name"));
  EXPECT_EQ(run({"policy", "new", "x", "--dir", folder.path / "none"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("there is no folder"));
}

TEST_F(offline_commands_test, a_failing_test_says_what_came_instead_and_why) {
  EXPECT_EQ(run({"policy", "new", "mine", "--dir", folder.path}), 0);
  const std::string test = folder.path / "mine.test.yaml";
  std::ifstream in(test);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  text.replace(text.find("move layer.5.attn"), 17, "move layer.3.attn");
  std::ofstream(test) << text;
  EXPECT_EQ(run({"policy", "test", test}), 1);
  EXPECT_THAT(out.str(), HasSubstr("FAILED"));
  EXPECT_THAT(out.str(),
              HasSubstr("mine.test.yaml:15:7: after 14 s, up to 15 s the moves are not"));
  EXPECT_THAT(out.str(), HasSubstr("at 15 s     move layer.5.ffn from gpu to cpu\n"));
  EXPECT_THAT(out.str(), HasSubstr("- missing   move layer.3.attn from gpu to cpu\n"));
  EXPECT_THAT(out.str(), HasSubstr("+ at 15 s   move layer.5.attn from gpu to cpu\n"));
  EXPECT_THAT(out.str(), HasSubstr("policy 'mine' engaged for gpu"));
  EXPECT_THAT(out.str(), HasSubstr("1 test: 0 passed, 1 failed\n"));
  EXPECT_EQ(run({"policy", "test", test, "--json"}), 1);
  const auto reply = boost::json::parse(out.str());
  EXPECT_FALSE(reply.at("passed").as_bool());
  EXPECT_EQ(reply.at("failures").at(0).at("at_ms").as_int64(), 15'000);
}

TEST_F(offline_commands_test, a_test_that_cannot_run_is_told_by_line_and_column) {
  const std::string test = write("odd.test.yaml", R"(scenario: Odd
yaml: |
  apiVersion: terrane/v1
  policies: 3
machine:
  devices:
    - {name: gpu, total: 8GiB, tmp_c: 50C}
  layers: {count: 2, attn: 1GiB, ffn: 1GiB, on: gpz}
trace:
  - {at: 5s, set: {gpu: {others: fast}}}
  - {at: 4s, expcet: []}
)");
  EXPECT_EQ(run({"policy", "test", test}), 2);
  const std::string where = test;
  for (const std::string& fault :
       {where + ":4:13: error: 'policies' must be a list",
        where + ":7:32: error: a device has no key 'tmp_c'; did you mean 'temp_c'?",
        where + ":8:49: error: the machine has no device 'gpz'; did you mean 'gpu'?",
        where + ":10:34: error: 'others': 'fast'",
        where + ":11:5: error: a step must be later than the one before it",
        where + ":11:14: error: a step has no key 'expcet'; did you mean 'expect'?"}) {
    EXPECT_THAT(out.str(), HasSubstr(fault));
  }
  EXPECT_THAT(out.str(), HasSubstr("1 could not run"));
  EXPECT_EQ(run({"policy", "test", folder.path / "none"}), 2);
  EXPECT_THAT(out.str(), HasSubstr("does not exist"));
  EXPECT_EQ(run({"policy", "test"}), 2);
}

const std::string relief =
    "apiVersion: terrane/v1\npolicies:\n  - name: relief\n    for_each: gpu\n"
    "    enter: {metric: vram.used_ratio, above: 90%}\n"
    "    leave: {metric: vram.used_ratio, below: 80%}\n"
    "    do: {move: layers, to: cpu}\n";

// Ten seconds of a card that fills up.
std::string recording() {
  const auto set = *policies::policy_set::from_sources({{"relief.yaml", relief}});
  constexpr double gib = policies::scenario::gib;
  policies::scenario::machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("gpu", 8 * gib);
  m.add_layers(4, gib / 4, gib / 4, "gpu");
  policies::pipeline_state state;
  policies::trace::writer writer;
  std::string text = writer.begin(*set, state, 1'800'000'000'000);
  for (std::int64_t t = 0; t < 10'000; t += 1000) {
    m.device("gpu").others = t < 5000 ? 0 : 5.5 * gib;
    const policies::snapshot& now = m.at(t);
    const policies::decision d = policies::evaluate(*set, now, state);
    text += writer.tick(*set, now, d);
    m.carry_out(d.planned, t);
  }
  return text;
}

TEST_F(offline_commands_test, a_recording_decides_the_same_again) {
  const std::string trace = write("record/trace-00000001.jsonl", recording());
  EXPECT_EQ(run({"policy", "replay", trace}), 0) << out.str() << err.str();
  EXPECT_THAT(out.str(), HasSubstr("10 ticks, 2 with decisions: all the same.\n"));
  EXPECT_EQ(run({"policy", "replay", folder.path / "record", "--json"}), 0);
  EXPECT_EQ(boost::json::parse(out.str()).at("ticks").as_int64(), 10);
  EXPECT_EQ(run({"policy", "replay", folder.path / "none"}), 2);
  EXPECT_THAT(err.str(), HasSubstr("cannot read"));
  EXPECT_EQ(run({"policy", "replay",
                 write("empty/x.txt", "").substr(0, folder.path.string().size() + 6)}),
            2);
  EXPECT_THAT(err.str(), HasSubstr("holds no recordings"));
}

TEST_F(offline_commands_test, a_recording_that_is_cut_replays_up_to_the_cut_and_says_so) {
  const std::string whole = recording();
  const std::string trace = write("trace.jsonl", whole.substr(0, whole.size() - 20));
  EXPECT_EQ(run({"policy", "replay", trace}), 0) << out.str();
  EXPECT_THAT(out.str(), HasSubstr("9 ticks"));
  EXPECT_THAT(out.str(), HasSubstr("Line 11: the trace ends in the middle of a line"));
  std::string damaged = whole;
  damaged[whole.find("\n{\"tick\":5") + 1] = '?';
  EXPECT_EQ(run({"policy", "replay", write("trace.jsonl", damaged)}), 1) << out.str();
  EXPECT_EQ(run({"policy", "replay", write("trace.jsonl", "")}), 2);
  // Begun and nothing recorded: there is nothing that could be the same.
  const std::string begun = whole.substr(0, whole.find("\n{\"tick\"") + 1);
  EXPECT_EQ(run({"policy", "replay", write("begun.jsonl", begun)}), 2) << out.str();
  EXPECT_THAT(err.str(), HasSubstr("nothing has been recorded yet"));
  EXPECT_EQ(run({"policy", "replay", write("letter.jsonl", "Dear all,\n")}), 2);
  EXPECT_THAT(err.str(), HasSubstr("letter.jsonl: it is no trace"));
}

TEST_F(offline_commands_test, one_bad_recording_of_a_folder_keeps_no_other_from_being_replayed) {
  write("record/trace-00000001.jsonl", "Dear all,\n");
  write("record/trace-00000002.jsonl", recording());
  EXPECT_EQ(run({"policy", "replay", folder.path / "record"}), 2);
  EXPECT_THAT(err.str(), HasSubstr("trace-00000001.jsonl: it is no trace"));
  EXPECT_THAT(out.str(), HasSubstr("10 ticks, 2 with decisions: all the same.\n"));
}

TEST_F(offline_commands_test,
       the_end_of_a_recording_without_its_beginning_is_not_called_different) {
  const std::string whole = recording();
  const std::size_t header = whole.find('\n') + 1, second = whole.find('\n', header) + 1;
  const std::string tail = write("tail.jsonl", whole.substr(0, header) + whole.substr(second));
  EXPECT_EQ(run({"policy", "replay", tail}), 2);
  EXPECT_THAT(out.str(), HasSubstr("nothing was replayed. Line 2: its beginning is missing"));
  EXPECT_EQ(run({"diff", tail, tail}), 1);
  EXPECT_THAT(err.str(), HasSubstr("line 2: its beginning is missing"));
}

TEST_F(offline_commands_test, a_folder_of_recordings_is_as_good_as_one_of_them) {
  const std::string whole = recording();
  write("record/trace-00000001.jsonl", whole);
  write("record/trace-00000002.jsonl", whole.substr(0, whole.find('\n') + 1));  // just begun
  const std::string record = folder.path / "record";
  EXPECT_EQ(run({"plan", "--snapshot", record, "--at", "6"}), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("A dry run on snapshot 6: policy 'relief' engaged for gpu"));
  EXPECT_THAT(err.str(), HasSubstr("taken from " + record + "/trace-00000001.jsonl"));
  EXPECT_EQ(run({"plan", "--snapshot", record}), 0) << err.str();
  EXPECT_EQ(err.str(), record + "/trace-00000002.jsonl: it holds no snapshot; taken from " +
                           record + "/trace-00000001.jsonl\n");
  EXPECT_EQ(run({"diff", record, record}), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("the same placement"));
  EXPECT_EQ(run({"plan", "--snapshot", record, "--at", "99"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("nor does any older file of that folder have it"));
  fs::create_directories(folder.path / "empty");
  EXPECT_EQ(run({"diff", folder.path / "empty", record}), 1);
  EXPECT_THAT(err.str(), HasSubstr("holds no recordings"));
}

// What it would say of an older file, it would say of hours ago.
TEST_F(offline_commands_test, a_folder_whose_newest_recording_is_damaged_has_no_last_snapshot) {
  const std::string whole = recording();
  const std::string record = folder.path / "record";
  write("record/trace-00000001.jsonl", whole);
  std::string damaged = whole;
  damaged[whole.find("\n{\"tick\":5") + 1] = '?';
  for (const std::string& newest : {damaged, std::string("Dear all,\n")}) {
    write("record/trace-00000002.jsonl", newest);
    EXPECT_EQ(run({"plan", "--snapshot", record}), 1) << out.str();
    EXPECT_THAT(err.str(), HasSubstr("trace-00000002.jsonl: "));
    EXPECT_EQ(run({"diff", record, record}), 1) << out.str();
    EXPECT_EQ(run({"plan", "--snapshot", record, "--at", "7"}), 0) << err.str();
    EXPECT_THAT(err.str(), HasSubstr("; taken from " + record + "/trace-00000001.jsonl"));
  }
  // A daemon that was killed while it wrote the first snapshot has only begun it.
  write("record/trace-00000002.jsonl", whole.substr(0, whole.find("\n{\"tick\"") + 20));
  EXPECT_EQ(run({"plan", "--snapshot", record}), 0) << err.str();
  EXPECT_THAT(err.str(), HasSubstr("; taken from " + record + "/trace-00000001.jsonl"));
}

TEST_F(offline_commands_test, other_policies_say_what_would_have_been_different) {
  const std::string trace = write("trace.jsonl", recording());
  EXPECT_EQ(run({"policy", "replay", trace, "--policies", write("same/a.yaml", relief)}), 0)
      << out.str();
  std::string other = relief;
  other.replace(other.find("to: cpu"), 7, "to: cpu, until: 256MiB");
  EXPECT_EQ(run({"policy", "replay", trace, "--policies", write("other.yaml", other)}), 1);
  EXPECT_THAT(out.str(), HasSubstr("different.\nMoves: "));
  EXPECT_THAT(out.str(), HasSubstr("Snapshot 6, line 7, 2027-01-15 08:00:05 UTC:\n Was:\n  move "));
  EXPECT_THAT(out.str(), HasSubstr("Planned: move layer.3.ffn from gpu to cpu, 256 MiB"));
  EXPECT_EQ(run({"policy", "replay", trace, "--policies", write("bad.yaml", "policies: 3\n")}), 2);
  EXPECT_THAT(err.str(), HasSubstr("bad.yaml:1"));
}

TEST_F(offline_commands_test, a_recorded_snapshot_is_planned_on_without_a_daemon) {
  const std::string trace = write("trace.jsonl", recording());
  EXPECT_EQ(run({"plan", "--snapshot", trace, "--at", "1"}), 0) << err.str();
  EXPECT_EQ(out.str(), "Nothing would be done.\n");
  EXPECT_EQ(run({"plan", "--snapshot", trace, "--at", "6"}), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("A dry run on snapshot 6: policy 'relief' engaged for gpu"));
  EXPECT_THAT(out.str(), HasSubstr("move 5 parts (layer.3.ffn to layer.1.ffn) from gpu to cpu"));
  EXPECT_EQ(run({"plan", "--snapshot", trace, "--at", "1", "--assume", "gpu/vram.used_ratio=0.97"}),
            0);
  EXPECT_THAT(out.str(), HasSubstr("vram.used_ratio is 97 %"));
  EXPECT_EQ(run({"plan", "--snapshot", trace, "--at", "6", "--json"}), 0);
  const auto reply = boost::json::parse(out.str());
  EXPECT_EQ(reply.at("decisions").at(0).at("id").as_int64(), 0);
  EXPECT_EQ(reply.at("decisions").at(0).at("actions").at(0).at("outcome").as_string(), "planned");
  std::string never = relief;
  never.replace(never.find("above: 90%"), 10, "above: 99%");
  EXPECT_EQ(run({"plan", "--snapshot", trace, "--at", "6", "--file", write("never.yaml", never)}),
            0);
  EXPECT_EQ(out.str(), "Nothing would be done.\n");
  EXPECT_EQ(run({"plan", "--snapshot", trace, "--at", "99"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("it has no snapshot 99; it has 1 to 10"));
  EXPECT_EQ(run({"plan", "--snapshot", folder.path / "none"}), 1);
  EXPECT_EQ(run({"plan", "--snapshot", trace, "--assume", "gpu=1"}), 2);
  EXPECT_EQ(run({"plan", "--snapshot", trace, "--assume", "gpu/vram.used_ratio=-3"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("'vram.used_ratio' is never -300 %"));
  EXPECT_EQ(run({"plan", "--snapshot", trace, "--assume", "gpu/vram.colour=1"}), 1);
  EXPECT_EQ(run({"plan", "--at", "3"}), 2);
  EXPECT_EQ(run({"plan"}), 3);  // as before: the daemon is asked
}

TEST_F(offline_commands_test, a_difference_of_placements_is_told_in_sentences_and_as_json) {
  const std::string whole = recording();
  const std::string after = write("after.jsonl", whole);
  const std::string before = write("before.jsonl", whole.substr(0, whole.find("{\"tick\":3")));
  EXPECT_EQ(run({"diff", before, after}), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("5 parts would move, 1.2 GiB:"));
  EXPECT_THAT(out.str(), HasSubstr("layer.1.ffn to layer.3.ffn, 5 parts: gpu -> cpu"));
  EXPECT_THAT(out.str(), HasSubstr("how long the copies take is not known"));
  EXPECT_EQ(run({"diff", before, after, "--json"}), 0);
  EXPECT_EQ(boost::json::parse(out.str()).at("moves").as_array().size(), 5U);
  EXPECT_EQ(run({"diff", after, after}), 0);
  EXPECT_THAT(out.str(), HasSubstr("the same placement"));
  EXPECT_EQ(run({"diff", before, "--plan"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("the same placement"));
  const std::string full = write("full.jsonl", whole.substr(0, whole.find("{\"tick\":7")));
  EXPECT_EQ(run({"diff", full, "--plan"}), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("5 parts would move"));
  EXPECT_EQ(run({"diff", before, after, "--plan"}), 2);
  EXPECT_EQ(run({"diff"}), 2);
  EXPECT_EQ(run({"diff", before}), 3);  // now is asked for
}

}  // namespace
}  // namespace terrane::daemon::ctl

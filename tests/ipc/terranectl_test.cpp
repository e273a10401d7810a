// terranectl as a function, against the fake service: what it prints, and its exit codes.
#include <fstream>
#include <sstream>
#include <thread>

#include <CLI/App.hpp>
#include <boost/json/parse.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ipc/terranectl/program.hpp"
#include "ipc/terranectl/words.hpp"
#include "tests/ipc/terranectl_fixture.hpp"

namespace terrane::ipc::ctl {
namespace {

using namespace std::string_literals;

using testing::HasSubstr;
using testing::Not;

TEST_F(terranectl_test, nobody_to_ask_is_exit_code_3) {
  EXPECT_EQ(run({"status"}), 3);
  EXPECT_THAT(err.str(), HasSubstr("no daemon: there is no socket " + path));
  EXPECT_THAT(err.str(), HasSubstr("--socket"));
  EXPECT_EQ(out.str(), "");
}

TEST_F(terranectl_test, a_wrong_command_line_is_exit_code_2) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{},
                                                {"nonsense"},
                                                {"move", "head"},
                                                {"explain"},
                                                {"explain", "x"},
                                                {"status", "--nonsense"},
                                                {"policy"},
                                                {"generate", "a", "--max-tokens", "0"},
                                                {"plan", "--assume", "nonsense"},
                                                {"plan", "--assume", "cpu/vram.used_ratio=nan"},
                                                {"yield", "--for", "1ms"},
                                                {"yield", "--for", "0.5s"},
                                                {"generate", ""}}) {
    EXPECT_EQ(run(wrong), 2) << testing::PrintToString(wrong);
    EXPECT_NE(err.str(), "") << testing::PrintToString(wrong);
  }
  EXPECT_EQ(run({"--socket", "x", "statsu"}), 2);
  EXPECT_THAT(err.str(), HasSubstr("there is no command statsu"));
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("Exit codes: 0 done"));
}

TEST_F(terranectl_test, what_is_wrong_on_a_command_line_is_told_in_few_words) {
  EXPECT_EQ(run({"generate", "a", "--max-tokens", "0"}), 2);
  EXPECT_THAT(err.str(), HasSubstr("must be a whole number of at least 1, not 0"));
  EXPECT_LT(err.str().size(), 200U);
  for (const char* option : {"--top-k", "--repetition-window"}) {
    EXPECT_EQ(run({"generate", "a", option, "-1"}), 2) << option;
    EXPECT_THAT(err.str(), HasSubstr("at least 0, not -1"));
  }
  EXPECT_EQ(run({"move", "head"}), 2);
  EXPECT_THAT(err.str(), HasSubstr("move takes parts and then a device"));
  EXPECT_EQ(run({"--version"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("terranectl "));
}

// Nothing is cut to what would fit, taken for octal or sent as no number at all.
TEST_F(terranectl_test, a_number_is_what_it_looks_like_or_refused) {
  start();
  const std::string beyond = "9223372036854775808";
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"generate", "a", "--max-tokens"},
        {"generate", "a", "--top-k"},
        {"generate", "a", "--repetition-window"},
        {"generate", "a", "--seed"},
        {"chat", "--seed"},
        {"stop"},
        {"close"},
        {"cancel"},
        {"spill"},
        {"spill", "1", "--keep"},
        {"spill", "1", "--revision"},
        {"fetch"},
        {"fetch", "1", "--revision"},
        {"move", "head", "cpu", "--revision"},
        {"explain"},
        {"monitor", "--count"}}) {
    for (const std::string& wrong : {beyond, "1e3"s, "0x10"s, "nan"s, ""s, "1 "s, "+-1"s}) {
      std::vector<std::string> arguments = command;
      arguments.push_back(wrong);
      EXPECT_EQ(run(arguments), 2) << testing::PrintToString(arguments);
      EXPECT_THAT(err.str(), HasSubstr("whole number")) << testing::PrintToString(arguments);
    }
  }
  for (const char* option : {"--temperature", "--top-p", "--min-p", "--repetition-penalty"}) {
    for (const char* wrong : {"nan", "inf", "-inf", "1e999", "0x1", "warm", ""}) {
      EXPECT_EQ(run({"generate", "a", option, wrong}), 2) << option << " " << wrong;
      EXPECT_THAT(err.str(), HasSubstr("must be a number")) << option << " " << wrong;
    }
  }
  EXPECT_EQ(run({"close", "010"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("session 10"));
}

TEST_F(terranectl_test, an_order_that_ends_with_the_daemon_is_no_success) {
  start();
  const std::vector<std::vector<std::string>> orders = {{"policy", "disable", "vram-spill"},
                                                        {"policy", "enable", "vram-spill"},
                                                        {"yield"},
                                                        {"yield", "--end"}};
  for (const auto& order : orders) EXPECT_EQ(run(order), 0) << err.str();
  service.orders_not_kept = "state: cannot write /s: No space left on device";
  for (const auto& order : orders) {
    EXPECT_EQ(run(order), 1) << testing::PrintToString(order);
    EXPECT_THAT(err.str(), HasSubstr("the order holds, but ends with the daemon"));
    EXPECT_THAT(err.str(), HasSubstr("No space left"));
    EXPECT_NE(out.str(), "");
  }
  // Also of a yield that goes on trying.
  EXPECT_EQ(run({"yield", "cpu"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("2.0 MiB are still on cpu: no room elsewhere\n"));
  EXPECT_THAT(err.str(), HasSubstr("the order holds, but ends with the daemon"));
}

TEST_F(terranectl_test, a_yield_says_at_once_what_leaves_and_how_it_ends) {
  start();
  EXPECT_EQ(run({"yield", "vulkan", "--for", "2h"}), 0) << err.str();
  EXPECT_THAT(out.str(), testing::StartsWith("vulkan:0d1e2f30-0000-0000-0000-000000000001 yields "
                                             "until 2023-11-"));
  EXPECT_THAT(out.str(), HasSubstr("; 3.0 MiB are still to leave\n"));
  EXPECT_THAT(out.str(), Not(HasSubstr("1.0 MiB are still")));  // a pipe has one line of it
  EXPECT_THAT(out.str(),
              HasSubstr(" is free: 2.0 MiB given back\nnothing comes there until 2023-"));
  EXPECT_THAT(out.str(), HasSubstr("terranectl yield --end vulkan:0d1e2f30-0000-0000-0000-0"));
  EXPECT_EQ(run({"yield", "vulkan", "--for", "1d"}), 0) << err.str();
  EXPECT_EQ(run({"yield"}), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("nothing comes there until someone ends that; terranectl"));
  EXPECT_EQ(run({"yield", "cpu"}), 1);
  EXPECT_EQ(err.str(), "terranectl: 2.0 MiB are still on cpu: no room elsewhere\n");
  EXPECT_EQ(run({"yield", "--end"}), 0);
  EXPECT_THAT(out.str(),
              HasSubstr("may be used again; what left it goes home: 3 parts and KV caches\n"
                        "cpu may be used again; nothing had left it\n"));
}

TEST_F(terranectl_test, orders_in_force_stand_in_every_list) {
  start();
  EXPECT_EQ(run({"status"}), 0);
  EXPECT_THAT(out.str(), Not(HasSubstr("yields")));
  EXPECT_THAT(out.str(), Not(HasSubstr("policy enable")));
  service.yields = {
      {"vulkan:0d1e2f30-0000-0000-0000-000000000001", "user 1000", 1'700'000'810'000}};
  service.switched_off = {"promotion"};
  for (const std::vector<std::string>& list :
       {std::vector<std::string>{"status"}, {"devices"}, {"policy", "ls"}}) {
    EXPECT_EQ(run(list), 0) << err.str();
    EXPECT_THAT(out.str(), HasSubstr("(another 12m 00s), asked for by user 1000"));
    EXPECT_THAT(out.str(), HasSubstr("terranectl yield --end"));
    std::istringstream lines(out.str());
    for (std::string line; std::getline(lines, line);) EXPECT_LE(width_of(line), 100U) << line;
  }
  EXPECT_EQ(run({"status"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("off       promotion (terranectl policy enable NAME)"));
}

TEST_F(terranectl_test, the_socket_is_named_by_option) {
  start();
  EXPECT_EQ(run({"--socket", folder.path("other"), "status"}), 3);
  EXPECT_EQ(run({"status", "--socket", path}), 0);
}

TEST_F(terranectl_test, every_table_fits_100_columns_and_has_no_colours_in_a_pipe) {
  start();
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"status"},
                                                    {"devices"},
                                                    {"placement"},
                                                    {"telemetry"},
                                                    {"sessions"},
                                                    {"policy", "ls"},
                                                    {"explain", "41"},
                                                    {"why", "head"}}) {
    EXPECT_EQ(run(arguments), 0) << err.str();
    std::istringstream lines(out.str());
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(width_of(line), 100U) << line;
      EXPECT_EQ(line.find('\033'), std::string::npos);
      EXPECT_FALSE(line.ends_with(' ')) << line;
    }
  }
}

TEST_F(terranectl_test, nothing_is_cut_where_nobody_looks) {
  start();
  columns = whole_lines;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"devices"}, {"placement"}, {"policy", "ls"}, {"explain", "41"}}) {
    EXPECT_EQ(run(arguments), 0) << err.str();
    EXPECT_THAT(out.str(), Not(HasSubstr("…"))) << out.str();
  }
}

TEST_F(terranectl_test, json_is_what_the_daemon_said) {
  start();
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"status", "--json"},
                                                    {"--json", "devices"},
                                                    {"placement", "--json"},
                                                    {"telemetry", "--json"},
                                                    {"sessions", "--json"},
                                                    {"policy", "ls", "--json"},
                                                    {"explain", "41", "--json"},
                                                    {"why", "head", "--json"},
                                                    {"plan", "--json"}}) {
    EXPECT_EQ(run(arguments), 0);
    EXPECT_TRUE(boost::json::parse(out.str()).is_object());
  }
  EXPECT_EQ(run({"explain", "9", "--json"}), 1);
  const auto refused = boost::json::parse(out.str());
  EXPECT_EQ(refused.at("error").as_string(), "io.terrane.Control.UnknownDecision");
  EXPECT_EQ(refused.at("parameters").at("newest").as_int64(), 41);
}

TEST_F(terranectl_test, placement_names_devices_briefly_and_may_be_narrowed) {
  start();
  EXPECT_EQ(run({"placement"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("vulkan:0d1e2f30 "));
  EXPECT_THAT(out.str(), HasSubstr("1m 30s"));
  EXPECT_THAT(out.str(), HasSubstr("revision 7"));
  EXPECT_EQ(run({"placement", "layer.*.attn"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("layer.1.attn"));
  EXPECT_THAT(out.str(), Not(HasSubstr("head")));
}

TEST_F(terranectl_test, a_move_takes_patterns_and_the_beginning_of_a_device) {
  start();
  service.commit_moves = true;
  EXPECT_EQ(run({"move", "layer.0-1.attn", "head", "vulkan"}), 0) << err.str();
  EXPECT_EQ(
      service.asked(),
      (std::vector<std::string>{
          "move layer.0.attn layer.1.attn head to vulkan:0d1e2f30-0000-0000-0000-000000000001"}));
  EXPECT_THAT(out.str(), HasSubstr("moved 3 parts to vulkan:"));
  EXPECT_THAT(out.str(), HasSubstr("pause 1.50 ms for 4.0 KiB, revision 8"));

  EXPECT_EQ(run({"move", "all", "cpu", "--json"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("\"state\":\"preparing\""));
  EXPECT_THAT(out.str(), HasSubstr("\"state\":\"committed\""));
}

TEST_F(terranectl_test, what_was_tuned_is_shown_and_done_again) {
  start();
  EXPECT_EQ(run({"tune", "--show"}), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("many rows, K 576, Q4_1 576"));
  EXPECT_THAT(out.str(), HasSubstr("9.3 %"));
  EXPECT_THAT(out.str(), HasSubstr("order columns_first"));
  EXPECT_THAT(out.str(), HasSubstr("as by default"));
  EXPECT_THAT(out.str(), HasSubstr("not timed"));
  EXPECT_EQ(service.asked(), std::vector<std::string>{});

  EXPECT_EQ(run({"tune"}), 0) << err.str();
  EXPECT_EQ(run({"tune", "vulkan"}), 0) << err.str();
  EXPECT_EQ(service.asked(), (std::vector<std::string>{
                                 "tune all", "tune vulkan:0d1e2f30-0000-0000-0000-000000000001"}));
  EXPECT_EQ(run({"tune", "vulkan", "--json"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("\"done\":1"));
  EXPECT_THAT(out.str(), HasSubstr("\"done\":3"));
}

TEST_F(terranectl_test, tuning_is_refused_while_something_runs) {
  start();
  EXPECT_EQ(run({"tune", "cpu"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("a reply is being given"));
}

TEST_F(terranectl_test, a_move_says_what_was_there_already) {
  start();
  service.commit_moves = true;
  EXPECT_EQ(run({"move", "layer.1", "cpu"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("moved 1 part to cpu (1 was there already)"));
  EXPECT_EQ(run({"move", "layer.0", "cpu"}), 0);
  EXPECT_EQ(out.str(), "all 2 parts are on cpu already\n");
  service.move_notes = {"policy 'hot' does not bring head home any more"};
  EXPECT_EQ(run({"move", "head", "cpu"}), 0);
  EXPECT_EQ(out.str(), "head is on cpu already\npolicy 'hot' does not bring head home any more\n");
}

TEST_F(terranectl_test, a_move_that_cannot_be_is_refused_with_words) {
  start();
  service.commit_moves = true;
  EXPECT_EQ(run({"move", "layer.7", "cpu"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("no part is called layer.7"));
  EXPECT_EQ(run({"move", "layer.0-7", "cpu"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("no part is called layer.0-7"));
  EXPECT_EQ(run({"move", "head", "cuda"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("there is no device \"cuda\""));
  EXPECT_EQ(run({"move", "head", "cpu", "--revision", "3"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("revision 3, but the current one is 7"));
}

TEST_F(terranectl_test, a_move_does_not_mind_what_policies_move_meanwhile) {
  start();
  service.commit_moves = service.moves_by_itself = true;
  EXPECT_EQ(run({"move", "layer.0-1.attn", "head", "vulkan"}), 0) << err.str();
}

TEST_F(terranectl_test, readings_are_in_the_units_of_people_and_raw_for_programs) {
  start();
  EXPECT_EQ(run({"telemetry"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("50.0 %"));
  EXPECT_THAT(out.str(), HasSubstr("1.5 GiB"));
  EXPECT_THAT(out.str(), HasSubstr("device memory"));
  EXPECT_EQ(run({"telemetry", "--json"}), 0);
  const auto json = boost::json::parse(out.str());
  const auto& used = json.at("readings").at(1);
  EXPECT_EQ(used.at("value").as_double(), 1610612736.0);
  EXPECT_EQ(used.at("unit").as_string(), "bytes");
  EXPECT_EQ(value_text(0.92, unit::ratio), "92.0 %");
  EXPECT_EQ(value_text(61, unit::celsius), "61.0 C");
  EXPECT_EQ(value_text(7200, unit::seconds), "2h 00m");
  EXPECT_EQ(value_text(8192, unit::tokens), "8192");
  EXPECT_EQ(value_text(-2048, unit::bytes), "-2.0 KiB");
}

TEST_F(terranectl_test, a_daemon_that_loads_shows_no_counts) {
  start();
  service.state = daemon_state::starting;
  EXPECT_EQ(run({"status"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("is being loaded"));
  EXPECT_THAT(out.str(), Not(HasSubstr("revision")));
}

TEST_F(terranectl_test, a_daemon_without_a_model_says_why_and_how_to_go_on) {
  start();
  service.state = daemon_state::failed;
  EXPECT_EQ(run({"status"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("could not be loaded: tiny.gguf: is truncated"));
  EXPECT_THAT(out.str(), HasSubstr("kill -HUP 4711"));
  EXPECT_THAT(out.str(), Not(HasSubstr("revision")));
}

TEST_F(terranectl_test, a_refused_reload_tells_every_fault) {
  start();
  EXPECT_EQ(run({"policy", "reload"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("the old set stays in force"));
  EXPECT_THAT(err.str(), HasSubstr("vram.yaml:3:5: leave must be below enter"));
}

TEST_F(terranectl_test, a_policy_file_that_cannot_be_read_is_not_planned) {
  start();
  EXPECT_EQ(run({"plan", "--file", folder.path("missing.yaml")}), 1);
  EXPECT_THAT(err.str(), HasSubstr("cannot read"));
  EXPECT_EQ(run({"plan", "--file", folder.path("")}), 1);
  EXPECT_THAT(err.str(), HasSubstr("is a folder"));
  EXPECT_EQ(run({"plan", "--file", "/dev/zero"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("is longer than 512.0 KiB"));
}

TEST_F(terranectl_test, the_main_may_add_commands_that_need_no_daemon) {
  std::string read;
  further = {{"policy", "count", "Count",
              [&read](CLI::App& parser) -> command_action {
                parser.add_option("WHAT", read)->required();
                return [&read](const context& with) {
                  with.out() << "counted " << read << "\n";
                  return 0;
                };
              }},
             {"", "alone", "Stands alone",
              [](CLI::App&) -> command_action { return [](const context&) { return 1; }; }}};
  EXPECT_EQ(run({"policy", "count", "sheep"}), 0);
  EXPECT_EQ(out.str(), "counted sheep\n");
  EXPECT_EQ(run({"policy", "count"}), 2);
  EXPECT_EQ(run({"alone"}), 1);
  EXPECT_EQ(run({"policy", "--help"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("Count"));
  further.clear();
  EXPECT_EQ(run({"alone"}), 2);
}

TEST_F(terranectl_test, plan_explain_and_why_tell_in_sentences) {
  start();
  EXPECT_EQ(run({"plan"}), 0);
  EXPECT_EQ(out.str(), "Nothing would be done.\n");
  EXPECT_EQ(run({"plan", "--assume", "vulkan:0d/vram.used_ratio=0.95"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("a dry run"));
  EXPECT_EQ(run({"explain", "41"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("vram-spill moved layer.1.ffn to cpu."));
  EXPECT_THAT(out.str(),
              HasSubstr("2: layer.1.ffn to layer.1.attn:\n  bytes 8.0 MiB, planned 6.0 MiB\n"
                        "  pause 1.25 ms, predicted 1.50 ms\n  time 7.50 ms, predicted 6.50 ms\n"
                        "  a token after it 32 ms, predicted 30 ms\n"));
  EXPECT_THAT(out.str(), HasSubstr("layer.0.ffn:\n  time is predicted to be 4.00 ms\n"));
  EXPECT_THAT(out.str(), HasSubstr("2: layer.1.ffn to layer.1.attn"));
  EXPECT_THAT(out.str(), HasSubstr("6.0 MiB"));
  EXPECT_THAT(out.str(), HasSubstr("layer.0.ffn"));
  EXPECT_EQ(run({"why", "head"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("head is on cpu."));
  EXPECT_EQ(run({"why", "heat"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("Did you mean head?"));
}

TEST_F(terranectl_test, a_rate_is_told_as_that_of_the_last_reply_when_none_goes_on) {
  start();
  EXPECT_EQ(run({"status"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("generating 0 (the last reply: 12.5 tokens/s)\n"));
}

TEST_F(terranectl_test, status_tells_how_good_predictions_were) {
  start();
  EXPECT_EQ(run({"status"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("predicted bytes 1.00, time 1.12, pause 0.95, token time 1.05 "
                                   "(measured over predicted, 12 moves)\n"));
}

TEST_F(terranectl_test, sessions_are_spilled_fetched_stopped_and_closed) {
  start();
  EXPECT_EQ(run({"spill", "3", "--keep", "64"}), 0);
  EXPECT_EQ(run({"fetch", "3"}), 0);
  EXPECT_EQ(run({"stop", "3"}), 0);
  EXPECT_EQ(run({"close", "3"}), 0);
  EXPECT_EQ(run({"cancel", "5"}), 0);
  EXPECT_EQ(run({"close", "4"}), 1);
  EXPECT_EQ(service.asked(),
            (std::vector<std::string>{"spill 3", "fetch 3", "stop 3", "close 3", "cancel 5"}));
}

TEST_F(terranectl_test, monitor_shows_events_and_counts) {
  start();
  std::thread daemon([this] {
    while (events.subscribers() == 0) {
      std::this_thread::yield();
    }
    event moved;
    moved.kind = event_kind::move_committed;
    moved.message = "head is on cpu";
    moved.pause_ms = 0.5;
    moved.decision = 41;
    events.publish(moved);
    events.publish({});
  });
  EXPECT_EQ(run({"monitor", "--count", "2"}), 0);
  daemon.join();
  EXPECT_THAT(out.str(), HasSubstr("move_committed: head is on cpu, pause 0.50 ms  (decision 41)"));
}

}  // namespace
}  // namespace terrane::ipc::ctl

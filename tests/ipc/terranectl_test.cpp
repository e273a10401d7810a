// terranectl as a function, against the fake service: what it prints, and its exit codes.
#include <array>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include <CLI/App.hpp>
#include <boost/json/parse.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ipc/control/part_pattern.hpp"
#include "ipc/terranectl/program.hpp"
#include "ipc/terranectl/table.hpp"
#include "ipc/terranectl/words.hpp"
#include "tests/ipc/fixture.hpp"

namespace terrane::ipc::ctl {
namespace {

using namespace std::string_literals;

using testing::HasSubstr;
using testing::Not;

struct terranectl_test : control_test {
  std::ostringstream out;
  std::ostringstream err;
  bool typed = false;
  bool terminal = false;
  std::vector<further_command> further;

  int run(std::vector<std::string> arguments, const std::string& input = "") {
    int pipes[2];
    EXPECT_EQ(pipe(pipes), 0);
    EXPECT_EQ(write(pipes[1], input.data(), input.size()), static_cast<ssize_t>(input.size()));
    close(pipes[1]);
    const int code = run_reading(std::move(arguments), pipes[0]);
    close(pipes[0]);
    return code;
  }
  int run_reading(std::vector<std::string> arguments, int input) {
    out.str("");
    err.str("");
    surroundings around{out, err};
    around.input = input;
    around.input_is_terminal = typed;
    around.out_is_terminal = terminal;
    around.colours = terminal;
    around.socket = path;
    around.now_unix_ms = [] { return 1'700'000'090'000; };
    return ctl::run(std::move(arguments), around, further);
  }
};

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
  EXPECT_THAT(out.str(), HasSubstr("moved 1 part to cpu (1 were there already)"));
  EXPECT_EQ(run({"move", "layer.0", "cpu"}), 0);
  EXPECT_EQ(out.str(), "all 2 parts are on cpu already\n");
  EXPECT_EQ(run({"move", "head", "cpu"}), 0);
  EXPECT_EQ(out.str(), "head is on cpu already\n");
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

TEST_F(terranectl_test, a_daemon_that_is_killed_is_told_with_where_to_look) {
  // All that is left of one is a connection that ends.
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  const int listening = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(listening, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(listen(listening, 1), 0);
  std::thread killed([&] {
    const int caller = accept(listening, nullptr, nullptr);
    std::array<char, 4096> call;
    EXPECT_GT(read(caller, call.data(), call.size()), 0);
    const std::string piece = R"({"parameters":{"session":3,"text":"Once "},"continues":true})";
    EXPECT_GT(write(caller, piece.c_str(), piece.size() + 1), 0);
    close(caller);
  });
  EXPECT_EQ(run({"generate", "tell"}), 1);
  killed.join();
  close(listening);
  EXPECT_THAT(err.str(), HasSubstr("stopped or killed"));
  EXPECT_THAT(err.str(), HasSubstr("journalctl -u terraned"));
  EXPECT_EQ(out.str(), "Once \n");  // the message has a line of its own
}

TEST_F(terranectl_test, generate_prints_text_only_unless_asked) {
  start();
  service.pieces = {"Once ", "upon"};
  EXPECT_EQ(run({"generate", "tell"}), 0);
  EXPECT_EQ(out.str(), "Once upon\n");
  EXPECT_EQ(run({"generate", "tell", "--stats"}), 0);
  EXPECT_THAT(err.str(), HasSubstr("[2 tokens, 20.0/s"));
  EXPECT_EQ(run({"generate"}, "from a pipe"), 0);
  EXPECT_EQ(service.asked().back(), "generate from a pipe");
}

TEST_F(terranectl_test, a_stop_text_does_not_swallow_the_prompt) {
  start();
  std::thread program([this] {
    EXPECT_EQ(run({"generate", "--stop", "END", "--stop", "FIN", "hello"}), 0) << err.str();
  });
  const auto open = service.next_generate();
  open.to.finish({});
  program.join();
  EXPECT_EQ(open.request.prompt, "hello");
  EXPECT_EQ(open.request.stop, (std::vector<std::string>{"END", "FIN"}));
}

TEST_F(terranectl_test, text_that_is_not_utf8_is_refused_by_name) {
  start();
  EXPECT_EQ(run({"generate", "a\xff"}), 1);
  EXPECT_THAT(err.str(), HasSubstr("the text is not UTF-8"));
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

TEST_F(terranectl_test, generate_passes_its_settings_on) {
  start();
  std::thread program([this] {
    EXPECT_EQ(run({"generate", "--chat", "hello", "--temperature", "0", "--seed", "7", "--stop",
                   "END", "--max-tokens", "9", "--system", "Be brief."}),
              0);
  });
  const auto open = service.next_generate();
  open.to.finish({});
  program.join();
  ASSERT_EQ(open.request.messages->size(), 2U);
  EXPECT_EQ(open.request.messages->front().role, chat_role::system);
  EXPECT_EQ(open.request.sampling->temperature, 0.0);
  EXPECT_EQ(open.request.sampling->seed, 7);
  EXPECT_EQ(open.request.stop, (std::vector<std::string>{"END"}));
  EXPECT_EQ(open.request.max_tokens, 9);
  EXPECT_FALSE(open.request.prompt);
}

TEST_F(terranectl_test, a_terminal_is_not_driven_by_what_the_model_says) {
  start();
  service.pieces = {"\033]0;gotcha\007", "ok"};
  terminal = true;
  EXPECT_EQ(run({"generate", "tell"}), 0);
  EXPECT_THAT(out.str(), Not(HasSubstr("\033]")));
  EXPECT_THAT(out.str(), HasSubstr("ok"));
}

TEST_F(terranectl_test, a_chat_from_a_pipe_keeps_one_session_and_closes_it) {
  start();
  service.pieces = {"Yes."};
  EXPECT_EQ(run({"chat"}, "first\n\nsecond"), 0) << err.str();
  EXPECT_EQ(out.str(), "Yes.\nYes.\n");
  EXPECT_EQ(service.asked(),
            (std::vector<std::string>{"generate first", "generate second", "close 3"}));
}

TEST_F(terranectl_test, a_reply_that_was_closed_is_no_success) {
  start();
  generate_summary closed;
  closed.stop = stop_reason::closed;
  closed.closed_by = "user 7";
  for (const bool json : {false, true}) {
    int code = -1;
    std::thread program([&] {
      code = json ? run({"generate", "--json", "tell"}) : run({"generate", "tell"});
    });
    const auto open = service.next_generate();
    open.to.text("Once");
    open.to.finish(closed);
    program.join();
    EXPECT_EQ(code, 1);
    if (!json) {
      EXPECT_THAT(err.str(), HasSubstr("the session was closed by user 7 before the reply's end"));
    }
  }
  int code = -1;
  std::thread program([&] { code = run({"chat"}, "first\nsecond\n"); });
  const auto first = service.next_generate();
  first.to.started(3);
  first.to.finish(closed);
  const auto second = service.next_generate();
  EXPECT_EQ(second.request.session, std::nullopt);
  second.to.finish({});
  program.join();
  EXPECT_EQ(code, 1);
}

TEST_F(terranectl_test, a_chat_with_a_daemon_that_has_no_model_fails_at_once) {
  start();
  service.state = daemon_state::failed;
  EXPECT_EQ(run({"chat"}, ""), 1);
  EXPECT_THAT(err.str(), HasSubstr("tiny.gguf: is truncated"));
}

TEST_F(terranectl_test, a_chat_goes_on_after_a_refusal_and_ends_with_failure) {
  start();
  EXPECT_EQ(run({"chat", "--json"}, "/help\n"), 0);
  std::thread program([this] { EXPECT_EQ(run({"chat"}, "first\nsecond\n"), 1); });
  service.next_generate().to.fail(refuse::context_exceeded(3000, 2048));
  const auto second = service.next_generate();
  second.to.started(3);
  second.to.finish({});
  program.join();
  EXPECT_THAT(err.str(), HasSubstr("the prompt has 3000 tokens and the context takes 2048"));
}

// Ctrl-C is a signal to the thread that chats; SIGINT stays blocked so that it cannot end the test.
void block_ctrl_c() {
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
}

TEST_F(terranectl_test, ctrl_c_stops_the_reply_and_the_chat_goes_on) {
  start();
  typed = true;
  block_ctrl_c();
  int code = -1;
  std::thread program([&] { code = run({"chat"}, "first\nsecond\n"); });
  const auto first = service.next_generate();
  first.to.started(3);
  first.to.text("Once");
  pthread_kill(program.native_handle(), SIGINT);
  service.wait_for("stop 3");
  generate_summary stopped;
  stopped.stop = stop_reason::stopped;
  first.to.finish(stopped);
  const auto second = service.next_generate();
  EXPECT_EQ(second.request.session, 3);
  second.to.text(" more");
  second.to.finish({});
  program.join();
  EXPECT_EQ(code, 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("Once"));
}

// The reply has ended by the first Ctrl-C, but that has not come through when the second does.
TEST_F(terranectl_test, a_reply_that_is_left_leaves_no_session) {
  start();
  typed = true;
  block_ctrl_c();
  std::thread program([&] { EXPECT_EQ(run({"chat"}, "first\n"), 0); });
  const auto first = service.next_generate();
  first.to.started(3);
  first.to.text("Once");
  pthread_kill(program.native_handle(), SIGINT);
  service.wait_for("stop 3");
  pthread_kill(program.native_handle(), SIGINT);
  service.wait_for("close 3");
  program.join();
  EXPECT_THAT(out.str(), HasSubstr("The reply was left, and its conversation."));
}

// Session 3 of the new daemon is somebody else's.
TEST_F(terranectl_test, a_chat_does_not_go_on_in_a_session_of_another_daemon) {
  start();
  int code = -1;
  std::thread program([&] { code = run({"chat"}, "first\nsecond\nthird\n"); });
  const auto first = service.next_generate();
  first.to.started(3);
  service.pid = 4712;
  first.to.finish({});
  const auto second = service.next_generate();
  EXPECT_EQ(second.request.session, std::nullopt);
  second.to.started(3);
  service.uptime_s = 1;  // in a container every daemon has the same number
  second.to.finish({});
  const auto third = service.next_generate();
  EXPECT_EQ(third.request.session, std::nullopt);
  third.to.finish({});
  program.join();
  EXPECT_THAT(err.str(), HasSubstr("The daemon was started anew"));
}

TEST_F(terranectl_test, a_conversation_that_is_too_long_says_how_to_go_on) {
  start();
  std::thread program([this] { EXPECT_EQ(run({"chat"}, "first\nsecond\n"), 1); });
  const auto first = service.next_generate();
  first.to.started(3);
  generate_summary kept;
  kept.prompt_tokens = 40;
  kept.cached_tokens = 30;
  first.to.finish(kept);
  service.next_generate().to.fail(refuse::context_exceeded(3000, 2048));
  program.join();
  EXPECT_THAT(err.str(), HasSubstr("/new begins another"));
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

TEST(part_pattern, names_ranges_and_stars) {
  EXPECT_TRUE(part_matches("all", "head"));
  EXPECT_TRUE(part_matches("layer.3", "layer.3.attn"));
  EXPECT_TRUE(part_matches("layer.2-11", "layer.11.ffn"));
  EXPECT_TRUE(part_matches("layer.*.attn", "layer.7.attn"));
  EXPECT_TRUE(part_matches("layer", "layer.7.attn"));
  EXPECT_FALSE(part_matches("layer.2-11", "layer.12.ffn"));
  EXPECT_FALSE(part_matches("layer.3", "layer.30.attn"));
  EXPECT_FALSE(part_matches("layer.11-2", "layer.3.attn"));
  EXPECT_FALSE(part_matches("layer.-2", "layer.2.attn"));
  EXPECT_FALSE(part_matches("layer.0-99999999999999999999", "layer.2.attn"));
  EXPECT_FALSE(part_matches("layer.3.attn.x", "layer.3.attn"));
  EXPECT_FALSE(part_matches("*.x", "head"));

  const std::vector<std::string> parts{"embedding", "layer.0.attn", "layer.1.attn", "head"};
  EXPECT_EQ(expand_parts({"head", "layer.1", "layer.*"}, parts).value(),
            (std::vector<std::string>{"layer.0.attn", "layer.1.attn", "head"}));
  EXPECT_EQ(expand_parts({"head", "tail"}, parts).error(), "tail");
  EXPECT_EQ(expand_parts({""}, parts).error(), "");
  EXPECT_EQ(expand_parts({"layer.0-1"}, parts).value().size(), 2U);
  EXPECT_EQ(expand_parts({"layer.0-2"}, parts).error(), "layer.0-2");
  EXPECT_EQ(expand_parts({"layer.1-0.attn"}, parts).error(), "layer.1-0.attn");
}

TEST(words, places_without_a_line) {
  EXPECT_EQ(place_text("a.yaml", 3, 7), "a.yaml:3:7");
  EXPECT_EQ(place_text("a.lua", 3, 0), "a.lua:3");
  EXPECT_EQ(place_text("folder", 0, 0), "folder");
}

TEST(words, sizes_and_times) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(1024 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(bytes_text(std::int64_t{8} << 30), "8.0 GiB");
  EXPECT_EQ(duration_text(3.5), "3.5 s");
  EXPECT_EQ(duration_text(65), "1m 05s");
  EXPECT_EQ(duration_text(7500), "2h 05m");
  EXPECT_EQ(ms_text(1.25), "1.25 ms");
  EXPECT_EQ(ms_text(12'000), "12.0 s");
}

TEST(words, texts_are_cut_between_characters) {
  EXPECT_EQ(cut("äöü", 3), "äöü");
  EXPECT_EQ(cut("äöüß", 3), "äö…");
  EXPECT_EQ(width_of("äö…"), 3U);
  EXPECT_EQ(printable("a\033b\177c\xC2\x9B"
                      "d\n"),
            "a\uFFFDb\uFFFDc\uFFFDd\n");
  EXPECT_EQ(printable("ä€"), "ä€");
}

TEST(words, a_device_may_be_named_by_its_beginning) {
  const std::vector<std::string> known{"cpu", "vulkan:aaaa", "vulkan:bbbb"};
  EXPECT_EQ(resolve_device("cpu", known), "cpu");
  EXPECT_EQ(resolve_device("vulkan:b", known), "vulkan:bbbb");
  EXPECT_EQ(resolve_device("vulkan", known), "vulkan");
  EXPECT_EQ(resolve_device("gpu", known), "gpu");
}

TEST(words, brief_device_names_stay_distinct) {
  const std::string one = "vulkan:0d1e2f30-0000-0000-0000-000000000001";
  const std::string like_it = "vulkan:0d1e2f30-0000-0000-0000-000000000002";
  EXPECT_EQ(device_names({"cpu", one}).brief(one), "vulkan:0d1e2f30");
  EXPECT_EQ(device_names({one, like_it}).brief(one), one);
}

TEST(table, one_column_gives_way_and_empty_ones_go) {
  table rows({{"A"}, {"N", align::right}, {"EMPTY"}, {"TEXT", align::left, true}});
  rows.add({"x", "5", "", "a long text that does not fit"});
  rows.add({"yy", "10", "", "short\nlines"});
  std::ostringstream out;
  rows.print(out, 24, "", "");
  EXPECT_EQ(out.str(),
            "A    N  TEXT\n"
            "x    5  a long text tha…\n"
            "yy  10  short lines\n");
}

}  // namespace
}  // namespace terrane::ipc::ctl

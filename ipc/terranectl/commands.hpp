// The commands of terranectl, one function each; they return the program's exit code. program.cpp
// reads the command line into these parameters. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ipc/control/types.hpp"
#include "ipc/terranectl/context.hpp"
#include "ipc/terranectl/words.hpp"

namespace terrane::ipc::ctl {

// show.cpp
int show_status(const context& with);
int show_devices(const context& with);
int show_placement(const context& with, const std::vector<std::string>& patterns);
int show_telemetry(const context& with);
int print_snapshot(const context& with);
int show_sessions(const context& with);

// talk.cpp
struct talk_options {
  std::optional<std::string> system;  // the first message of a chat
  std::optional<std::int64_t> max_tokens;
  std::vector<std::string> stop;
  sampling_settings sampling;
  bool as_chat = false;  // generate: the prompt is a message, in the model's chat format
  bool statistics = false;
};
// An empty prompt, or "-", is read from the input.
int generate(const context& with, const std::string& prompt, const talk_options& options);
// chat.cpp
int chat(const context& with, const talk_options& options);

// steer.cpp
int move_parts(const context& with, const std::vector<std::string>& patterns,
               const std::string& device, std::optional<std::int64_t> revision);
int cancel_move(const context& with, std::int64_t move);
int stop_reply(const context& with, std::int64_t session);
int close_session(const context& with, std::int64_t session);
int spill_kv(const context& with, const spill_kv_request& request);
int fetch_kv(const context& with, const fetch_kv_request& request);

// tune.cpp; an empty device is all of them.
int tune(const context& with, const std::string& device);
int show_tuning(const context& with);

// orders.cpp
int switch_policy(const context& with, const std::string& name, bool enabled);
int yield(const context& with, std::optional<std::string> device, std::optional<double> for_s);
int end_yield(const context& with, std::optional<std::string> device);
// A line for each device that yields, with how to end that.
void print_yields(const context& with, const std::vector<yield_info>& yields,
                  const device_names& names);

// decide.cpp
int list_policies(const context& with);
int reload_policies(const context& with);
// Each assumption is "OBJECT/METRIC=VALUE".
// "vulkan/vram.used_ratio=0.97", or nothing; and what is said of one that is none.
std::optional<assumption> parse_assumption(const std::string& text);
int refuse_assumption(const context& with, const std::string& text);
int plan(const context& with, const std::vector<std::string>& assumptions, const std::string& file);
int explain(const context& with, std::int64_t id);
int why(const context& with, const std::string& part);

// monitor.cpp; `count` events, or for ever.
int monitor(const context& with, std::optional<std::int64_t> count);

}  // namespace terrane::ipc::ctl

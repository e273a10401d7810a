// What `generate` and `chat` share: how a reply is asked for and shown. One thread.
#pragma once

#include <string>

#include "ipc/terranectl/commands.hpp"

namespace terrane::ipc::ctl {

// max_tokens, sampling and stop texts from the command line.
generate_request base_request(const talk_options& options);

// A piece of the reply, at once. On a terminal without the control characters that a model may
// make.
void print_piece(const context& with, std::string_view text);

// "[42 tokens, 12.3/s, prompt 10 tokens in 120 ms, 2 moves, longest pause 1.2 ms]"
std::string summary_text(const generate_summary& summary);
// Who closed the session in the middle of a reply (stop = closed).
std::string closed_text(const generate_summary& summary);

}  // namespace terrane::ipc::ctl

// Replies, and the sessions that they belong to. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

namespace terrane::ipc {

BOOST_DEFINE_ENUM_CLASS(chat_role, system, user, assistant)
BOOST_DEFINE_ENUM_CLASS(stop_reason, end_of_text, max_tokens, stop_text, context_full, stopped,
                        closed)
BOOST_DEFINE_ENUM_CLASS(session_state, waiting, prefill, generating, idle)

struct chat_message {
  chat_role role = chat_role::user;
  std::string content;
};
BOOST_DESCRIBE_STRUCT(chat_message, (), (role, content))

struct sampling_settings {
  std::optional<double> temperature;
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<std::int64_t> repetition_window;
  std::optional<std::int64_t> seed;
};
BOOST_DESCRIBE_STRUCT(sampling_settings, (),
                      (temperature, top_k, top_p, min_p, repetition_penalty, repetition_window,
                       seed))

// The control server has checked: exactly one of prompt and messages, max_tokens at least 1.
struct generate_request {
  std::optional<std::string> prompt;
  std::optional<std::vector<chat_message>> messages;
  std::optional<std::int64_t> max_tokens;
  std::optional<sampling_settings> sampling;
  std::optional<std::vector<std::string>> stop;
  std::optional<std::int64_t> session;
  std::optional<bool> keep;
};
BOOST_DESCRIBE_STRUCT(generate_request, (),
                      (prompt, messages, max_tokens, sampling, stop, session, keep))

struct generate_summary {
  stop_reason stop = stop_reason::end_of_text;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t generated_tokens = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
  std::int64_t moves = 0;
  double longest_pause_ms = 0;
  std::optional<std::string> logits_hash;
  std::optional<std::string> closed_by;  // of stop = closed
};
BOOST_DESCRIBE_STRUCT(generate_summary, (),
                      (stop, prompt_tokens, cached_tokens, generated_tokens, prefill_ms, decode_ms,
                       moves, longest_pause_ms, logits_hash, closed_by))

struct generate_reply {
  std::int64_t session = 0;
  std::string text;
  std::optional<generate_summary> summary;
};
BOOST_DESCRIBE_STRUCT(generate_reply, (), (session, text, summary))

struct session_request {
  std::int64_t session = 0;
};
BOOST_DESCRIBE_STRUCT(session_request, (), (session))

struct device_bytes {
  std::string device;
  std::int64_t bytes = 0;
};
BOOST_DESCRIBE_STRUCT(device_bytes, (), (device, bytes))

struct session_info {
  std::int64_t id = 0;
  std::int64_t owner_uid = 0;
  session_state state = session_state::idle;
  std::int64_t context_tokens = 0;
  std::int64_t context_limit_tokens = 0;
  std::vector<device_bytes> kv;
  std::vector<device_bytes> kv_reserved;
  std::int64_t created_unix_ms = 0;
  double idle_s = 0;
};
BOOST_DESCRIBE_STRUCT(session_info, (),
                      (id, owner_uid, state, context_tokens, context_limit_tokens, kv, kv_reserved,
                       created_unix_ms, idle_s))

struct sessions_reply {
  std::vector<session_info> sessions;
};
BOOST_DESCRIBE_STRUCT(sessions_reply, (), (sessions))

}  // namespace terrane::ipc

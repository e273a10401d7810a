// What happens while somebody watches. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

namespace terrane::ipc {

BOOST_DEFINE_ENUM_CLASS(event_kind, started, stopping, device_lost, move_preparing, move_committed,
                        move_failed, kv_spilled, kv_fetched, decision, declined, policy_reloaded,
                        policy_fault, session_opened, session_closed, warning)

struct event {
  std::int64_t time_unix_ms = 0;
  event_kind kind = event_kind::warning;
  std::string message;
  std::optional<std::int64_t> decision;
  std::optional<std::string> policy;
  std::optional<std::string> part;
  std::optional<std::int64_t> session;
  std::optional<std::string> from;
  std::optional<std::string> to;
  std::optional<std::int64_t> bytes;
  std::optional<double> pause_ms;
};
BOOST_DESCRIBE_STRUCT(event, (),
                      (time_unix_ms, kind, message, decision, policy, part, session, from, to,
                       bytes, pause_ms))

struct monitor_reply {
  std::int64_t sequence = 0;
  std::int64_t lost = 0;
  std::optional<ipc::event> event;
};
BOOST_DESCRIBE_STRUCT(monitor_reply, (), (sequence, lost, event))

}  // namespace terrane::ipc

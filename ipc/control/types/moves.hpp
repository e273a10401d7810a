// Moves that people ask for, of parts and of sessions' KV. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

namespace terrane::ipc {

BOOST_DEFINE_ENUM_CLASS(move_state, preparing, committed)

struct move_request {
  std::vector<std::string> parts;
  std::string device;
  std::optional<std::int64_t> revision;
};
BOOST_DESCRIBE_STRUCT(move_request, (), (parts, device, revision))

struct move_reply {
  std::int64_t move = 0;
  move_state state = move_state::preparing;
  std::int64_t revision = 0;
  std::int64_t bytes_total = 0;
  std::int64_t bytes_done = 0;
  std::optional<double> pause_ms;
  std::optional<std::int64_t> bytes_in_pause;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(move_reply, (),
                      (move, state, revision, bytes_total, bytes_done, pause_ms, bytes_in_pause,
                       notes))

struct cancel_move_request {
  std::int64_t move = 0;
};
BOOST_DESCRIBE_STRUCT(cancel_move_request, (), (move))

struct spill_kv_request {
  std::int64_t session = 0;
  std::optional<std::string> device;
  std::optional<std::int64_t> keep_tokens;
  std::optional<std::int64_t> revision;
};
BOOST_DESCRIBE_STRUCT(spill_kv_request, (), (session, device, keep_tokens, revision))

struct fetch_kv_request {
  std::int64_t session = 0;
  std::optional<std::int64_t> revision;
};
BOOST_DESCRIBE_STRUCT(fetch_kv_request, (), (session, revision))

struct kv_reply {
  std::int64_t bytes = 0;
  std::int64_t revision = 0;
};
BOOST_DESCRIBE_STRUCT(kv_reply, (), (bytes, revision))

}  // namespace terrane::ipc

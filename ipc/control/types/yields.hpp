// Devices that are to give their memory back for a while. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

namespace terrane::ipc {

// A device whose memory someone wants back for a while.
struct yield_info {
  std::string device;
  std::string by;
  std::optional<std::int64_t> until_unix_ms;
};
BOOST_DESCRIBE_STRUCT(yield_info, (), (device, by, until_unix_ms))

// The control server has checked: for_s is above zero.
struct yield_request {
  std::optional<std::string> device;
  std::optional<double> for_s;
};
BOOST_DESCRIBE_STRUCT(yield_request, (), (device, for_s))

BOOST_DEFINE_ENUM_CLASS(yield_state, leaving, free)

struct yield_reply {
  std::string device;
  yield_state state = yield_state::leaving;
  std::int64_t left_bytes = 0;
  std::int64_t freed_bytes = 0;
  std::optional<std::int64_t> driver_used_bytes;
  std::optional<std::int64_t> until_unix_ms;
  std::optional<std::string> not_kept;
};
BOOST_DESCRIBE_STRUCT(yield_reply, (),
                      (device, state, left_bytes, freed_bytes, driver_used_bytes, until_unix_ms,
                       not_kept))

struct end_yield_request {
  std::optional<std::string> device;
};
BOOST_DESCRIBE_STRUCT(end_yield_request, (), (device))

struct ended_yield {
  std::string device;
  std::int64_t away = 0;
};
BOOST_DESCRIBE_STRUCT(ended_yield, (), (device, away))

struct end_yield_reply {
  std::vector<ended_yield> ended;
  std::optional<std::string> not_kept;
};
BOOST_DESCRIBE_STRUCT(end_yield_reply, (), (ended, not_kept))

}  // namespace terrane::ipc

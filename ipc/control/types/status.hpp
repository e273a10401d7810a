// What the daemon is and has: its state, model, devices, placement and telemetry. Plain values; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include "ipc/control/types/yields.hpp"

namespace terrane::ipc {

// What a caller may do. Each level includes the ones before it.
BOOST_DEFINE_ENUM_CLASS(access_level, observe, operate, admin)

BOOST_DEFINE_ENUM_CLASS(daemon_state, starting, ready, failed, stopping)

struct model_info {
  std::string name;
  std::string file;
  std::string architecture;
  std::string format;
  std::int64_t layers = 0;
  std::int64_t context_tokens = 0;
  std::int64_t weights_bytes = 0;
  std::optional<std::string> chat_format;
};
BOOST_DESCRIBE_STRUCT(model_info, (),
                      (name, file, architecture, format, layers, context_tokens, weights_bytes,
                       chat_format))

enum class prediction_of { bytes, time, pause, token_time };
BOOST_DESCRIBE_ENUM(prediction_of, bytes, time, pause, token_time)

struct prediction_info {
  prediction_of of = prediction_of::bytes;
  std::int64_t moves = 0;
  double median_ratio = 0;
};
BOOST_DESCRIBE_STRUCT(prediction_info, (), (of, moves, median_ratio))

struct status_reply {
  std::string version;
  daemon_state state = daemon_state::starting;
  std::optional<std::string> reason;            // of `failed`
  access_level access = access_level::observe;  // the caller's level
  std::int64_t pid = 0;
  double uptime_s = 0;
  std::int64_t revision = 0;
  std::string policy_revision;
  std::optional<model_info> model;
  std::int64_t devices = 0;
  std::int64_t sessions = 0;
  std::int64_t generating = 0;
  std::int64_t policies = 0;
  std::int64_t moves = 0;
  double decode_tok_s = 0;
  std::optional<std::int64_t> last_decision;
  std::vector<std::string> warnings;
  std::vector<prediction_info> predictions;
  std::vector<yield_info> yields;
  std::vector<std::string> switched_off;  // policies
};
BOOST_DESCRIBE_STRUCT(status_reply, (),
                      (version, state, reason, access, pid, uptime_s, revision, policy_revision,
                       model, devices, sessions, generating, policies, moves, decode_tok_s,
                       last_decision, warnings, predictions, yields, switched_off))

BOOST_DEFINE_ENUM_CLASS(device_kind, cpu, vulkan, cuda)
BOOST_DEFINE_ENUM_CLASS(device_state, ready, refused, lost)

struct device_info {
  std::string name;
  device_kind kind = device_kind::cpu;
  std::string description;
  device_state state = device_state::ready;
  std::optional<std::string> reason;
  std::int64_t total_bytes = 0;
  std::int64_t free_bytes = 0;
  std::int64_t weights_bytes = 0;
  std::int64_t kv_bytes = 0;
  std::int64_t scratch_bytes = 0;
  std::int64_t staging_bytes = 0;
  std::int64_t reserve_bytes = 0;
  std::int64_t others_bytes = 0;
  std::optional<double> temperature_c;
  std::int64_t parts = 0;
};
BOOST_DESCRIBE_STRUCT(device_info, (),
                      (name, kind, description, state, reason, total_bytes, free_bytes,
                       weights_bytes, kv_bytes, scratch_bytes, staging_bytes, reserve_bytes,
                       others_bytes, temperature_c, parts))

BOOST_DEFINE_ENUM_CLASS(path_way, peer, shared, memory, host, staged)

struct device_path {
  std::string from;
  std::string to;
  path_way way = path_way::staged;
  std::optional<std::string> reason;
};
BOOST_DESCRIBE_STRUCT(device_path, (), (from, to, way, reason))

struct devices_reply {
  std::int64_t revision = 0;
  std::vector<device_info> devices;
  std::vector<device_path> paths;
  std::vector<yield_info> yields;
};
BOOST_DESCRIBE_STRUCT(devices_reply, (), (revision, devices, paths, yields))

struct part_placement {
  std::string part;
  std::string device;
  std::optional<std::string> moving_to;
  std::int64_t weights_bytes = 0;
  std::int64_t kv_bytes = 0;
  std::int64_t kv_elsewhere_bytes = 0;
  std::int64_t since_unix_ms = 0;
  std::string by;
  std::string reason;
  std::optional<std::int64_t> decision;
};
BOOST_DESCRIBE_STRUCT(part_placement, (),
                      (part, device, moving_to, weights_bytes, kv_bytes, kv_elsewhere_bytes,
                       since_unix_ms, by, reason, decision))

struct placement_reply {
  std::int64_t revision = 0;
  std::vector<part_placement> parts;
};
BOOST_DESCRIBE_STRUCT(placement_reply, (), (revision, parts))

BOOST_DEFINE_ENUM_CLASS(unit, ratio, bytes, celsius, seconds, tokens, percent, watts, count, truth,
                        time_of_day, weekday)

struct reading {
  std::string metric;
  std::string object;
  double value = 0;
  ipc::unit unit = ipc::unit::ratio;
  std::string source;
  double age_s = 0;
  bool stale = false;
};
BOOST_DESCRIBE_STRUCT(reading, (), (metric, object, value, unit, source, age_s, stale))

struct telemetry_reply {
  std::int64_t snapshot = 0;
  std::vector<reading> readings;
};
BOOST_DESCRIBE_STRUCT(telemetry_reply, (), (snapshot, readings))

struct snapshot_reply {
  std::int64_t snapshot = 0;
  std::string trace;
};
BOOST_DESCRIBE_STRUCT(snapshot_reply, (), (snapshot, trace))

// A method without parameters, or a reply that only says that it is done.
struct nothing {};
BOOST_DESCRIBE_STRUCT(nothing, (), ())

}  // namespace terrane::ipc

// What the engine has measured while it worked, as policies want it: what copies from one device to
// another cost, how long each part takes where it has run, how fast tokens come. The engine counts,
// this takes the differences between two looks. What was measured long ago counts for less than
// what was measured just now. Belongs to the control loop.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/loop/growing_context.hpp"
#include "engine/engine.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::daemon {

// How long a part takes on a device that it need not have run on yet: what its start measured.
struct first_part_time {
  std::uint32_t part = 0, device = 0;
  double ms_per_token = 0;
};

// The KV cache of the model: which parts have one, and what a position takes in each.
struct kv_shape {
  std::vector<std::uint32_t> parts;
  double position_bytes = 0;
};

class measurements {
 public:
  // `embedding`: the part whose weights a token reads but one row of. `first`: for parts and
  // devices of which nothing else is known.
  measurements(std::uint32_t embedding, std::vector<first_part_time> first, kv_shape kv = {})
      : embedding_(embedding), first_(std::move(first)), kv_(std::move(kv)) {}

  void take(const engine::engine_status& status, std::int64_t now_ms);
  // links, part_state::measured, device_state::kv_bytes_per_s and tokens_per_s. `devices`: their
  // names, by the engine's number; parts of the snapshot are in the engine's order.
  void put_into(policies::snapshot& s, const std::vector<std::string>& devices) const;

 private:
  // An amount and what it took; what it took per amount is the mean over the last while.
  struct fading {
    double amount = 0, took = 0;
    std::int64_t at_ms = 0;
    void add(double more, double took_more, std::int64_t now_ms, std::int64_t half_life_ms);
  };
  struct link {
    fading copies;  // bytes, ms
    fading pauses;  // commits, ms
    engine::link_traffic seen;
  };
  using ordered = std::pair<std::uint32_t, std::uint32_t>;

  void take_links(const engine::engine_status& status, std::int64_t now_ms);
  void take_parts(const engine::engine_status& status, std::int64_t now_ms);
  void add_times(const std::vector<engine::decode_time>& times,
                 const std::vector<std::uint32_t>& where, const engine::engine_status& status,
                 std::int64_t now_ms);

  void add_reading(const engine::decode_time& more, std::uint32_t device,
                   const std::vector<std::uint32_t>& where, const engine::engine_status& status,
                   std::int64_t now_ms);

  std::uint32_t embedding_;
  std::vector<first_part_time> first_;
  kv_shape kv_;
  std::map<std::uint32_t, growing_context> readings_;  // by device
  struct kv_reading {
    double bytes_per_s = 0;
    std::int64_t at_ms = 0;
  };
  std::map<std::uint32_t, kv_reading> kv_found_;  // by device
  std::map<ordered, link> links_;                 // from, to
  std::map<ordered, fading> part_times_;          // part, device: tokens, ms
  std::vector<engine::decode_time> seen_;
  std::uint64_t seen_revision_ = 0;
  std::int64_t now_ms_ = 0;
  double tokens_per_s_ = 0;
};

}  // namespace terrane::daemon

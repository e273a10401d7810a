// What should leave a device that is short of room: KV pages, which are then attended where they
// go, or weights, whose parts then run there. People report both as the clear winner, and both are
// right: it depends on how much of the KV a token reads, on how fast attention and matrices run on
// either device, and on what the way between them costs for each layer. So it is computed from what
// was measured, never assumed. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

namespace terrane::policies::placement {

// Bytes a second that a device reads at, in the kernels that matter.
struct reading_speeds {
  double weights = 0;  // matrices for one row
  double kv = 0;       // attention of one row
};

struct spill_question {
  std::uint64_t needed_bytes = 0;  // that must leave
  reading_speeds here, there;
  double hop_s = 0;  // of one layer's partial result, or one hidden state, from device to device

  std::uint64_t weight_bytes = 0;  // that could leave
  std::uint64_t part_bytes = 0;    // of one part, on average: weights leave whole
  // KV that could leave: of sessions that answer now, and of others.
  std::uint64_t busy_kv_bytes = 0;
  std::uint64_t idle_kv_bytes = 0;
  std::uint32_t kv_layers = 0;  // layers whose pages would be elsewhere
  double read_share = 1;        // of busy KV that a token reads: less with windows
  // Waking an idle session fetches its KV: how often one wakes, for each token that is made, and at
  // which speed.
  double wakes_per_token = 0;
  double link_bytes_per_s = 0;
};

enum class spilled { nothing, kv, weights, kv_then_weights, not_enough };
const char* to_string(spilled s);

struct spill_answer {
  spilled what = spilled::nothing;
  std::uint64_t kv_bytes = 0, weight_bytes = 0;  // that are to leave; idle KV before busy
  double cost_s = 0;                             // added to a token
  // Of each way alone, infinite where it does not free enough.
  double kv_cost_s = 0, weight_cost_s = 0;
  std::string reason;  // a clause with both costs
};

spill_answer choose_spill(const spill_question& q);

}  // namespace terrane::policies::placement

// A simulated machine: devices, parts and sessions with numbers that a test sets, sensors that can
// stop or lie, devices that can be lost, and an engine that carries moves out in a given time or
// fails them. It turns into snapshots. It reads no clock: who runs it says what time it is. A
// value; copies are independent. One thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policies/vocabulary/plan.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies::scenario {

inline constexpr double mib = 1024.0 * 1024.0;
inline constexpr double gib = 1024.0 * mib;

struct machine_device {
  device_state state;  // readings that are set here are sampled at every tick
  double total = 0;
  double others = 0;         // bytes used by other programs
  bool lost = false;         // it reports nothing, and moves to it fail
  double weights_per_s = 0;  // bytes of matrices that a token reads a second; 0: not measured
  double kv_per_s = 0;       // bytes of KV; 0: as of matrices
  double scratch = 0;        // bytes that it takes beside its parts, once it has one
};

class machine {
 public:
  // `others` bytes are used by other programs.
  machine_device& add_device(const std::string& name, double total, double others = 0);
  // "layer.N.attn" and "layer.N.ffn" for each layer, on one device.
  void add_layers(int count, double attn_bytes, double ffn_bytes, const std::string& device,
                  double kv_bytes = 0);
  // A part of any name; what it is follows from the name as in a model: "embedding", "head",
  // "layer.3.attn", "layer.3.expert.17", and anything else is feed-forward.
  part_state& add_part(const std::string& name, double bytes, const std::string& device);
  session_state& add_session(const std::string& id, std::uint64_t tokens, double kv_bytes,
                             const std::string& device);
  void begin_session(session_state s);
  // So many bytes of the session's KV at its home are reserved, and hold nothing yet.
  void reserve(const std::string& session, double bytes);
  void end_session(const std::string& id);

  // These throw std::invalid_argument for a name that the machine does not have: who asks knows
  // what it built.
  machine_device& device(const std::string& name);
  part_state& part(const std::string& name);
  session_state& session(const std::string& id);

  const std::vector<machine_device>& devices() const { return devices_; }
  const std::vector<part_state>& parts() const { return now_.parts; }
  const std::vector<session_state>& sessions() const { return now_.sessions; }

  // A sensor of a device, the beginning of the names of its metrics ("temp", "vram"), keeps its
  // last sample from now on, or samples again.
  void stop_sensor(const std::string& device, const std::string& sensor);
  void resume_sensor(const std::string& device, const std::string& sensor);

  std::int64_t move_ms = 500;            // how long each move takes
  std::set<std::string> broken_targets;  // moves to these devices fail
  host_state host;
  std::uint64_t context_tokens = 0;  // the longest context of a session; 0: not known
  bool promotes = false;             // the configuration wants automatic promotion
  double tokens_per_s = 0;           // that replies get; 0: not measured
  double link_bytes_per_s = 0;       // of every way between two devices; 0: not measured

  // Takes over a plan's moves; they end `move_ms` later.
  void carry_out(const plan& p, std::int64_t now_ms);
  // The machine at a time, with all sensors that work sampled then. Valid until the next call.
  const snapshot& at(std::int64_t now_ms);
  // The machine as the moves that run leave it, if nothing else happens to it.
  machine after_moves() const;
  // The moves that ended since the snapshot before.
  const std::vector<completed_move>& ended() const { return now_.completed; }

 private:
  struct running_move {
    planned_move move;
    std::int64_t ends_ms;
  };

  void end_moves(std::int64_t now_ms);
  std::string why_it_fails(const planned_move& m) const;
  void arrive(const planned_move& m, std::int64_t now_ms);
  void arrive_kv(const planned_move& m);
  double ours(const std::string& device) const;
  bool is_stopped(const std::string& device, std::string_view metric) const;
  void measure();
  void link_up();
  void sample(machine_device& d, std::int64_t now_ms);

  std::vector<machine_device> devices_;
  std::vector<running_move> running_;
  std::set<std::pair<std::string, std::string>> stopped_;
  snapshot now_;
};

}  // namespace terrane::policies::scenario

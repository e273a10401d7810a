// What the policies look at: one moment of the machine, taken by the daemon and never changed
// after. Everything a decision may depend on is in here, the time included, so that the same
// snapshot, state and policies always give the same decision. The daemon builds and owns a
// snapshot; policies only read it during the call that receives it and keep no reference. Plain
// values; any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace terrane::policies {

// A sample older than this many of its source's periods is stale and decides nothing.
inline constexpr int stale_periods = 3;

// One measured value and when it was measured. Absent when no source offers it on this machine.
struct reading {
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::min();

  double value = 0;
  std::int64_t sampled_ms = never;  // on the snapshot's clock
  std::int32_t period_ms = 1000;    // how often its source samples
  // Who measured it, a name that lasts as long as the program; empty: the daemon counts it itself.
  std::string_view source = {};

  bool present() const { return sampled_ms != never; }
  bool stale(std::int64_t now_ms) const {
    return present() && now_ms - sampled_ms > std::int64_t{stale_periods} * period_ms;
  }
};

enum class device_kind { cpu, gpu, other };

// A device that may hold parts. Its memory is called `vram` whatever it is made of: for the CPU it
// is the host memory that Terrane may use.
struct device_state {
  std::string name;  // stable: "cpu", "vulkan:<uuid>", "cuda:<uuid>"
  std::string card;  // devices of one card share its memory; empty: a card of its own
  device_kind kind = device_kind::other;
  bool host_memory = false;        // it takes from the host's memory: CPU, software, integrated GPU
  std::uint64_t memory_bytes = 0;  // what it has in all, whatever the budget; 0: not known
  // Bytes of KV that attention of one token reads in a second: found while contexts grew and
  // nothing else changed; 0: not measured.
  double kv_bytes_per_s = 0;
  // What it is expected to take beside its parts once it has one; 0: not known.
  std::uint64_t scratch_bytes = 0;
  // What it takes until the state between two parts has come to it from another device; 0: not
  // known.
  double hop_ms = 0;
  std::uint32_t rank = 0;      // a rank is to be filled once the ranks below it cannot hold all
  reading vram_total;          // bytes
  reading vram_used;           // bytes, by everyone
  reading vram_free;           // bytes an allocation could get now; when absent, total - used
  reading vram_reserved;       // bytes of the free ones that must stay free; absent means none
  reading vram_ours;           // bytes of the used ones that belong to this daemon
  reading vram_others;         // bytes of the card that other programs use, budget or not
  reading temp_c;              // degrees Celsius
  reading temp_limit_c;        // degrees Celsius at which the device slows itself down
  reading temp_shutdown_c;     // degrees Celsius at which the device switches itself off
  reading power_w;             // watts drawn now
  reading power_limit_w;       // watts that it may draw
  reading utilisation;         // share of time in which it computed, for anyone: 0 to 1
  reading throttled_by_heat;   // 1 while it is slowed down because of heat, else 0
  reading throttled_by_power;  // 1 while it is slowed down because of power, else 0
  reading fan_ratio;           // share of the fan's full speed
};

struct host_state {
  reading memory_total;         // bytes
  reading memory_available;     // bytes
  reading pressure_some_avg10;  // percent of time, /proc/pressure/memory
  reading cpu_pressure;         // percent of time, /proc/pressure/cpu
  reading cpu_used_ratio;       // share of all processors in use by everyone
  reading cpu_others_ratio;     // share of all processors in use by other programs
  reading time_of_day_s;        // seconds since local midnight, as a wall clock shows them
  reading weekday;              // local: 1 is Monday, 7 is Sunday
  reading on_battery;           // 1 while a battery feeds the host, else 0
  reading battery_ratio;        // charge of the host's batteries
};

// The model that is loaded.
struct model_state {
  std::string name;
  std::string architecture;        // as its file says: "llama"
  std::uint64_t weight_bytes = 0;  // of all its parts, each matrix once
  std::uint32_t layers = 0;
  std::uint64_t context_tokens = 0;  // the most that one session may hold; 0: not known
  std::uint64_t page_tokens = 0;     // of a full page of KV, which moves as a whole; 0: not known
};

// How long one part's share of a token takes on a device, measured.
struct part_time {
  std::string device;
  double ms_per_token = 0;
};

enum class part_kind { embedding, attention, feed_forward, expert, head };

// A named part of the model: the unit of placement.
struct part_state {
  std::string name;  // "embedding", "layer.12.attn", "layer.12.ffn", "layer.12.expert.3", "head"
  part_kind kind = part_kind::feed_forward;
  int layer = -1;      // -1 for the embedding and the head
  std::string device;  // where it is now
  std::uint64_t weight_bytes = 0;
  std::uint64_t kv_bytes = 0;  // of its KV cache that lives on `device` and would move with it
  std::uint64_t kv_blank_bytes = 0;  // of these, what takes room there and needs no copy: reserved
  std::uint64_t kv_most_bytes = 0;   // of its KV cache when all sessions' contexts are full
  // Parts of the same number read the same matrix, of so many of their bytes; -1: none.
  std::int32_t shared = -1;
  std::uint64_t shared_bytes = 0;
  bool movable = true;                     // the engine can move this part at all
  bool pinned = false;                     // the administrator wants it to stay
  bool placed_by_user = false;             // a person moved it there; promotion leaves it
  std::int64_t moved_ms = reading::never;  // when it last arrived by a move; never: since loading
  std::vector<part_time> measured;         // where it has run
};

// One session's KV cache on one device. It is kept in pages; all that a running reply can need are
// reserved when it begins, and taken from the device then.
struct kv_residency {
  std::string device;
  std::uint64_t bytes = 0;        // that it takes there, reserved pages included
  std::uint64_t open_bytes = 0;   // of these, in pages that are not full yet: no spill takes them
  std::uint64_t empty_bytes = 0;  // of the open ones, in reserved pages, which hold nothing yet
  std::uint64_t past_bytes = 0;   // of the full ones, what no token looks back on: needs no copy
  std::int64_t away_bytes = -1;   // of all, what is not beside its parts; -1: not known
};

struct session_state {
  std::string id;
  std::string tenant;  // whose it is: a user's name, or number where it has no name here
  std::uint64_t context_tokens = 0;
  double idle_s = 0;  // since its last token or request
  std::vector<kv_residency> kv;
  std::string home;  // where its KV belongs: a device, or empty for "beside the parts that use it"
};

// All sessions of one user, added up. Made from the sessions by list_tenants.
struct tenant_state {
  std::string name;
  std::uint32_t sessions = 0;
  std::vector<kv_residency> kv;
};

enum class subject_kind { part, session_kv };

// A move that the engine is making. `id` is the planned_move's, or 0 when a person asked for it.
struct move_in_progress {
  std::uint64_t id = 0;
  subject_kind kind = subject_kind::part;
  std::string subject;  // part name or session id
  std::string from;
  std::string to;
  std::uint64_t bytes = 0;
};

// `idle`: done, but there was nothing to move.
enum class move_outcome { done, failed, cancelled, idle };

// A move that ended. The daemon lists each in at least one snapshot that is evaluated; listing it
// in several does no harm.
struct completed_move {
  std::uint64_t id = 0;
  subject_kind kind = subject_kind::part;
  std::string subject;
  std::string from;
  std::string to;
  std::int64_t completed_ms = 0;
  move_outcome outcome = move_outcome::done;
  std::string message;  // why it failed or was cancelled
  double took_ms = 0;   // from its start to its commit, as far as it was measured
  double pause_ms = 0;  // of this, how long replies stood still
};

// What moves from one device to another have cost of late, measured on moves that were done.
struct link_state {
  std::string from;
  std::string to;
  double bytes_per_s = 0;
  double pause_ms = 0;  // of one commit, however many parts it had
};

// What all policies together may move; 0 bytes: no limit.
struct move_limits {
  std::uint64_t link_bytes = 0;  // from one device to another, planned in any `link_per_ms`
  std::int64_t link_per_ms = 0;
  std::uint64_t in_flight_bytes = 0;  // of all moves that have not ended
};

// Someone wants a device's memory back for a while. Listed as long as it holds.
struct yield_order {
  std::string device;
  std::int64_t since_ms = 0;
  std::int64_t until_ms = reading::never;  // never: until it is taken back
  std::string by;                          // "user 1000"
};

struct snapshot {
  std::uint64_t sequence = 0;  // rises with every snapshot
  std::int64_t time_ms = 0;    // a clock that never goes back; every other time here is on it
  host_state host;
  model_state model;
  std::vector<device_state> devices;
  std::vector<part_state> parts;
  std::vector<session_state> sessions;
  std::vector<tenant_state> tenants;  // by name; see list_tenants
  std::vector<move_in_progress> moving;
  std::vector<completed_move> completed;
  std::vector<link_state> links;  // only links that have been measured
  double tokens_per_s = 0;        // of the last steps that gave tokens; 0: not measured
  move_limits limits;
  std::vector<yield_order> yields;    // at most one for each device
  std::vector<std::string> disabled;  // policies that the administrator switched off
  bool promotes = false;              // parts go where a token takes less once there is room
};

// The device, part or session of that name; null when there is none.
const device_state* find_device(const snapshot& s, const std::string& name);
const part_state* find_part(const snapshot& s, const std::string& name);
const session_state* find_session(const snapshot& s, const std::string& id);
const tenant_state* find_tenant(const snapshot& s, const std::string& name);
// Fills `tenants` from the sessions. Whoever makes a snapshot calls it once the sessions are in.
void list_tenants(snapshot& s);
// The bytes of KV that lie on GPUs.
std::uint64_t bytes_on_gpus(const snapshot& s, const std::vector<kv_residency>& kv);
// Of these pages, what is reserved and holds nothing yet.
std::uint64_t empty_bytes(const std::vector<kv_residency>& kv);
// What an allocation on the device could get now, before any reserve: `vram_free`, or total - used.
reading free_bytes(const device_state& d);
// The order to give that device's memory back; null when there is none.
const yield_order* find_yield(const snapshot& s, const std::string& device);
// What moves along that way have cost; null when none was measured.
const link_state* find_link(const snapshot& s, const std::string& from, const std::string& to);
// The part's measured time on that device; 0 when there is none.
double measured_ms(const part_state& p, const std::string& device);
bool is_disabled(const snapshot& s, const std::string& policy);
// Whether what leaves one of them for the other frees no memory.
bool share_memory(const device_state& a, const device_state& b);
// The CPU's device; null when the machine offers none.
const device_state* find_cpu(const snapshot& s);

}  // namespace terrane::policies

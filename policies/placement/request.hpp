// What the planner of placements is asked: the parts of a model in the order of its graph, the
// devices with what they may hold, how long each part takes where, the links between devices, and
// what people and policies insist on. Plain values, filled by the caller; any thread.
//
// Parts and devices are counted from 0 in the order they are listed. Times are seconds of one token
// (one row of decode), sizes bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace terrane::policies::placement {

// A part of the model. With it goes its KV cache: pages for every session's whole context.
struct part_demand {
  std::string name;
  std::uint32_t work = 0;  // its row of request::seconds
  std::uint64_t weight_bytes = 0;
  std::uint64_t kv_page_bytes = 0;  // of one page; 0: it has no KV
  // Parts of the same number read the same matrix, `shared_bytes` of their weights: a device with
  // several of them holds it once. -1: none.
  std::int32_t shared = -1;
  std::uint64_t shared_bytes = 0;
  bool begins = false;  // of another model than the part before: nothing crosses between them
};

struct device_supply {
  std::string name;
  std::uint32_t speed = 0;          // its column of request::seconds
  std::uint64_t budget_bytes = 0;   // what this model may use of it, all in all
  std::uint64_t reserve_bytes = 0;  // of these, what must stay free
  std::uint64_t fee_bytes = 0;      // what it takes beside its parts, once it has one: scratch
  std::uint64_t others_bytes = 0;   // in use by others now and not in the budget; for messages
  std::uint32_t rank = 0;           // a rank is used once the ranks below it cannot hold all
  std::uint32_t site = 0;           // devices of one site reach each other by request::near
  std::string left_out;             // why it may hold nothing; empty: it may
};

struct link {
  double latency_s = 0;
  double bytes_per_s = 0;  // 0: bytes cost nothing
  double seconds(std::uint64_t bytes) const {
    return latency_s + (bytes_per_s > 0 ? static_cast<double>(bytes) / bytes_per_s : 0);
  }
};

struct link_between {
  std::uint32_t from = 0, to = 0;  // one way
  link by;
};

// What must hold, and who says so: "configuration: pinned", "policy quiet-hours".
struct pin {
  std::uint32_t part = 0, device = 0;
  std::string by;
};
struct keep_off {
  std::optional<std::uint32_t> part;  // empty: every part
  std::uint32_t device = 0;
  std::string by;
};
struct at_most {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;  // of weights, KV and scratch together
  std::string by;
};

// Memory that several devices take from: a card's that two drivers offer, the host's. A device
// takes from one pool at most.
struct pool {
  std::string name;  // "the memory of card ..."
  std::vector<std::uint32_t> devices;
  std::uint64_t budget_bytes = 0;  // what this model may use of it, on all of them together
};

struct request {
  std::vector<part_demand> parts;
  std::vector<device_supply> devices;
  std::vector<double> seconds;  // [work][speed]: of a part, measured or estimated
  std::uint32_t speeds = 0;     // columns of `seconds`

  // How the hidden state and moves get from device to device: a pair's own link, else by site.
  link near, far;
  std::vector<link_between> links;
  std::uint64_t activation_bytes = 0;  // what crosses between consecutive parts, a token

  std::uint32_t context_tokens = 0;  // of a session
  std::uint32_t sessions = 1;
  std::uint32_t page_tokens = 64;    // positions of a KV page
  std::uint32_t pages_together = 1;  // pages are allocated in multiples of so many
  std::uint64_t granule_bytes = 1;   // weights and KV of a part are rounded up to it

  std::vector<pin> pins;
  std::vector<keep_off> exclusions;
  std::vector<at_most> limits;
  std::vector<pool> pools;

  double seconds_of(std::uint32_t part, std::uint32_t device) const {
    return seconds[parts[part].work * std::size_t{speeds} + devices[device].speed];
  }
};

// Bytes of a part's KV when every session's context is full.
std::uint64_t kv_bytes(const request& r, std::uint32_t part);
// What a part adds to a device: its own weights and KV, and, where no other part of its number is,
// what they share. Rounded up.
std::uint64_t own_bytes(const request& r, std::uint32_t part);
std::uint64_t shared_bytes(const request& r, std::uint32_t part);

// What each device may hold: budget, reserve and limits counted; nothing where it is left out.
std::vector<std::uint64_t> most_bytes(const request& r);
// Of that, what is there for parts once it has one.
std::vector<std::uint64_t> room_bytes(const request& r);
// What the devices of a pool may hold together, the largest of their reserves left free.
std::uint64_t most_bytes(const request& r, const pool& of);

// Room of all devices, what they share counted once.
std::uint64_t room_together(const request& r);

// The link of two different devices. Looks through `links`: to ask often, see instance.
const link& link_of(const request& r, std::uint32_t from, std::uint32_t to);

// Where each part is: a device for every part.
using placed = std::vector<std::uint32_t>;

// Why there is no answer. The message says which and what to do.
enum class obstacle {
  malformed,      // an index or size that makes no sense
  contradiction,  // what is insisted on cannot all hold
  weights,        // the weights alone are too much
  kv,             // they fit, with KV of this context and these sessions it is too much
  scratch,        // what devices take beside the parts is too much
  reserve,        // it would fit if nothing had to stay free
  others,         // it would fit if others used no memory
  packing,        // the sum fits, but no way was found to divide it
  moves           // no order of moves keeps to the budgets
};
const char* to_string(obstacle o);

struct refusal {
  obstacle what = obstacle::malformed;
  std::string message;
};

template <class T>
using outcome = tl::expected<T, refusal>;

// Looks for what makes no sense and for what contradicts itself: pins to two devices, to a device
// that is ruled out or too small, more pinned to a device than it holds.
outcome<void> check(const request& r);

}  // namespace terrane::policies::placement

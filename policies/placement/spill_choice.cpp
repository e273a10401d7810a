#include "policies/placement/spill_choice.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

namespace terrane::policies::placement {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

double seconds(double bytes, double bytes_per_s) {
  if (bytes <= 0) return 0;
  return bytes_per_s > 0 ? bytes / bytes_per_s : infinite;
}

// What a token takes longer when so many bytes are read there and not here. A device that reads
// faster there saves nothing: it would not be short of room.
double slower(double bytes, double here, double there) {
  return std::max(0.0, seconds(bytes, there) - seconds(bytes, here));
}

double kv_cost(const spill_question& q, std::uint64_t bytes) {
  const std::uint64_t idle = std::min(bytes, q.idle_kv_bytes);
  const double busy = static_cast<double>(bytes - idle);
  double cost = slower(busy * q.read_share, q.here.kv, q.there.kv);
  // Each layer sends a query and gets a partial result back, as soon as one page is away.
  if (busy > 0) cost += 2 * q.hop_s * q.kv_layers;
  if (q.wakes_per_token > 0)
    cost += q.wakes_per_token * seconds(static_cast<double>(idle), q.link_bytes_per_s);
  return cost;
}

// Whole parts, next to each other: the hidden state goes there and back once.
std::uint64_t in_parts(const spill_question& q, std::uint64_t bytes) {
  if (q.part_bytes == 0) return bytes;
  return (bytes + q.part_bytes - 1) / q.part_bytes * q.part_bytes;
}
double weight_cost(const spill_question& q, std::uint64_t bytes) {
  if (bytes == 0) return 0;
  return slower(static_cast<double>(bytes), q.here.weights, q.there.weights) + 2 * q.hop_s;
}

std::string milliseconds(double s) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g ms", s * 1e3);
  return text.data();
}

std::string alone(const std::string& what, double cost_s) {
  return what + " alone would " +
         (std::isfinite(cost_s) ? "add " + milliseconds(cost_s) + " to a token"
                                : std::string("not free enough"));
}

}  // namespace

const char* to_string(spilled s) {
  switch (s) {
    case spilled::nothing:
      return "nothing";
    case spilled::kv:
      return "kv";
    case spilled::weights:
      return "weights";
    case spilled::kv_then_weights:
      return "kv_then_weights";
    case spilled::not_enough:
      return "not_enough";
  }
  return "unknown";
}

spill_answer choose_spill(const spill_question& q) {
  spill_answer out;
  if (q.needed_bytes == 0) return out;
  const std::uint64_t all_kv = q.busy_kv_bytes + q.idle_kv_bytes;
  const std::uint64_t weights = in_parts(q, q.needed_bytes);
  out.kv_cost_s = q.needed_bytes <= all_kv ? kv_cost(q, q.needed_bytes) : infinite;
  out.weight_cost_s = weights <= q.weight_bytes ? weight_cost(q, weights) : infinite;
  out.cost_s = infinite;
  const auto consider = [&](spilled what, std::uint64_t kv, std::uint64_t part_bytes, double cost) {
    if (cost >= out.cost_s) return;
    out.what = what;
    out.kv_bytes = kv;
    out.weight_bytes = part_bytes;
    out.cost_s = cost;
  };
  consider(spilled::kv, q.needed_bytes, 0, out.kv_cost_s);
  consider(spilled::weights, 0, weights, out.weight_cost_s);
  // Idle KV, or all, and parts for the rest: costs are straight lines between these.
  for (std::uint64_t kv : {q.idle_kv_bytes, all_kv}) {
    if (kv == 0 || kv >= q.needed_bytes) continue;
    const std::uint64_t rest = in_parts(q, q.needed_bytes - kv);
    if (rest > q.weight_bytes) continue;
    consider(spilled::kv_then_weights, kv, rest, kv_cost(q, kv) + weight_cost(q, rest));
  }
  if (!std::isfinite(out.cost_s)) {
    out.what = spilled::not_enough;
    out.reason = "all KV and weights together do not free enough";
    return out;
  }
  out.reason = alone("KV", out.kv_cost_s) + ", " + alone("weights", out.weight_cost_s) +
               "; this adds " + milliseconds(out.cost_s);
  return out;
}

}  // namespace terrane::policies::placement

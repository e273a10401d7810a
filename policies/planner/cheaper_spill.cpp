#include "policies/planner/cheaper_spill.hpp"

#include <algorithm>
#include <utility>

#include "policies/planner/kv_amount.hpp"
#include "policies/planner/propose.hpp"
#include "policies/planner/worth.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

using placement::reading_speeds;
using placement::spill_question;
using placement::spilled;

struct candidates {
  std::vector<const session_state*> idle, busy;
  std::vector<const part_state*> parts;
};

bool is_matrices(const part_state& p) {
  return p.kind == part_kind::feed_forward || p.kind == part_kind::expert;
}

double per_second(double bytes, double ms) { return ms > 0 ? bytes / ms * 1000 : 0; }

double speed_of_matrices(const snapshot& now, const std::string& device) {
  double bytes = 0, ms = 0;
  for (const part_state& p : now.parts) {
    const double took = is_matrices(p) ? measured_ms(p, device) : 0;
    if (took <= 0) continue;
    bytes += static_cast<double>(p.weight_bytes);
    ms += took;
  }
  return per_second(bytes, ms);
}

// One that was measured and one that is taken from matrices would make a difference of nothing.
bool kv_is_measured(const device_state& here, const device_state& there) {
  return here.kv_bytes_per_s > 0 && there.kv_bytes_per_s > 0;
}

std::pair<reading_speeds, reading_speeds> speeds_of(const snapshot& now, const device_state& here,
                                                    const device_state& there) {
  std::pair<reading_speeds, reading_speeds> s;
  s.first.weights = s.first.kv = speed_of_matrices(now, here.name);
  s.second.weights = s.second.kv = speed_of_matrices(now, there.name);
  if (kv_is_measured(here, there)) {
    s.first.kv = here.kv_bytes_per_s;
    s.second.kv = there.kv_bytes_per_s;
  }
  return s;
}

std::string per_second_text(double bytes_per_s) { return format_bytes(bytes_per_s) + "/s"; }

// What the speeds of KV rest on.
std::string remark_on_kv(const device_state& here, const device_state& there) {
  if (!kv_is_measured(here, there))
    return " How fast KV is read has not been measured on both, so it is taken to be read as fast "
           "as weights.";
  return " KV is read at " + per_second_text(here.kv_bytes_per_s) + " on " + here.name +
         " and at " + per_second_text(there.kv_bytes_per_s) + " on " + there.name +
         ", as measured while contexts grew.";
}

// The device that the first target stands for, before anything is checked; null when there is none.
const device_state* first_target(const snapshot& now, const spill_wish& wish) {
  if (wish.to.empty()) return nullptr;
  const target_choice& choice = wish.to.front();
  if (choice.kind == target_kind::cpu) return find_cpu(now);
  const device_state* found = nullptr;
  for (const device_state& d : now.devices) {
    if (&d == wish.from) continue;
    if (choice.kind == target_kind::device) {
      if (matches_pattern(choice.device, d.name)) return &d;
      continue;
    }
    const bool is_gpu = d.kind == device_kind::gpu;
    if (choice.kind == target_kind::most_free_gpu && !is_gpu) continue;
    if (found == nullptr || free_bytes(d).value > free_bytes(*found).value) found = &d;
  }
  return found;
}

intent spill_of(const session_state& s, const spill_wish& wish) {
  return {verb::spill,      subject_kind::session_kv, s.id,       wish.to,
          wish.keep_tokens, wish.from->name,          wish.reason};
}

// Parts without KV, so that what leaves with them is weights; KV and weights beside each other.
candidates candidates_of(const snapshot& now, const spill_wish& wish) {
  candidates found;
  for (const session_state& s : now.sessions) {
    if (kv_bytes_on(s, wish.from) == 0) continue;
    (s.idle_s < computing_s ? found.busy : found.idle).push_back(&s);
  }
  sort_sessions(found.idle, wish.order, wish.from);
  sort_sessions(found.busy, wish.order, wish.from);
  for (const part_state& p : now.parts) {
    const bool layer = is_matrices(p) || p.kind == part_kind::attention;
    if (p.device == wish.from->name && layer && p.kv_bytes == 0 && p.movable && !p.pinned) {
      found.parts.push_back(&p);
    }
  }
  sort_parts(found.parts, ordering::top_down);
  return found;
}

spill_question question_of(const snapshot& now, const spill_wish& wish, const candidates& all,
                           const device_state& there) {
  spill_question q;
  q.needed_bytes = wish.needed_bytes;
  std::tie(q.here, q.there) = speeds_of(now, *wish.from, there);
  for (const session_state* s : all.idle) {
    q.idle_kv_bytes += kv_to_move(now, *s, spill_of(*s, wish), there.name).bytes;
  }
  for (const session_state* s : all.busy) {
    q.busy_kv_bytes += kv_to_move(now, *s, spill_of(*s, wish), there.name).bytes;
  }
  for (const part_state* p : all.parts) q.weight_bytes += p->weight_bytes;
  if (!all.parts.empty()) q.part_bytes = q.weight_bytes / all.parts.size();
  for (const part_state& p : now.parts) {
    if (p.kind == part_kind::attention && p.device == wish.from->name) ++q.kv_layers;
  }
  if (const link_state* back = find_link(now, there.name, wish.from->name)) {
    q.link_bytes_per_s = back->bytes_per_s;
  }
  return q;
}

std::string called(spilled what) {
  switch (what) {
    case spilled::nothing:
      return "Nothing";
    case spilled::kv:
      return "KV";
    case spilled::weights:
      return "Weights";
    case spilled::kv_then_weights:
      return "KV and then weights";
    case spilled::not_enough:
      return "All KV and weights";
  }
  return "";
}

void add_sessions(const snapshot& now, const std::vector<const session_state*>& sessions,
                  const spill_wish& wish, const std::string& there, cheaper_spill& to) {
  for (const session_state* s : sessions) {
    intent i = spill_of(*s, wish);
    to.bytes.push_back(kv_to_move(now, *s, i, there).bytes);
    to.wanted.push_back(std::move(i));
  }
}

void add_parts(const std::vector<const part_state*>& parts, const spill_wish& wish,
               cheaper_spill& to) {
  for (const part_state* p : parts) {
    to.bytes.push_back(moving_bytes(*p));
    to.wanted.push_back({verb::move, subject_kind::part, p->name, wish.to, 0, {}, wish.reason});
  }
}

}  // namespace

cheaper_spill spill_cheaper(const snapshot& now, const spill_wish& wish) {
  cheaper_spill out;
  if (wish.needed_bytes == 0) return out;
  const device_state* there = first_target(now, wish);
  if (there == nullptr) {
    out.note = "There is no device that what leaves " + wish.from->name + " could go to.";
    return out;
  }
  const candidates all = candidates_of(now, wish);
  const spill_question q = question_of(now, wish, all, *there);
  const bool measured = q.here.weights > 0 && q.there.weights > 0;
  if (!measured && q.needed_bytes > q.idle_kv_bytes) {
    const std::string& unknown = q.here.weights > 0 ? there->name : wish.from->name;
    out.what = spilled::kv_then_weights;
    out.note = "How fast a token reads on " + unknown +
               " has not been measured, so KV leaves first, and weights where that is not enough.";
    add_sessions(now, all.idle, wish, there->name, out);
    add_sessions(now, all.busy, wish, there->name, out);
    add_parts(all.parts, wish, out);
    return out;
  }
  const placement::spill_answer answer = choose_spill(q);
  out.what = answer.what;
  out.note = called(answer.what) + " should leave " + wish.from->name + " for " + there->name +
             ": " + answer.reason + "." + remark_on_kv(*wish.from, *there);
  const bool kv = answer.what != spilled::weights;
  const bool all_kv = answer.kv_bytes > q.idle_kv_bytes || answer.what == spilled::not_enough;
  if (kv) add_sessions(now, all.idle, wish, there->name, out);
  if (kv && all_kv) add_sessions(now, all.busy, wish, there->name, out);
  if (answer.what != spilled::kv) add_parts(all.parts, wish, out);
  return out;
}

void take_until(cheaper_spill& s, std::uint64_t bytes) {
  std::uint64_t reached = 0;
  std::size_t count = 0;
  while (count < s.wanted.size() && reached < bytes) reached += s.bytes[count++];
  s.wanted.resize(count);
  s.bytes.resize(count);
}

}  // namespace terrane::policies

#include "policies/planner/worth.hpp"

#include <algorithm>

#include "policies/planner/ledger.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

std::string ms_text(double ms) {
  const auto hundredths = static_cast<std::int64_t>(ms * 100 + (ms < 0 ? -0.5 : 0.5));
  std::string text = std::to_string(std::abs(hundredths) % 100);
  if (text.size() < 2) text.insert(0, "0");
  return (hundredths < 0 ? "-" : "") + std::to_string(std::abs(hundredths) / 100) + "." + text +
         " ms";
}

// Whether something of the candidate lies in the memory of that device.
bool lies_on(const candidate& c, const snapshot& now, const device_state& d) {
  const auto shares = [&](const std::string& name) {
    const device_state* other = find_device(now, name);
    return other != nullptr && share_memory(*other, d);
  };
  if (c.kind == subject_kind::part) return shares(c.from);
  const session_state* s = find_session(now, c.subject);
  return s != nullptr && std::ranges::any_of(s->kv, [&](const kv_residency& r) {
           return r.bytes > 0 && shares(r.device);
         });
}

bool computes(const candidate& c, const snapshot& now) {
  if (c.kind == subject_kind::part) return true;
  const session_state* s = find_session(now, c.subject);
  return s != nullptr && s->idle_s < computing_s;
}

std::string why_no_relief(const candidate& c, const snapshot& now, resource what,
                          const device_state& d) {
  if (!lies_on(c, now, d)) return "nothing of it is on " + d.name + ", which is to be relieved";
  const device_state* to = find_device(now, c.to);
  if (what == resource::memory && to != nullptr && share_memory(*to, d)) {
    return to->name + " is on the same card as " + d.name + ", so no memory would become free";
  }
  if (what == resource::work && !computes(c, now)) {
    return "the session is idle and makes no work for " + d.name;
  }
  return {};
}

}  // namespace

candidate_score score_of(const candidate& c, const snapshot& now, const device_state* relieved,
                         std::optional<std::int64_t> stay_ms) {
  candidate_score s;
  const auto bytes = static_cast<double>(c.copied_bytes);
  if (relieved != nullptr && lies_on(c, now, *relieved)) s.relief_bytes = c.freed_bytes;
  if (const link_state* link = find_link(now, c.from, c.to);
      link != nullptr && link->bytes_per_s > 0) {
    s.cost_ms = link->pause_ms + bytes / link->bytes_per_s * 1000;
  }
  if (const part_state* p = c.kind == subject_kind::part ? find_part(now, c.subject) : nullptr) {
    const double before = measured_ms(*p, c.from);
    const double after = measured_ms(*p, c.to);
    if (before > 0 && after > 0) s.gain_ms = before - after;
  }
  s.stay_ms = stay_ms;
  const double benefit =
      relieved != nullptr ? static_cast<double>(s.relief_bytes) : s.gain_ms.value_or(0);
  // Without a measured cost, what moves more bytes costs more.
  s.value = benefit / std::max(1.0, s.cost_ms.value_or(bytes));
  return s;
}

bool is_short_of_memory(const rule& r) {
  const auto of_memory = [](const term& t) {
    return relieves(t) && metric(t.metric).short_of == resource::memory;
  };
  return std::ranges::all_of(r.enter.terms, of_memory) &&
         std::ranges::all_of(r.emergency.terms, of_memory);
}

std::string why_no_help(const candidate& c, const snapshot& now, const rule& r,
                        const device_state& relieved) {
  std::string why;
  for (const condition* one : {&r.enter, &r.emergency}) {
    for (const term& t : one->terms) {
      const resource what = relieves(t) ? metric(t.metric).short_of : resource::unknown;
      if (what == resource::unknown) return {};
      const std::string none = why_no_relief(c, now, what, relieved);
      if (none.empty()) return {};
      if (why.empty()) why = none;
    }
  }
  return why;
}

std::string why_not_worth(const candidate_score& s, const snapshot& now) {
  if (!s.cost_ms || !s.gain_ms || !s.stay_ms || now.tokens_per_s <= 0) return {};
  const double tokens = now.tokens_per_s * static_cast<double>(*s.stay_ms) / 1000;
  const double gain = *s.gain_ms * tokens;
  if (gain > *s.cost_ms) return {};
  return "it costs " + ms_text(*s.cost_ms) + " and gains " + ms_text(*s.gain_ms) + " a token, so " +
         ms_text(gain) + " in the " + format_duration(*s.stay_ms) + " that it would stay";
}

}  // namespace terrane::policies

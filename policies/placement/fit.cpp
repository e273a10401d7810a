#include "policies/placement/fit.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "policies/explain/json_writer.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies::placement {
namespace {

std::string with_digits(const char* format, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

using context_change = std::function<void(request&)>;

bool fits_with(request& r, std::uint32_t context, const context_change& at_context) {
  r.context_tokens = context;
  if (at_context) at_context(r);
  return place_somehow(r).has_value();
}

// By halves: what fits with a context fits with a shorter one.
std::uint32_t largest_context(request r, std::uint32_t fitting, std::uint32_t most,
                              const context_change& at_context) {
  const std::uint32_t page = r.page_tokens;
  std::uint32_t low = fitting / page, high = (most + page - 1) / page;
  if (fits_with(r, most, at_context)) return most;
  if (low == 0 && !fits_with(r, std::min(page, most), at_context)) return 0;
  low = std::max(low, 1U);
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (fits_with(r, middle * page, at_context) ? low : high) = middle;
  }
  return std::max(std::min(low * page, most), fitting);
}

void add_device(const request& r, const answer& a, std::uint32_t d, std::string& to) {
  const device_share& share = a.predicted.devices[d];
  to += r.devices[d].name + ": " + a.notes[d].reason + "\n";
  if (share.parts == 0) return;
  to += "  weights " + format_bytes(share.weight_bytes) + ", KV " + format_bytes(share.kv_bytes) +
        ", scratch " + format_bytes(share.fee_bytes) + ", reserve " +
        format_bytes(r.devices[d].reserve_bytes) + "; " + format_bytes(share.room_bytes) +
        " left for more parts; " + with_digits("%.3g ms", share.seconds * 1e3) + " a token\n";
}

// "4 sessions of 8192 tokens each".
std::string contexts(const request& r) {
  const std::string tokens = " of " + std::to_string(r.context_tokens) + " tokens";
  return r.sessions == 1 ? "one session" + tokens
                         : std::to_string(r.sessions) + " sessions" + tokens + " each";
}

void write_devices(const request& r, const answer& a, json_writer& to) {
  to.key("devices").begin_array();
  for (std::uint32_t d = 0; d < r.devices.size(); ++d) {
    const device_share& share = a.predicted.devices[d];
    to.begin_object().field("name", r.devices[d].name).field("used", a.notes[d].used);
    to.field("reason", a.notes[d].reason).field("parts", std::uint64_t{share.parts});
    to.field("weight_bytes", share.weight_bytes).field("kv_bytes", share.kv_bytes);
    to.field("scratch_bytes", share.fee_bytes).field("reserve_bytes", r.devices[d].reserve_bytes);
    to.field("room_bytes", share.room_bytes).field("ms", share.seconds * 1e3).end_object();
  }
  to.end_array();
  to.key("parts").begin_array();
  for (std::uint32_t p = 0; p < r.parts.size(); ++p)
    to.begin_object()
        .field("name", r.parts[p].name)
        .field("device", r.devices[a.where[p]].name)
        .end_object();
  to.end_array();
}

}  // namespace

outcome<fit_answer> fit(const request& r, std::uint32_t most_context,
                        const context_change& at_context) {
  fit_answer out;
  outcome<answer> a = plan(r);
  if (a) {
    out.plan = std::move(*a);
  } else {
    if (a.error().what == obstacle::malformed || a.error().what == obstacle::contradiction)
      return tl::unexpected<refusal>(a.error());
    out.why_not = a.error();
  }
  const std::uint32_t most = out.plan ? std::max(most_context, r.context_tokens)
                                      : std::min(most_context, r.context_tokens);
  out.largest_context = largest_context(r, out.plan ? r.context_tokens : 0, most, at_context);
  return out;
}

std::string to_text(const request& r, const fit_answer& a) {
  const std::string wanted = contexts(r);
  if (!a.plan) {
    std::string text = "does not fit with " + wanted + ": " + a.why_not.message + "\n";
    text += "blocked by: " + std::string(to_string(a.why_not.what)) + "\n";
    return text + (a.largest_context == 0 ? "it fits with no context\n"
                                          : "the longest context that fits: " +
                                                std::to_string(a.largest_context) + " tokens\n");
  }
  std::string text = "fits with " + wanted + "\n";
  for (std::uint32_t d = 0; d < r.devices.size(); ++d) add_device(r, *a.plan, d, text);
  const prediction& p = a.plan->predicted;
  text += "a token takes about " + with_digits("%.3g ms", p.token_s * 1e3) + " (" +
          with_digits("%.3g", 1 / std::max(p.token_s, 1e-9)) + " a second): parts " +
          with_digits("%.3g ms", p.parts_s * 1e3) + ", " + std::to_string(p.crossings) +
          " crossings " + with_digits("%.3g ms", p.crossing_s * 1e3);
  text += a.plan->exact ? "; no placement is faster\n"
                        : "; no placement takes less than " +
                              with_digits("%.3g ms", a.plan->bound_s * 1e3) + "\n";
  return text + "the longest context that fits: " + std::to_string(a.largest_context) + " tokens\n";
}

std::string to_json(const request& r, const fit_answer& a) {
  json_writer to;
  to.begin_object().field("fits", a.plan.has_value());
  to.field("context_tokens", std::uint64_t{r.context_tokens});
  to.field("sessions", std::uint64_t{r.sessions});
  to.field("largest_context", std::uint64_t{a.largest_context});
  if (a.plan) {
    const double s = a.plan->predicted.token_s;
    to.field("token_ms", s * 1e3).field("tokens_per_s", 1 / std::max(s, 1e-9));
    to.field("exact", a.plan->exact);
    write_devices(r, *a.plan, to);
  } else {
    to.field("blocked_by", to_string(a.why_not.what)).field("message", a.why_not.message);
  }
  return to.end_object().text();
}

}  // namespace terrane::policies::placement

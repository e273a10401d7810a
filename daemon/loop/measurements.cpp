#include "daemon/loop/measurements.hpp"

#include <algorithm>
#include <cmath>

namespace terrane::daemon {

namespace {

constexpr std::int64_t minute_ms = 60'000;
// Moves are rare and buses stay what they are; a device may be busier than it was a minute ago.
constexpr std::int64_t link_half_life_ms = 10 * minute_ms, part_half_life_ms = minute_ms;
constexpr std::int64_t link_lasts_ms = 24 * 60 * minute_ms;
// A device that has not shown for so long how fast it reads KV may be another's by now.
constexpr std::int64_t kv_lasts_ms = 60 * minute_ms;
// Smaller copies say more of their start than of their way.
constexpr double least_link_bytes = 256 << 10;

}  // namespace

void measurements::fading::add(double more, double took_more, std::int64_t now_ms,
                               std::int64_t half_life_ms) {
  const double kept =
      std::exp2(-static_cast<double>(now_ms - at_ms) / static_cast<double>(half_life_ms));
  amount = amount * kept + more;
  took = took * kept + took_more;
  at_ms = now_ms;
}

void measurements::take(const engine::engine_status& status, std::int64_t now_ms) {
  now_ms_ = now_ms;
  tokens_per_s_ = status.decode_tok_s;
  take_links(status, now_ms);
  take_parts(status, now_ms);
}

void measurements::take_links(const engine::engine_status& status, std::int64_t now_ms) {
  for (const engine::link_traffic& now : status.links) {
    link& l = links_[{now.from, now.to}];
    if (now.bytes > l.seen.bytes && now.copy_ms > l.seen.copy_ms)
      l.copies.add(static_cast<double>(now.bytes - l.seen.bytes), now.copy_ms - l.seen.copy_ms,
                   now_ms, link_half_life_ms);
    if (now.commits > l.seen.commits)
      l.pauses.add(static_cast<double>(now.commits - l.seen.commits),
                   now.pause_ms - l.seen.pause_ms, now_ms, link_half_life_ms);
    l.seen = now;
  }
}

void measurements::take_parts(const engine::engine_status& status, std::int64_t now_ms) {
  if (status.revision != seen_revision_) {
    const engine::past_decode& before = status.decode_before;
    if (before.revision != seen_revision_) seen_.clear();
    if (before.revision != 0) add_times(before.times, before.parts, status, now_ms);
    seen_.clear();
  }
  seen_revision_ = status.revision;
  std::vector<std::uint32_t> where;
  for (const engine::part_status& p : status.parts) where.push_back(p.device);
  add_times(status.decode_times, where, status, now_ms);
}

// What a device took is shared among its parts by the bytes that a token reads: weights and KV, of
// the embedding one row. So attention is taken to read as fast as matrices are read; how fast it
// does is found by add_reading.
void measurements::add_times(const std::vector<engine::decode_time>& times,
                             const std::vector<std::uint32_t>& where,
                             const engine::engine_status& status, std::int64_t now_ms) {
  seen_.resize(times.size());
  for (std::uint32_t d = 0; d < times.size(); d++) {
    const engine::decode_time now = times[d], before = std::exchange(seen_[d], now);
    if (now.tokens <= before.tokens || now.ms <= before.ms) continue;
    add_reading({now.tokens - before.tokens, now.ms - before.ms, now.steps - before.steps,
                 now.attended - before.attended},
                d, where, status, now_ms);
    const auto tokens = static_cast<double>(now.tokens - before.tokens);
    const auto reads = [&](std::size_t p) {
      const engine::part_status& part = status.parts[p];
      const bool here = where[p] == d && p != embedding_;
      return here ? static_cast<double>(part.weight_bytes + part.kv_bytes) : 0.0;
    };
    double all = 0;
    for (std::size_t p = 0; p < where.size(); p++) all += reads(p);
    for (std::uint32_t p = 0; p < where.size(); p++)
      if (reads(p) > 0)
        part_times_[{p, d}].add(tokens, (now.ms - before.ms) * reads(p) / all, now_ms,
                                part_half_life_ms);
  }
}

namespace {

// Whether all KV of sessions lies where the parts that use it are.
bool lies_beside_its_parts(const engine::engine_status& status) {
  return std::ranges::all_of(status.sessions, [](const engine::session_status& s) {
    return std::ranges::all_of(s.kv, [](const engine::kv_share& k) { return k.away_bytes == 0; });
  });
}

}  // namespace

// Of steps of one reply alone: with several, weights are read once for all of them.
void measurements::add_reading(const engine::decode_time& more, std::uint32_t device,
                               const std::vector<std::uint32_t>& where,
                               const engine::engine_status& status, std::int64_t now_ms) {
  if (kv_.parts.empty() || more.steps != more.tokens) return;
  std::vector<std::size_t> parts_on(status.decode_times.size(), 0);
  for (std::uint32_t p : kv_.parts) parts_on[where[p]]++;
  if (parts_on[device] == 0 || !lies_beside_its_parts(status)) return;
  const auto tokens = static_cast<double>(more.tokens);
  growing_context& line = readings_[device];
  line.add(where, static_cast<double>(more.attended) / tokens, more.ms / tokens, tokens, now_ms);
  if (const std::optional<double> ms = line.ms_per_position())
    kv_found_[device] = {static_cast<double>(parts_on[device]) * kv_.position_bytes / *ms * 1000,
                         now_ms};
}

void measurements::put_into(policies::snapshot& s, const std::vector<std::string>& devices) const {
  s.tokens_per_s = tokens_per_s_;
  for (const auto& [d, found] : kv_found_)
    if (d < s.devices.size() && now_ms_ - found.at_ms <= kv_lasts_ms)
      s.devices[d].kv_bytes_per_s = found.bytes_per_s;
  for (const auto& [way, l] : links_) {
    const bool lasts = now_ms_ - l.copies.at_ms <= link_lasts_ms;
    if (!lasts || l.copies.took <= 0 || static_cast<double>(l.seen.bytes) < least_link_bytes)
      continue;
    s.links.push_back({devices[way.first], devices[way.second],
                       l.copies.amount / l.copies.took * 1000,
                       l.pauses.amount > 0 ? l.pauses.took / l.pauses.amount : 0});
  }
  for (const auto& [where, t] : part_times_)
    if (t.amount > 0)
      s.parts[where.first].measured.push_back({devices[where.second], t.took / t.amount});
  for (const first_part_time& f : first_)
    if (f.ms_per_token > 0 && !part_times_.contains({f.part, f.device}))
      s.parts[f.part].measured.push_back({devices[f.device], f.ms_per_token});
}

}  // namespace terrane::daemon

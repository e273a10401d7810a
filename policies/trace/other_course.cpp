#include "policies/trace/other_course.hpp"

namespace terrane::policies::trace {
namespace {

// Counts a part's bytes on `to` instead of where it is.
void shift(snapshot& s, const part_state& p, const std::string& to) {
  const auto bytes = static_cast<double>(p.weight_bytes + p.kv_bytes);
  for (device_state& d : s.devices) {
    const double change = d.name == to ? bytes : d.name == p.device ? -bytes : 0;
    d.vram_used.value += change;
    d.vram_ours.value += change;
    if (d.vram_free.present()) d.vram_free.value -= change;
  }
}

}  // namespace

void other_course::begin(const snapshot& at, std::uint64_t first_move) {
  begun_ = true;
  first_move_ = first_move;
  for (const part_state& p : at.parts) places_[p.name] = {p.device, p.moved_ms};
}

snapshot other_course::seen(snapshot s) {
  std::erase_if(s.moving, [&](const move_in_progress& m) { return !is_common(m.id); });
  std::erase_if(s.completed, [&](const completed_move& m) { return !is_common(m.id); });
  for (const completed_move& m : s.completed) {
    if (m.kind == subject_kind::part && m.outcome == move_outcome::done)
      places_[m.subject] = {m.to, m.completed_ms};
  }
  for (const planned_move& m : planned_) {
    s.completed.push_back({m.id, m.kind, m.subject, m.from, m.to, s.time_ms, move_outcome::done, "",
                           m.predicted_ms, m.predicted_pause_ms});
    if (m.kind == subject_kind::part) places_[m.subject] = {m.to, s.time_ms};
  }
  planned_.clear();
  for (part_state& p : s.parts) {
    const auto [at, is_new] = places_.try_emplace(p.name, place{p.device, p.moved_ms});
    if (at->second.device != p.device) shift(s, p, at->second.device);
    p.device = at->second.device;
    p.moved_ms = at->second.moved_ms;
  }
  return s;
}

}  // namespace terrane::policies::trace

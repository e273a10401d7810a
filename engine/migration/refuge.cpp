#include "engine/migration/refuge.hpp"

#include <algorithm>
#include <set>

#include "engine/migration/mover.hpp"

namespace terrane::engine {

namespace {

// The engine ends.
bool gave_up(const result<void>& ok) { return !ok && ok.error().code == error_code::cancelled; }

// What devices have left while parts are handed out.
class room_left {
 public:
  room_left(const model& of, const device_rooms& rooms, const workspace_shape& shape,
            const std::vector<std::uint64_t>& pages)
      : model_(of), rooms_(rooms), pages_(pages), blocks_(rooms.size()) {
    for (const auto& room : rooms) {
      const std::uint64_t limit = room->on->limit_bytes(), used = room->on->used_bytes();
      left_.push_back(limit > used ? limit - used : 0);
      fee_.push_back(room->space == nullptr ? workspace::bytes(*room->on, of, shape) : 0);
    }
  }

  std::uint64_t left(std::uint32_t device) const { return left_[device]; }
  std::uint64_t needed(part_index part, std::uint32_t device) const {
    std::uint64_t bytes = fee_[device];
    const device_room& room = *rooms_[device];
    for (std::uint32_t b : model_.parts()[part].blocks)
      if (!blocks_[device].contains(b)) bytes += room.weights.missing_bytes({b});
    if (model_.parts()[part].kind == part_kind::attention) {
      const std::uint32_t layer = model_.parts()[part].layer;
      if (pages_[layer] != 0) bytes += room.pages.bytes_to_take(layer, pages_[layer]);
    }
    return bytes;
  }
  bool fits(part_index part, std::uint32_t device) const {
    return needed(part, device) <= left_[device];
  }
  void put(part_index part, std::uint32_t device) {
    left_[device] -= needed(part, device);
    fee_[device] = 0;
    for (std::uint32_t b : model_.parts()[part].blocks) blocks_[device].insert(b);
  }

 private:
  const model& model_;
  const device_rooms& rooms_;
  const std::vector<std::uint64_t>& pages_;
  std::vector<std::uint64_t> left_, fee_;
  std::vector<std::set<std::uint32_t>> blocks_;  // promised to each device
};

}  // namespace

result<std::vector<std::uint32_t>> nearest_with_room(const model& of, const device_rooms& rooms,
                                                     const workspace_shape& shape,
                                                     const lost_placement& from,
                                                     const std::vector<std::uint64_t>& pages) {
  std::vector<std::uint32_t> where = from.parts;
  room_left room(of, rooms, shape, pages);
  for (part_index p = 0; p < where.size(); p++) {
    if (!from.lost[where[p]]) continue;
    std::vector<std::uint32_t> whole;
    for (std::uint32_t d = 0; d < rooms.size(); d++)
      if (!from.lost[d]) whole.push_back(d);
    std::ranges::stable_sort(whole, std::ranges::greater{},
                             [&](std::uint32_t d) { return room.left(d); });
    const auto prefer = [&](std::uint32_t device) {
      const auto at = std::ranges::find(whole, device);
      if (at != whole.end()) std::rotate(whole.begin(), at, at + 1);
    };
    const auto next = std::find_if(where.begin() + p, where.end(),
                                   [&](std::uint32_t d) { return !from.lost[d]; });
    if (next != where.end()) prefer(*next);
    if (p > 0) prefer(where[p - 1]);
    const auto fit = std::ranges::find_if(whole, [&](std::uint32_t d) { return room.fits(p, d); });
    if (fit == whole.end()) {
      std::string all;
      for (std::uint32_t d : whole)
        all += (all.empty() ? "" : ", ") + rooms[d]->on->info().name + " has " +
               std::to_string(room.left(d)) + " bytes left of the " +
               std::to_string(room.needed(p, d)) + " that it would take";
      return fail(
          error_code::no_room,
          of.parts()[p].name + " fits on no other device: " + (all.empty() ? "there is none" : all),
          rooms[where[p]]->on->info().name);
    }
    room.put(p, *fit);
    where[p] = *fit;
  }
  return where;
}

// ---- The mover's side

void mover::seek_refuge() {
  {
    std::lock_guard lock(guard_);
    refuge_wanted_ = true;
  }
  wake_.notify_one();
}

// The loop is stranded. What is being prepared was thought out for other devices.
void mover::overtake() {
  {
    std::lock_guard lock(guard_);
    refuge_wanted_ = true;
    if (!queue_.empty()) queue_.front()->overtaken = queue_.front()->cancelled = true;
  }
  wake_.notify_one();
}

void mover::take_refuge() {
  const tuning_gate::use devices(gate_);  // a card without parts may be having its kernels timed
  const auto begin = std::chrono::steady_clock::now();
  refuge_report report;
  result<void> ok = find_refuge(report);
  if (report.lost.empty()) return;  // nothing needs one
  if (gave_up(ok)) return;
  // First those that have lost something; the others, where it is their room that is missing.
  using whom = step_loop::whom;
  for (whom which : {whom::with_lost_pages, whom::all}) {
    if (ok) break;
    const error why = ok.error();
    const std::size_t ended = loop_.call([&] { return loop_.end_sessions(which, why); });
    if (ended == 0) continue;
    report.sessions_ended += ended;
    loop_.wait_for_releases();
    ok = find_refuge(report);
    if (gave_up(ok)) return;
  }
  report.sessions_rebuilt -= std::min(report.sessions_rebuilt, report.sessions_ended);
  if (!ok) {
    report.failure = ok.error();
    loop_.call([&] {
      if (loop_.is_stranded()) loop_.refuse(ok.error());
    });
  }
  report.took_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  if (settings_.on_refuge) settings_.on_refuge(report);
}

// As often as another device is lost meanwhile.
result<void> mover::find_refuge(refuge_report& report) {
  while (true) {
    lost_placement from;
    std::vector<std::uint64_t> pages;
    std::uint32_t lost = 0;
    const bool stranded = loop_.call([&] {
      lost = loop_.lost();
      from.parts = loop_.placement().parts;
      pages = loop_.lost_pages();
      report.sessions_rebuilt = loop_.sessions_rebuilt();
      return loop_.is_stranded();
    });
    {
      std::lock_guard lock(guard_);
      if (ending_) return fail(error_code::cancelled, "the engine ends");
      refuge_wanted_ = false;
    }
    if (!stranded) return {};
    report.lost.clear();
    for (std::uint32_t d = 0; d < rooms_.size(); d++) {
      from.lost.push_back((lost >> d & 1U) != 0);
      if (from.lost.back()) report.lost.push_back(d);
    }
    result<void> ok = fail(error_code::no_room, "");
    const auto chosen = settings_.choose_refuge ? settings_.choose_refuge(from) : std::nullopt;
    if (chosen && chosen->size() == from.parts.size()) ok = move_to(*chosen, from, report);
    if (!ok && !gave_up(ok)) {
      const auto nearest = nearest_with_room(model_, rooms_, shape_, from, pages);
      ok = nearest ? move_to(*nearest, from, report) : tl::unexpected<error>(nearest.error());
    }
    if (ok || gave_up(ok) || loop_.call([&] { return loop_.lost(); }) == lost) return ok;
  }
}

result<void> mover::move_to(const std::vector<std::uint32_t>& where, const lost_placement& from,
                            refuge_report& report) {
  auto job = std::make_shared<move_job>();
  std::string names;
  for (std::uint32_t d = 0; d < from.lost.size(); d++)
    if (from.lost[d]) names += (names.empty() ? "" : ", ") + rooms_[d]->on->info().name;
  for (part_index p = 0; p < where.size(); p++)
    if (where[p] != from.parts[p]) job->status.parts.push_back({p, where[p]});
  const std::vector<part_move> parts = job->status.parts;
  job->status.by = "engine";
  job->status.reason = "lost: " + names;
  job->unasked = true;
  {
    std::lock_guard lock(guard_);
    if (ending_) return fail(error_code::cancelled, "the engine ends");
    job->status.id = next_++;
    queue_.push_front(job);
  }
  result<void> ok = attempt(*job);
  {
    std::lock_guard lock(guard_);
    queue_.pop_front();
  }
  if (ok) report.parts.insert(report.parts.end(), parts.begin(), parts.end());
  return ok;
}

}  // namespace terrane::engine

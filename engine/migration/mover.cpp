#include "engine/migration/mover.hpp"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "engine/device/copies.hpp"

namespace terrane::engine {

namespace {
// Looks at the sessions this often, at most, for pages that have become full while others were
// copied.
constexpr int most_rounds = 16;
// Commits that may find the pages of a new session. Where one more would, new requests wait for it.
constexpr int commits_beside_admissions = 2;
// How often the observer hears of a move's bytes while it is prepared, about.
constexpr std::uint64_t progress_reports = 50;
// Bytes of one way that are copied with one call, about: enough that starting a copy costs little.
// Where another driver of the card computes meanwhile, each call takes the card from it once.
constexpr std::size_t staged_at_once = std::size_t{32} << 20, direct_at_once = 8 * staged_at_once;

link_traffic& traffic_between(std::vector<link_traffic>& all, std::uint32_t from,
                              std::uint32_t to) {
  const auto at = std::ranges::find_if(
      all, [&](const link_traffic& t) { return t.from == from && t.to == to; });
  if (at != all.end()) return *at;
  link_traffic fresh;
  fresh.from = from;
  fresh.to = to;
  return all.emplace_back(fresh);
}

double ms_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}
}  // namespace

const char* to_string(move_state state) {
  switch (state) {
    case move_state::waiting:
      return "waiting";
    case move_state::preparing:
      return "preparing";
    case move_state::committed:
      return "committed";
    case move_state::failed:
      return "failed";
    case move_state::cancelled:
      return "cancelled";
  }
  return "unknown";
}

mover::mover(const model& of, device_rooms& rooms, const workspace_shape& shape, step_loop& loop,
             tuning_gate& gate, mover_settings settings)
    : model_(of),
      rooms_(rooms),
      shape_(shape),
      loop_(loop),
      gate_(gate),
      settings_(std::move(settings)),
      thread_([this] { run(); }) {
  loop_.call([this] { loop_.on_stranded([this] { overtake(); }); });
}

mover::~mover() {
  loop_.call([this] { loop_.on_stranded({}); });
  {
    std::lock_guard lock(guard_);
    ending_ = true;
    for (auto& job : queue_) job->cancelled = true;
  }
  wake_.notify_one();
  thread_.join();
}

move_id mover::add(move_request request, move_observer observer) {
  auto job = std::make_shared<move_job>();
  job->status.parts = std::move(request.parts);
  job->status.spill = request.spill;
  job->status.by = std::move(request.by);
  job->status.reason = std::move(request.reason);
  job->claims = request.claims;
  job->observer = std::move(observer);
  std::lock_guard lock(guard_);
  job->status.id = next_++;
  queue_.push_back(job);
  wake_.notify_one();
  return job->status.id;
}

result<void> mover::cancel(move_id id) {
  std::lock_guard lock(guard_);
  for (auto& job : queue_) {
    if (job->status.id != id) continue;
    if (job->unasked)
      return fail(error_code::conflict,
                  "move " + std::to_string(id) + " brings parts away from a lost device");
    if (job->committing)
      return fail(error_code::conflict, "move " + std::to_string(id) + " is being committed");
    job->cancelled = true;
    return {};
  }
  return fail(error_code::not_found, "there is no move " + std::to_string(id) + " in progress");
}

std::vector<move_status> mover::pending() const {
  std::lock_guard lock(guard_);
  std::vector<move_status> out;
  for (const auto& job : queue_) out.push_back(job->status);
  return out;
}

std::vector<link_traffic> mover::traffic() const {
  std::lock_guard lock(guard_);
  return traffic_;
}

void mover::run() {
  while (true) {
    std::shared_ptr<move_job> job;
    bool refuge = false;
    {
      std::unique_lock lock(guard_);
      wake_.wait(lock, [this] {
        return ending_ || refuge_wanted_ || giving_back_ != 0 || !queue_.empty();
      });
      if (ending_) refuge_wanted_ = false;
      refuge = refuge_wanted_;
      if (!refuge && !queue_.empty()) job = queue_.front();
      if (!refuge && job == nullptr && ending_) return;
    }
    if (refuge)
      take_refuge();
    else if (job != nullptr)
      carry_out(*job);
    else
      free_workspaces();
  }
}

void mover::give_back_scratch(std::uint32_t device) {
  {
    std::lock_guard lock(guard_);
    giving_back_ |= 1U << device;
  }
  wake_.notify_one();
}

// Those of lost devices, and those that were asked for. On this thread, which alone uses the
// workspace of a device that no plan needs.
void mover::free_workspaces() {
  std::uint32_t unwanted = 0;
  {
    std::lock_guard lock(guard_);
    unwanted = std::exchange(giving_back_, 0);
  }
  loop_.while_still([&] { return loop_.take_workspaces(loop_.lost() | unwanted); }).clear();
}

void mover::tell(move_job& job, move_state state) {
  move_status copy;
  {
    std::lock_guard lock(guard_);
    job.status.state = state;
    if (state != move_state::preparing) job.status.ended = std::chrono::system_clock::now();
    copy = job.status;
  }
  if (job.observer) job.observer(copy);
}

void mover::add_progress(move_job& job, std::uint64_t bytes) {
  move_status copy;
  {
    std::lock_guard lock(guard_);
    job.status.bytes_done += bytes;
    if (job.status.bytes_done - job.bytes_told < job.status.bytes_total / progress_reports) return;
    job.bytes_told = job.status.bytes_done;
    copy = job.status;
  }
  if (job.observer) job.observer(copy);
}

// A move that was given up has measured its ways too.
void mover::add_traffic(const move_job& job) {
  std::lock_guard lock(guard_);
  const bool committed = job.status.revision != 0 && !job.status.nothing_moved;
  for (const link_traffic& t : job.traffic) {
    link_traffic& sum = traffic_between(traffic_, t.from, t.to);
    sum.bytes += t.bytes;
    sum.copy_ms += t.copy_ms;
    if (!committed) continue;
    sum.commits++;
    sum.pause_ms += job.status.pause_ms;
  }
}

void mover::carry_out(move_job& job) {
  const result<void> ok = attempt(job);
  {
    std::lock_guard lock(guard_);
    queue_.pop_front();  // who hears of its end does not find it in status() any more
    if (!ok) job.status.failure = ok.error();
  }
  if (ok) return tell(job, move_state::committed);
  tell(job, ok.error().code == error_code::cancelled ? move_state::cancelled : move_state::failed);
}

result<void> mover::attempt(move_job& job) {
  const auto begin = std::chrono::steady_clock::now();
  job.began = begin;
  result<void> ok = prepare(job);
  if (ok && !job.status.nothing_moved) ok = commit(job, begin);
  loop_.while_still([&] { loop_.delay().ignore(); });
  add_traffic(job);
  // What was in use before is freed here, where no reply waits for it; so is what a failed move
  // brought.
  job.old_plan.reset();
  job.plan.reset();
  job.old_blocks.clear();
  job.blocks_after.clear();
  job.page_at.clear();
  job.ready_switch = {};
  job.pages.clear();
  if (!ok && job.overtaken)
    ok = fail(error_code::device_fault, "the move was given up because a device was lost");
  if (!ok) loop_.call([&] { loop_.notice_lost(); });
  free_workspaces();
  return ok;
}

// Ends however many sessions come and go: those that come at last wait until it is over.
result<void> mover::commit(move_job& job, steady_time begin) {
  std::optional<step_loop::admission_hold> hold;
  for (int commits = 1;; commits++) {
    result<void> ok = try_commit(job, begin);
    if (ok || ok.error().code != error_code::conflict || hold) return ok;
    if (commits == commits_beside_admissions) hold.emplace(loop_);
    ok = bring(job);
    if (!ok) return ok;
  }
}

result<void> mover::try_commit(move_job& job, steady_time begin) {
  {
    std::lock_guard lock(guard_);
    job.committing = true;
    job.status.prepare_ms = ms_since(begin);
  }
  result<step_loop::commit_report> committed = loop_.call_first([&] { return loop_.commit(job); });
  std::lock_guard lock(guard_);
  job.committing = false;
  if (!committed) return tl::unexpected<error>(committed.error());
  job.status.bytes_in_pause = committed->bytes;
  job.status.pause_ms = committed->pause_ms;
  job.status.committed_at = committed->at;
  job.status.revision = committed->revision;
  return {};
}

result<void> mover::prepare(move_job& job) {
  loop_.while_still([&] {
    loop_.delay().watch();
    job.parts_after = loop_.placement().parts;
    for (const part_move& m : job.status.parts)
      if (job.claims && job.parts_after[m.part] == m.device) job.claimed.push_back(m.part);
    {
      std::lock_guard lock(guard_);
      std::erase_if(job.status.parts,
                    [&](const part_move& m) { return job.parts_after[m.part] == m.device; });
    }
    for (const part_move& m : job.status.parts) job.parts_after[m.part] = m.device;
    loop_.survey(job);
  });
  job.blocks_after.resize(job.parts_after.size());
  loop_.finish_releases();  // their room counts
  if (job.status.parts.empty() && job.pages.empty()) {
    loop_.while_still([&] { loop_.claim(job); });
    std::lock_guard lock(guard_);
    job.status.nothing_moved = true;
    job.status.revision = loop_.revision();
    return {};
  }
  result<void> ok = check_devices(job);
  if (ok) ok = check_room(job);
  if (!ok) return ok;
  tell(job, move_state::preparing);
  ok = bring_weights(job);
  if (ok) ok = bring(job);
  return ok;
}

// Pages and plan. Recording a plan takes long enough for a session to come: what came is brought
// too, so that the commit seldom finds any.
result<void> mover::bring(move_job& job) {
  result<void> ok = bring_pages(job);
  if (ok) ok = build_plan(job);
  if (ok) ok = bring_pages(job);
  return ok;
}

result<void> mover::check_devices(const move_job& job) const {
  for (std::uint32_t d : job.parts_after) {
    if (const std::optional<error> why = rooms_[d]->on->lost())
      return fail(error_code::device_fault, "it is lost: " + why->message,
                  rooms_[d]->on->info().name);
  }
  return {};
}

// By sum, before anything is copied: weights, pages and workspace against what each target has
// left.
result<void> mover::check_room(move_job& job) {
  std::uint64_t total = 0;
  for (const auto& room : rooms_) {
    std::vector<std::uint32_t> blocks;
    for (const part_move& m : job.status.parts) {
      if (m.device != room->index) continue;
      for (std::uint32_t b : model_.parts()[m.part].blocks)
        if (std::find(blocks.begin(), blocks.end(), b) == blocks.end()) blocks.push_back(b);
    }
    std::vector<std::uint64_t> pages(model_.config().layers, 0);
    for (const page_move& p : job.pages)
      if (p.target == room->index) pages[p.layer]++;
    const std::uint64_t weights = room->weights.missing_bytes(blocks);
    std::uint64_t kv = 0, scratch = 0;
    for (std::uint32_t layer = 0; layer < pages.size(); layer++) {
      if (pages[layer] == 0) continue;
      kv += room->pages.bytes_to_take(layer, pages[layer]);
    }
    for (const page_move& p : job.pages)
      if (p.target == room->index && !p.copied) total += room->pages.page_bytes();
    total += weights;
    if (blocks.empty() && kv == 0) continue;
    if (room->space == nullptr) scratch = workspace::bytes(*room->on, model_, shape_);
    const std::uint64_t needed = weights + kv + scratch, limit = room->on->limit_bytes(),
                        used = room->on->used_bytes();
    if (needed > limit || used > limit - needed) {
      return fail_short(error_code::no_room, needed, limit > used ? limit - used : 0,
                        "the move needs " + std::to_string(needed) + " bytes (weights " +
                            std::to_string(weights) + ", KV " + std::to_string(kv) + ", scratch " +
                            std::to_string(scratch) + "); " +
                            std::to_string(limit > used ? limit - used : 0) + " of " +
                            std::to_string(limit) + " are free",
                        room->on->info().name);
    }
  }
  std::lock_guard lock(guard_);
  job.status.bytes_total = total;
  return {};
}

// Makes a device's workspace before its first part or page comes; the loop takes it into use.
result<void> mover::open(device_room& room) {
  if (room.space != nullptr) return {};
  result<std::unique_ptr<workspace>> made = workspace::make(*room.on, model_, shape_);
  if (!made) return tl::unexpected<error>(made.error());
  loop_.while_still([&] { room.space = std::move(*made); });
  return {};
}

result<void> mover::bring_weights(move_job& job) {
  for (const part_move& m : job.status.parts) {
    device_room& to = *rooms_[m.device];
    result<void> opened = open(to);
    if (!opened) return opened;
    for (std::uint32_t block : model_.parts()[m.part].blocks) {
      // The nearest copy: a device that has the block now, best one with a path that does not pass
      // through the host; else the file.
      resident_block_ptr source;
      device_room* from = nullptr;
      for (const auto& room : rooms_) {
        resident_block_ptr found = room->weights.find(block);
        if (found == nullptr || room->on->lost()) continue;
        const bool direct = room->index != to.index && to.on->no_direct_path(*room->on).empty();
        if (source == nullptr || direct) {
          source = std::move(found);
          from = room.get();
        }
        if (direct) break;
      }
      std::uint64_t told = 0;
      result<resident_block_ptr> here = to.weights.bring(
          block, source, from == nullptr ? nullptr : from->on.get(), [&](std::uint64_t done) {
            add_progress(job, done - told);
            told = done;
            return !job.cancelled;
          });
      if (!here) return tl::unexpected<error>(here.error());
      // Told of bytes, it was brought now; a device may have kept it, and then nothing was copied.
      if (from != nullptr && told != 0 && (*here)->copied_ms > 0) {
        link_traffic& t = traffic_between(job.traffic, from->index, to.index);
        t.bytes += told;
        t.copy_ms += (*here)->copied_ms;
      }
      job.blocks_after[m.part].push_back(std::move(*here));
    }
  }
  return {};
}

// What was taken for sessions that have ended meanwhile: where they come and go fast, it would be
// more than what is moved.
void mover::drop_ended(move_job& job) {
  if (job.ready) return;
  const auto ended = [&](const page_move& m) { return m.seen_by != job.surveys; };
  if (std::erase_if(job.pages, ended) == 0) return;
  job.page_at.clear();
  for (std::size_t k = 0; k < job.pages.size(); k++) job.page_at[job.pages[k].from.get()] = k;
}

// A place for each page on its new device.
result<void> mover::take_pages(move_job& job) {
  for (page_move& m : job.pages) {
    if (m.to != nullptr) continue;
    device_room& to = *rooms_[m.target];
    result<void> ok = open(to);
    if (!ok) return ok;
    result<kv_page_ptr> page = to.pages.take(m.layer);
    if (!page) return tl::unexpected<error>(page.error());
    m.to = std::move(*page);
  }
  return {};
}

// Until the loop finds nothing more to bring: while pages are copied, replies fill others.
result<void> mover::bring_pages(move_job& job) {
  for (int round = 0; round < most_rounds; round++) {
    drop_ended(job);
    result<void> ok = take_pages(job);
    if (ok) ok = copy_pages(job);
    if (!ok) return ok;
    if (loop_.while_still([&] { return loop_.survey(job); })) return {};
  }
  return {};
}

// Pages that go the same way are copied together. Those that are being written, and the next, go
// along once: they are copied again in the pause, but then to memory that is in use already, on a
// way that is open.
result<void> mover::copy_pages(move_job& job) {
  std::vector<copy_range> ranges;
  std::vector<page_move*> on_their_way;
  std::uint64_t bytes = 0, done = 0, at_once = 0;
  auto send = [&]() -> result<void> {
    if (on_their_way.empty()) return {};
    if (job.cancelled) return fail(error_code::cancelled, "the move was given up");
    const page_move& first = *on_their_way.front();
    const auto begin = std::chrono::steady_clock::now();
    result<void> ok =
        copy_between(*rooms_[first.from->device()]->on, *rooms_[first.target]->on, ranges);
    if (!ok) return ok;
    link_traffic& t = traffic_between(job.traffic, first.from->device(), first.target);
    t.bytes += bytes;
    t.copy_ms += ms_since(begin);
    for (page_move* m : on_their_way) {
      m->copied = m->full;
      m->tried = true;
    }
    add_progress(job, done);
    ranges.clear();
    on_their_way.clear();
    bytes = done = 0;
    rest(job);
    return {};
  };
  for (page_move& m : job.pages) {
    if (m.copied || !(m.full || (m.soon && !m.tried))) continue;
    const page_move* first = on_their_way.empty() ? &m : on_their_way.front();
    const bool same_way = first->from->device() == m.from->device() && first->target == m.target;
    if (!same_way || bytes >= at_once) {
      result<void> ok = send();
      if (!ok) return ok;
      device& to = *rooms_[m.target]->on;
      const bool direct = to.no_direct_path(*rooms_[m.from->device()]->on).empty();
      at_once = direct ? direct_at_once : staged_at_once;
    }
    const std::size_t page_bytes = rooms_[m.target]->pages.page_bytes();
    ranges.push_back(
        {&m.from->memory(), m.from->offset(), &m.to->memory(), m.to->offset(), page_bytes});
    on_their_way.push_back(&m);
    bytes += page_bytes;
    if (m.full) done += page_bytes;
  }
  return send();
}

// Copies on a card take its time from replies, and copies through the host take memory bandwidth
// from those that a CPU computes. Where it is felt they rest after each batch.
void mover::rest(move_job& job) {
  constexpr double longest_nap_ms = 2;
  while (!job.unasked && !job.cancelled) {
    const double lost_ms = loop_.while_still([&] { return loop_.delay().lost_ms(); });
    const double ms =
        std::min(rest_ms(ms_since(job.began), lost_ms, job.rested_ms), longest_nap_ms);
    if (ms <= 0) return;
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
    job.rested_ms += ms_since(begin);
  }
}

// Nothing, where the job has that plan already.
result<void> mover::build_plan(move_job& job) {
  if (job.plan == nullptr || job.plan->where() != job.where_after) {
    result<std::unique_ptr<execution_plan>> plan =
        execution_plan::make(model_, rooms_, job.where_after);
    if (!plan) return tl::unexpected<error>(plan.error());
    job.plan = std::move(*plan);
  }
  bool fresh = false;
  for (const step_size& size : job.sizes) {
    if (job.cancelled) return fail(error_code::cancelled, "the move was given up");
    if (job.plan->has(size)) continue;
    result<void> ok = job.plan->prepare(size);
    if (!ok) return ok;
    fresh = true;
  }
  if (!fresh) return {};
  for (std::uint32_t d : job.plan->devices()) {
    if (std::ranges::find(job.devices_now, d) != job.devices_now.end()) continue;
    const bool shares_host = rooms_[d]->on->info().host_memory;
    result<void> ok = job.plan->warm(d, shares_host ? settings_.warming / 10 : settings_.warming);
    if (!ok) return ok;
  }
  return {};
}

}  // namespace terrane::engine

// The step loop's side of a move: what is still to be brought (survey), and the commit between two
// steps, which copies the pages that are being written and switches to the new placement.
#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>

#include "engine/device/copies.hpp"
#include "engine/session/step_loop.hpp"
#include "kernels/mix_bits.hpp"

namespace terrane::engine {

namespace {

// Which device a session's page goes to in a move; none if it stays.
class page_targets {
 public:
  page_targets(const model& of, const move_job& job, const std::vector<std::uint32_t>& parts_now,
               std::uint32_t lost)
      : model_(of), job_(job), parts_now_(parts_now), lost_(lost) {}

  std::optional<std::uint32_t> target(const session& s, std::uint32_t layer,
                                      std::size_t page) const {
    const std::uint32_t at = s.pages[layer][page]->device();
    const std::uint32_t home = parts_now_[model_.attention_part(layer)];
    std::uint32_t to = at;
    if ((lost_ >> at & 1U) != 0) {  // to its part, wherever it was
      to = job_.parts_after[model_.attention_part(layer)];
    } else if (job_.status.spill) {
      const spill_request& spill = *job_.status.spill;
      if (spill.session != s.id) return std::nullopt;
      if (!spill.device) {
        to = home;
      } else if (at == spill.from.value_or(home) && s.page_is_full(page) &&
                 (page + 1) * kernels::page_positions + spill.keep_tokens <= s.computed) {
        to = *spill.device;
      }
    } else if (at == home) {  // pages go with their part; those that live elsewhere stay there
      to = job_.parts_after[model_.attention_part(layer)];
    }
    return to == at ? std::nullopt : std::optional(to);
  }

 private:
  const model& model_;
  const move_job& job_;
  const std::vector<std::uint32_t>& parts_now_;
  std::uint32_t lost_;
};

}  // namespace

// Where everything is after the job (null: now). Pages of sessions whose moves are all in the job.
residency step_loop::residency_after(const std::vector<std::uint32_t>& parts,
                                     const move_job* job) const {
  residency out{parts, std::vector<std::uint32_t>(model_.config().layers, 0)};
  for (const auto& s : sessions_) {
    for (std::uint32_t layer = 0; layer < model_.config().layers; layer++) {
      const std::uint32_t home = parts[model_.attention_part(layer)];
      for (std::size_t p = 0; p < s->pages[layer].size(); p++) {
        std::uint32_t at = s->pages[layer][p]->device();
        if (job != nullptr)
          at = page_targets(model_, *job, placement().parts, lost_)
                   .target(*s, layer, p)
                   .value_or(at);
        if (at != home) out.away[layer] |= 1U << at;
      }
    }
  }
  return out;
}

void step_loop::replan(residency where) {
  result<std::unique_ptr<execution_plan>> made =
      execution_plan::make(model_, rooms_, std::move(where));
  // The weights are where the old plan has them, so this cannot fail; a fault would keep the old
  // plan, which is right too, only slower.
  if (!made) return;
  releases_.give(std::move(plan_));
  plan_ = std::move(*made);
  leave_stranding();
}

// After sessions have let go of pages: a layer may need no device but its own any more.
void step_loop::let_go_of_devices() {
  residency now = residency_after(placement().parts, nullptr);
  if (plan_->where() != now) replan(std::move(now));
}

void step_loop::renew_plan() {
  replan(residency(placement()));
  // What a reply will want first. A fault shows again in its step, which can tell it.
  static_cast<void>(plan_->prepare(last_size_));
}

void step_loop::add_pages(move_job& job, const session& s) const {
  const page_targets targets(model_, job, placement().parts, lost_);
  for (std::uint32_t layer = 0; layer < s.pages.size(); layer++) {
    for (std::uint32_t p = 0; p < s.pages[layer].size(); p++) {
      const std::optional<std::uint32_t> to = targets.target(s, layer, p);
      if (!to) continue;
      const kv_page_ptr& from = s.pages[layer][p];
      // The job holds its pages, so an address names the same page as long as the job lives.
      const auto [known, added] = job.page_at.emplace(from.get(), job.pages.size());
      if (added) job.pages.push_back({s.id, layer, p, *to, from, nullptr});
      page_move& page = job.pages[known->second];
      page.seen_by = job.surveys;
      page.full = s.page_is_full(p);
      page.soon = p * kernels::page_positions < s.computed + kernels::page_positions;
      // What no query will see again need not be brought, and what is lost cannot be: its place is
      // enough.
      page.copied = page.copied || is_lost(from->device()) ||
                    s.page_is_past(p, model_.config().attention_of(layer));
    }
  }
}

// A number for all that a survey depends on, but for a spill's: which pages there are, and which of
// them are full or begun.
std::uint64_t step_loop::pages_state() const {
  std::uint64_t state = pages_version_;
  for (const auto& s : sessions_) {
    const std::uint64_t full = s->computed / kernels::page_positions;
    state = mix_bits(state + s->id);
    state = mix_bits(state + 2 * full + (s->computed % kernels::page_positions != 0 ? 1 : 0));
  }
  return state;
}

void step_loop::claim(const move_job& job) {
  for (const part_index p : job.claimed) {
    parts_[p].by = job.status.by;
    parts_[p].reason = job.status.reason;
  }
}

bool step_loop::survey(move_job& job) {
  const std::uint64_t state = pages_state();
  if (job.ready && job.surveyed == state && !job.status.spill) {
    job.ready_step = steps_;
    return true;
  }
  job.surveys++;
  for (const auto& s : sessions_) add_pages(job, *s);
  job.where_after = residency_after(job.parts_after, &job);
  job.devices_now.assign(plan_->devices().begin(), plan_->devices().end());
  // What comes next is most likely what came just now, or of a prompt the first rows of a new pace:
  // a step whose size is not recorded waits for that, after the pause.
  const std::uint32_t most_chunks = shape_.pages_per_slot();
  const std::uint32_t first_rows = first_pace().rows_alone();
  job.sizes.clear();
  for (std::uint32_t chunks : {last_size_.chunks, std::min(last_size_.chunks * 2, most_chunks)}) {
    job.sizes.push_back({last_size_.rows, chunks, last_size_.logits});
    if (first_rows < last_size_.rows) job.sizes.push_back({first_rows, chunks, last_size_.logits});
  }
  std::ranges::copy(plan_->recent(), std::back_inserter(job.sizes));
  job.surveyed = state;
  job.ready = std::all_of(job.pages.begin(), job.pages.end(), [](const page_move& m) {
    return m.to != nullptr && (m.copied || !m.full);
  });
  if (job.ready) {
    job.ready_step = steps_;
    prepare_switch(job);
  }
  return job.ready;
}

void step_loop::prepare_switch(move_job& job) {
  move_job::switch_over& out = job.ready_switch;
  out = {};
  std::map<const session*, std::vector<slot_tables>> tables;
  std::unordered_map<std::vector<kv_page_ptr>*, std::size_t> layers;  // in out.layers
  std::size_t at = 0;
  for (std::size_t k = 0; k < job.pages.size(); k++) {
    const page_move& m = job.pages[k];
    std::vector<kv_page_ptr>* const held = pages_in_use(m);
    if (held == nullptr) continue;
    // Pages of a layer follow each other, but for those that came later.
    if (out.layers.empty() || out.layers[at].of_session != held) {
      at = layers.emplace(held, out.layers.size()).first->second;
      if (at == out.layers.size()) out.layers.push_back({held, *held});
    }
    out.layers[at].pages[m.page] = m.to;
    const session& s = *find(m.session);
    if (!m.copied && !s.page_is_empty(m.page)) out.last.push_back(k);
    std::vector<slot_tables>& of_session = tables[&s];
    if (of_session.empty()) add_tables(s, of_session);
    for (slot_tables& t : of_session) {
      if (t.device != m.from->device() && t.device != m.target) continue;
      t.entries[table_entry(m.layer, m.page)] = t.device == m.target ? m.to->address() : 0;
      t.changed = true;
    }
  }
  for (auto& [s, of_session] : tables) {
    std::erase_if(of_session, [](const slot_tables& t) { return !t.changed; });
    std::ranges::move(of_session, std::back_inserter(out.tables));
  }
}

// The pages among which that of a move is held; null when its session has ended or let go of it
// meanwhile.
std::vector<kv_page_ptr>* step_loop::pages_in_use(const page_move& m) {
  session* s = find(m.session);
  if (s == nullptr || m.page >= s->pages[m.layer].size()) return nullptr;
  std::vector<kv_page_ptr>& held = s->pages[m.layer];
  return held[m.page] == m.from ? &held : nullptr;
}

// Copies what could not be copied ahead: the pages that are being written. Returns the bytes. Pages
// that go the same way are copied together.
result<std::uint64_t> step_loop::copy_last_pages(move_job& job) {
  std::uint64_t bytes = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<copy_range>> ways;
  for (std::size_t k : job.ready_switch.last) {
    page_move& m = job.pages[k];
    const std::size_t page_bytes = rooms_[m.target]->pages.page_bytes();
    ways[{m.from->device(), m.target}].push_back(
        {&m.from->memory(), m.from->offset(), &m.to->memory(), m.to->offset(), page_bytes});
    bytes += page_bytes;
    m.copied = true;  // or the commit fails as a whole
  }
  for (const auto& [way, ranges] : ways) {
    result<void> ok = copy_between_idle(*rooms_[way.first]->on, *rooms_[way.second]->on, ranges);
    if (!ok) return tl::unexpected<error>(ok.error());
  }
  return bytes;
}

// Swaps the job's pages with those in use; called again, it swaps them back.
void step_loop::swap_pages(move_job& job) {
  for (auto& layer : job.ready_switch.layers) layer.of_session->swap(layer.pages);
}

// Of each device that has room for them.
void step_loop::add_tables(const session& s, std::vector<slot_tables>& to) const {
  for (const auto& room : rooms_) {
    if (room->space == nullptr || is_lost(room->index)) continue;
    slot_tables made;
    made.device = room->index;
    made.slot = s.slot;
    made.entries.resize(table_entry(model_.config().layers, 0));
    for (std::uint32_t layer = 0; layer < s.pages.size(); layer++)
      for (std::size_t p = 0; p < s.pages[layer].size(); p++)
        if (const kv_page& page = *s.pages[layer][p]; page.device() == room->index)
          made.entries[table_entry(layer, p)] = page.address();
    to.push_back(std::move(made));
  }
}

// One write for a session and device: a copy to a card costs much the same for a table as for all.
// Every device is written, also after one that fails; its error is returned.
result<void> step_loop::write_tables(std::span<const slot_tables> tables) {
  result<void> all;
  for (const slot_tables& t : tables) {
    result<void> ok = rooms_[t.device]->space->write_page_tables(t.slot, t.entries);
    if (!ok && all) all = ok;
  }
  return all;
}

bool step_loop::is_up_to_date(const move_job& job) const {
  return job.ready && (job.surveyed == pages_state() || job.status.spill);
}

// Why it cannot be committed yet; and at all, where replies fill pages faster than they are
// brought.
error step_loop::more_to_bring(const move_job& job) const {
  std::string where;
  std::size_t pages = 0;
  for (const page_move& m : job.pages) {
    if (m.to != nullptr && (m.copied || !m.full)) continue;
    if (pages++ == 0) where = rooms_[m.target]->on->info().name;
  }
  return {error_code::conflict,
          "replies wrote KV faster than it was brought (" + std::to_string(pages) +
              " pages are not there yet); nothing was moved, so try again, or once they have ended",
          where};
}

// Whether pages may be looked at again and copied while replies stand still: those of a long
// context take milliseconds, unless no other way is left.
bool step_loop::looks_in_the_pause(const move_job& job) const {
  constexpr std::size_t few_pages = 1024;
  const bool one_step_ago = job.ready && steps_ - job.ready_step <= 1;
  return admissions_held_ || (one_step_ago && job.pages.size() <= few_pages);
}

result<step_loop::commit_report> step_loop::commit(move_job& job) {
  if (job.cancelled) return fail(error_code::cancelled, "the move was given up");
  const steady_time begin = std::chrono::steady_clock::now();
  const bool in_the_pause = looks_in_the_pause(job);
  if (!in_the_pause && !is_up_to_date(job)) return tl::unexpected<error>(more_to_bring(job));
  if (!survey(job)) {
    const bool all_have_places =
        std::ranges::none_of(job.pages, [](const page_move& m) { return m.to == nullptr; });
    if (!all_have_places || !in_the_pause) return tl::unexpected<error>(more_to_bring(job));
    prepare_switch(job);
  }
  if (needs_lost(job.where_after))
    return fail(error_code::device_fault, "a device of the new placement is lost");
  result<std::uint64_t> bytes = copy_last_pages(job);
  if (!bytes) return tl::unexpected<error>(bytes.error());
  if (job.plan == nullptr || job.plan->where() != job.where_after) {  // sessions came or went
    result<std::unique_ptr<execution_plan>> made =
        execution_plan::make(model_, rooms_, job.where_after);
    if (!made) return tl::unexpected<error>(made.error());
    job.plan = std::move(*made);
  }
  swap_pages(job);
  result<void> tables = write_tables(job.ready_switch.tables);
  if (!tables) {
    swap_pages(job);
    // A device may have the new tables already. That the faulty one fails again changes nothing.
    std::vector<slot_tables> before;
    for (const auto& s : sessions_) add_tables(*s, before);
    static_cast<void>(write_tables(before));
    return tl::unexpected<error>(tables.error());
  }
  job.old_plan = std::move(plan_);
  plan_ = std::move(job.plan);
  for (part_index p = 0; p < parts_.size(); p++) {
    if (job.blocks_after[p].empty()) continue;
    job.old_blocks.push_back(std::move(parts_[p].blocks));
    parts_[p] = {std::move(job.blocks_after[p]), std::chrono::system_clock::now(),
                 std::chrono::steady_clock::now(), job.status.by, job.status.reason};
  }
  claim(job);
  decode_before_ = {revision_, job.old_plan->where().parts, std::move(decode_times_)};
  decode_times_.assign(rooms_.size(), {});
  pace_ = first_pace();
  revision_++;
  pages_version_++;
  leave_stranding();
  const steady_time end = std::chrono::steady_clock::now();
  const double pause_ms = std::chrono::duration<double, std::milli>(end - begin).count();
  for (auto& s : sessions_) {
    if (!s->answering) continue;
    s->answering->summary.moves++;
    s->answering->summary.longest_pause_ms =
        std::max(s->answering->summary.longest_pause_ms, pause_ms);
  }
  return commit_report{*bytes, pause_ms, end, revision_};
}

}  // namespace terrane::engine

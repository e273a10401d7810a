#include "daemon/loop/control_loop.hpp"

#include <algorithm>

#include "daemon/journal/event.hpp"
#include "daemon/journal/log.hpp"
#include "daemon/journal/warnings.hpp"
#include "daemon/state/kept_state.hpp"
#include "policies/explain/sentences.hpp"

namespace terrane::daemon {

namespace {

constexpr std::size_t kept_results = 4096;
// A trouble that comes and goes is told again only when it was away for so long.
constexpr std::int64_t trouble_memory_ms = 60'000;

constexpr std::int64_t kept_at_least_each_ms = 30'000;
// Fewer tokens say little of how long one takes.
constexpr std::uint64_t tokens_that_count = 16;
// What an order waits for the disk before it is answered all the same.
constexpr std::chrono::milliseconds longest_keeping{2000};
// Between two looks for a place for what was on a lost device.
constexpr std::int64_t sought_each_ms = 10'000;

bool same_orders(const policies::snapshot& a, const policies::snapshot& b) {
  const auto essence = [](const policies::yield_order& y) {
    return std::pair(y.device, y.until_ms);
  };
  return a.disabled == b.disabled && std::ranges::equal(a.yields, b.yields, {}, essence, essence);
}

std::uint64_t planned_copies(const std::vector<policies::planned_move>& planned) {
  std::uint64_t sum = 0;
  for (const policies::planned_move& p : planned) sum += p.copied_bytes;
  return sum;
}

policies::move_outcome outcome_of(const engine::move_status& s) {
  using policies::move_outcome;
  if (s.state == engine::move_state::committed)
    return s.nothing_moved ? move_outcome::idle : move_outcome::done;
  return s.state == engine::move_state::cancelled ? move_outcome::cancelled : move_outcome::failed;
}

// Of what a commit copied, what it copied for one of its moves: by what was planned of each.
std::uint64_t share_of_bytes(const engine::move_status& s,
                             const std::vector<policies::planned_move>& planned,
                             const policies::planned_move& one) {
  const double all = static_cast<double>(planned_copies(planned));
  const double copied = static_cast<double>(s.bytes_done + s.bytes_in_pause);
  return all > 0
             ? static_cast<std::uint64_t>(copied * (static_cast<double>(one.copied_bytes) / all))
             : 0;
}

// Of moves that are one commit: copies one after the other, and one pause. 0: not all are known.
double predicted_time_ms(const std::vector<policies::planned_move>& planned) {
  double copies = 0, pause = 0;
  for (const policies::planned_move& p : planned) {
    if (p.predicted_ms <= 0) return 0;
    copies += p.predicted_ms - p.predicted_pause_ms;
    pause = std::max(pause, p.predicted_pause_ms);
  }
  return copies + pause;
}

// Of the devices' work, and of how many tokens; 0 tokens: none were decoded.
struct token_times {
  std::uint64_t tokens = 0;
  double ms = 0;
};
token_times sum_of(const std::vector<engine::decode_time>& times) {
  token_times out;
  for (const engine::decode_time& t : times) {
    out.tokens = std::max(out.tokens, t.tokens);
    out.ms += t.ms;
  }
  return out;
}

// What parts are called and how many there are follows from these.
std::string name_of(const engine::model& m) {
  return m.config().architecture + ", " + std::to_string(m.config().layers) + " layers, " +
         m.config().name;
}

}  // namespace

// What the engine reports of moves, from its own thread; outlives the loop.
struct control_loop::inbox {
  struct report {
    engine::move_status status;
    std::vector<policies::planned_move> planned;
  };
  std::mutex guard;
  std::vector<report> ended;
};

// A move has ended, says the engine.
void control_loop::report(const std::weak_ptr<inbox>& to, const engine::move_status& status,
                          const std::vector<policies::planned_move>& planned) {
  const std::shared_ptr<inbox> in = to.lock();
  if (in == nullptr) return;
  std::lock_guard lock(in->guard);
  in->ended.push_back({status, planned});
}

control_loop::control_loop(engine::inference_engine& engine, snapshot_builder builder,
                           policies::policy_set_ptr set, ipc::event_hub& events, clock now)
    : engine_(engine),
      builder_(std::move(builder)),
      events_(events),
      now_(std::move(now)),
      unix_offset_ms_(daemon::unix_ms(std::chrono::system_clock::now()) - now_()),
      set_(std::move(set)),
      lost_(engine.devices().size()),
      inbox_(std::make_shared<inbox>()) {}

control_loop::~control_loop() = default;

void control_loop::tick() {
  std::vector<inbox::report> ended;
  {
    std::lock_guard lock(inbox_->guard);
    ended.swap(inbox_->ended);
  }
  const engine::engine_status status = engine_.status();
  std::vector<policies::completed_move> completed;
  for (const inbox::report& r : ended) {
    ids_.erase(r.status.id);
    for (const policies::planned_move& p : r.planned) {
      const std::string detail = r.status.failure ? to_string(*r.status.failure) : "";
      completed.push_back({p.id, p.kind, p.subject, p.from, p.to, now_(), outcome_of(r.status),
                           detail, r.status.prepare_ms + r.status.pause_ms, r.status.pause_ms});
      remember(p.id,
               {r.status.state, detail, r.status.pause_ms, r.status.prepare_ms + r.status.pause_ms,
                share_of_bytes(r.status, r.planned, p), 0});
    }
    if (outcome_of(r.status) == policies::move_outcome::done) compare(r.status, r.planned);
  }
  compare_token_time(status);
  policies::snapshot snapshot = builder_.make(status, now_(), ids_, std::move(completed));
  orders_.put_into(snapshot, snapshot.time_ms);
  const policies::policy_set_ptr set = this->policies();
  const bool ordered = !same_orders(snapshot, last_);
  if (recorder_ != nullptr) recorder_->before_tick(*set, state_, snapshot.time_ms, unix_offset_ms_);
  policies::decision made;
  {
    std::lock_guard lock(guard_);
    made = policies::evaluate(*set, snapshot, state_);
    past_.add(made);
    last_ = snapshot;
    // The state has taken them in: who asks what would be decided now must not count them again.
    last_.completed.clear();
  }
  if (recorder_ != nullptr) recorder_->after_tick(*set, snapshot, made);
  const bool moved = !made.records.empty() || !snapshot.completed.empty();
  if (ordered || moved || last_.time_ms - kept_ms_ >= kept_at_least_each_ms) save();
  look_for_lost_devices(status);
  look_for_troubles();
  publish(made);
  carry_out(made.planned);
  give_back_scratch();
  orders_.look(now_());
}

// Of a device that yields, what steps need there leaves last.
void control_loop::give_back_scratch() {
  for (const policies::yield_order& y : orders_.yields(now_())) {
    for (std::uint32_t d = 0; d < engine_.devices().size(); d++) {
      const engine::device& on = *engine_.devices()[d];
      const bool is_empty = on.used_bytes(engine::memory_use::weights) == 0 &&
                            on.used_bytes(engine::memory_use::kv) == 0;
      const bool has_scratch = on.used_bytes(engine::memory_use::scratch) > 0;
      if (on.info().name == y.device && is_empty && has_scratch) engine_.give_back_scratch(d);
    }
  }
}

std::vector<std::string> control_loop::keep(state_file& in) {
  kept_in_ = &in;
  const auto begins_anew = [&](const std::string& why, const std::string& aside) {
    return std::vector<std::string>{"state: " + in.path().string() + " cannot be used: " + why +
                                    (aside.empty() ? "" : "; it was left aside as " + aside) +
                                    "; policies begin without what they remembered"};
  };
  const state_file::found found = in.read();
  if (!found.trouble.empty()) return begins_anew(found.trouble, in.leave_aside(".unreadable"));
  if (!found.text) return {};
  auto kept = from_text(*found.text, now(now_()), name_of(engine_.loaded_model()));
  if (!kept) return begins_anew(kept.error(), in.leave_aside(".left-aside"));
  std::vector<std::string> told;
  std::erase_if(kept->yields, [&](const policies::yield_order& y) {
    if (device_index(y.device)) return false;
    told.push_back("state: there is no device " + y.device + " any more, which was to yield");
    return true;
  });
  std::lock_guard lock(guard_);
  state_ = std::move(kept->memory);
  orders_.resume(std::move(kept->disabled), std::move(kept->yields));
  return told;
}

std::string control_loop::kept_text() {
  kept_ms_ = now_();
  policies::pipeline_state memory;
  {
    std::lock_guard lock(guard_);
    memory = state_;
  }
  return to_text({std::move(memory), orders_.disabled(), orders_.yields(kept_ms_)}, now(kept_ms_),
                 name_of(engine_.loaded_model()));
}

void control_loop::save() {
  if (kept_in_ == nullptr) return;
  std::lock_guard lock(keeping_);
  kept_in_->put(kept_text());
}

std::string control_loop::save_and_wait() {
  if (kept_in_ == nullptr) return "";
  std::uint64_t number = 0;
  {
    std::lock_guard lock(keeping_);
    number = kept_in_->put(kept_text());
  }
  return kept_in_->wait(number, longest_keeping);
}

// The engine puts elsewhere what was there; where nothing has room, once more after a while.
void control_loop::look_for_lost_devices(const engine::engine_status& status) {
  const bool again = status.unplaced && now_() - sought_ms_ >= sought_each_ms;
  if (!tell_lost_devices() && !again) return;
  sought_ms_ = now_();
  engine_.look_for_lost_devices();
}

// Whether there are any that were not told of yet.
bool control_loop::tell_lost_devices() {
  bool fresh = false;
  for (std::size_t d = 0; d < lost_.size(); d++) {
    const engine::device& device = *engine_.devices()[d];
    const std::optional<error> why = lost_[d].empty() ? device.lost() : std::nullopt;
    if (!why) continue;
    const std::string& name = device.info().name;
    lost_[d] = "device " + name + " is lost: " + why->message;
    log(log_level::error, lost_[d], {{"TERRANE_DEVICE", name}});
    ipc::event e = event_now(ipc::event_kind::device_lost, lost_[d]);
    e.from = name;
    events_.publish(e);
    fresh = true;
  }
  return fresh;
}

void control_loop::look_for_troubles() {
  std::vector<std::string> now;
  for (const std::string& l : lost_)
    if (!l.empty()) now.push_back(l);
  const std::int64_t time = now_();
  std::vector<std::string> fresh;
  const auto add = [&](std::string what) {
    const auto [seen, first] = told_troubles_.try_emplace(what, time);
    if (first) fresh.push_back(what);
    seen->second = time;
    now.push_back(std::move(what));
  };
  for (const auto& source : builder_.sources()) {
    const std::string what = source->trouble();
    if (!what.empty()) add(std::string(source->name()) + ": " + what);
  }
  if (recorder_ != nullptr && !recorder_->trouble().empty()) add(recorder_->trouble());
  if (kept_in_ != nullptr)
    if (std::string what = kept_in_->trouble(); !what.empty()) add(std::move(what));
  std::erase_if(told_troubles_, [&](const auto& t) { return time - t.second > trouble_memory_ms; });
  {
    std::lock_guard lock(guard_);
    troubles_ = std::move(now);
  }
  // Who hears of one finds it in Status.
  for (const std::string& what : fresh) tell_warning(events_, what);
}

void control_loop::publish(const policies::decision& d) {
  for (const policies::decision_record& r : d.records) {
    const std::string headline = policies::headline(r);
    const bool faulted = r.event == policies::decision_event::faulted;
    ipc::event e = event_now(faulted           ? ipc::event_kind::policy_fault
                             : r.moves.empty() ? ipc::event_kind::declined
                                               : ipc::event_kind::decision,
                             headline);
    for (const std::string& note : r.notes) e.message += "; " + note;
    e.decision = static_cast<std::int64_t>(r.id);
    e.policy = r.policy;
    events_.publish(e);
    log(faulted ? log_level::warning : log_level::notice, e.message,
        {{"TERRANE_DECISION", std::to_string(r.id)}, {"TERRANE_POLICY", r.policy}});
  }
}

std::optional<std::uint32_t> control_loop::device_index(const std::string& name) const {
  for (std::uint32_t d = 0; d < engine_.devices().size(); d++)
    if (engine_.devices()[d]->info().name == name) return d;
  return std::nullopt;
}

// Parts of one decision move as one commit; sessions' KV one by one.
void control_loop::carry_out(const policies::plan& plan) {
  std::map<std::uint64_t, std::pair<engine::move_request, std::vector<policies::planned_move>>>
      by_decision;
  for (const policies::planned_move& p : plan.moves) {
    const std::optional<std::uint32_t> to = device_index(p.to);
    if (p.kind == policies::subject_kind::part) {
      const std::optional<engine::part_index> part = engine_.loaded_model().find_part(p.subject);
      if (!part || !to) {
        refuse(p, {error_code::not_found,
                   "there is no part '" + p.subject + "' or no device '" + p.to + "'", ""});
        continue;
      }
      auto& [request, planned] = by_decision[p.decision];
      request.by = "policy " + p.policy;
      request.reason = p.reason;
      request.parts.push_back({*part, *to});
      planned.push_back(p);
      continue;
    }
    engine::move_request request;
    request.by = "policy " + p.policy;
    request.reason = p.reason;
    const bool spill = p.action == policies::verb::spill;
    request.spill =
        engine::spill_request{std::stoull(p.subject), static_cast<std::uint32_t>(p.keep_tokens),
                              spill ? to : std::nullopt, device_index(p.only_from)};
    start_move(std::move(request), {p});
  }
  for (auto& [decision, work] : by_decision) start_move(std::move(work.first), work.second);
}

void control_loop::start_move(engine::move_request request,
                              const std::vector<policies::planned_move>& planned) {
  const std::weak_ptr<inbox> to = inbox_;
  ipc::event_hub& events = events_;
  result<engine::move_id> id =
      engine_.move(std::move(request), [to, &events, planned](const engine::move_status& s) {
        if (s.state == engine::move_state::preparing && s.bytes_done > 0) return;  // progress
        const policies::planned_move& first = planned.front();
        const bool over =
            s.state != engine::move_state::waiting && s.state != engine::move_state::preparing;
        if (s.nothing_moved) return report(to, s, planned);
        const bool done = s.state == engine::move_state::committed, kv = s.spill.has_value();
        ipc::event e = event_now(
            !over             ? ipc::event_kind::move_preparing
            : !done           ? ipc::event_kind::move_failed
            : !kv             ? ipc::event_kind::move_committed
            : s.spill->device ? ipc::event_kind::kv_spilled
                              : ipc::event_kind::kv_fetched,
            (kv                    ? "KV of session " + first.subject
             : planned.size() == 1 ? first.subject
                                   : std::to_string(planned.size()) + " parts") +
                " " + engine::to_string(s.state) + (s.failure ? ": " + to_string(*s.failure) : ""));
        e.decision = static_cast<std::int64_t>(first.decision);
        e.policy = first.policy;
        if (!kv) e.part = first.subject;
        e.from = first.from;
        e.to = first.to;
        e.bytes = static_cast<std::int64_t>(s.bytes_done + s.bytes_in_pause);
        if (done) e.pause_ms = s.pause_ms;
        events.publish(e);
        if (!over) return;
        log(done ? log_level::info : log_level::warning, e.message,
            {{"TERRANE_DECISION", std::to_string(first.decision)},
             {"TERRANE_POLICY", first.policy},
             {"TERRANE_PART", first.subject},
             {"TERRANE_FROM", first.from},
             {"TERRANE_TO", first.to}});
        report(to, s, planned);
      });
  if (!id) {
    for (const policies::planned_move& p : planned) refuse(p, id.error());
    return;
  }
  for (const policies::planned_move& p : planned) ids_[*id][p.subject] = p.id;
}

// The engine would not take it: told to the policies as a move that failed.
void control_loop::refuse(const policies::planned_move& planned, const error& why) {
  engine::move_status s;
  s.state = engine::move_state::failed;
  s.failure = why;
  std::lock_guard lock(inbox_->guard);
  inbox_->ended.push_back({s, {planned}});
}

void control_loop::use(policies::policy_set_ptr set) {
  std::lock_guard lock(guard_);
  set_ = std::move(set);
}

policies::policy_set_ptr control_loop::policies() const {
  std::lock_guard lock(guard_);
  return set_;
}

control_loop::moment control_loop::this_moment() {
  moment m = look([](const auto&, const policies::snapshot& last,
                     const policies::pipeline_state& memory, const auto&) {
    return moment{last, memory};
  });
  orders_.put_into(m.seen, now_ms());
  return m;
}

void control_loop::remember(std::uint64_t planned, move_result r) {
  std::lock_guard lock(guard_);
  results_[planned] = std::move(r);
  while (results_.size() > kept_results) results_.erase(results_.begin());
}

// What was predicted of a commit beside what it took.
void control_loop::compare(const engine::move_status& status,
                           const std::vector<policies::planned_move>& planned) {
  using policies::forecast;
  std::lock_guard lock(guard_);
  forecasts_.add(forecast::bytes, static_cast<double>(planned_copies(planned)),
                 static_cast<double>(status.bytes_done + status.bytes_in_pause));
  forecasts_.add(forecast::time, predicted_time_ms(planned), status.prepare_ms + status.pause_ms);
  forecasts_.add(forecast::pause, planned.front().predicted_pause_ms, status.pause_ms);
  if (planned.front().predicted_token_ms <= 0) return;
  awaited_ = {status.revision, planned.front().predicted_token_ms, {}};
  for (const policies::planned_move& p : planned) awaited_->planned.push_back(p.id);
}

// Once the placement that a move led to has given tokens, or is over.
void control_loop::compare_token_time(const engine::engine_status& status) {
  if (!awaited_) return;
  const bool now = status.revision == awaited_->revision;
  const bool before = status.decode_before.revision == awaited_->revision;
  const token_times seen = now      ? sum_of(status.decode_times)
                           : before ? sum_of(status.decode_before.times)
                                    : token_times();
  if (now && seen.tokens < tokens_that_count) return;
  const awaited_tokens done = std::move(*awaited_);
  awaited_.reset();
  if (seen.tokens < tokens_that_count) return;
  const double token_ms = seen.ms / static_cast<double>(seen.tokens);
  std::lock_guard lock(guard_);
  forecasts_.add(policies::forecast::token_time, done.predicted_ms, token_ms);
  for (std::uint64_t id : done.planned)
    if (const auto at = results_.find(id); at != results_.end()) at->second.token_ms = token_ms;
}

policies::forecasts control_loop::forecasts() const {
  std::lock_guard lock(guard_);
  return forecasts_;
}

std::optional<move_result> control_loop::result_of(std::uint64_t planned) const {
  std::lock_guard lock(guard_);
  const auto found = results_.find(planned);
  return found == results_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> control_loop::troubles() const {
  std::lock_guard lock(guard_);
  return troubles_;
}

}  // namespace terrane::daemon

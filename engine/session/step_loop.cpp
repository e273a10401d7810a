#include "engine/session/step_loop.hpp"

#include <algorithm>
#include <iterator>

#include <sys/prctl.h>

#include "engine/session/logits_hash.hpp"

namespace terrane::engine {

namespace {

double ms_between(steady_time a, steady_time b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

std::size_t pages_for(std::size_t tokens) {
  return (tokens + kernels::page_positions - 1) / kernels::page_positions;
}

}  // namespace

step_loop::step_loop(const model& of, const tokenizer& words, device_rooms& rooms,
                     const engine_options& options, const workspace_shape& shape,
                     std::vector<std::vector<resident_block_ptr>> blocks,
                     std::unique_ptr<execution_plan> plan)
    : model_(of),
      words_(words),
      rooms_(rooms),
      options_(options),
      shape_(shape),
      plan_(std::move(plan)),
      parts_(blocks.size()),
      slots_(shape.slots, false),
      inputs_(shape.rows),
      pace_(first_pace()) {
  for (std::size_t p = 0; p < blocks.size(); p++) parts_[p].blocks = std::move(blocks[p]);
  sessions_.reserve(shape.slots);
  spans_.reserve(shape.rows);
  span_sessions_.reserve(shape.rows);
  logit_rows_.reserve(shape.rows);
  logits_.resize(of.config().vocabulary);
  decode_times_.resize(rooms.size());
  thread_ = std::thread([this] { loop(); });
}

step_loop::~step_loop() {
  call([this] {
    // From the last: a session that is not kept leaves the list when it ends.
    for (std::size_t i = sessions_.size(); i-- > 0;)
      if (sessions_[i]->answering) finish(*sessions_[i], stop_reason::stopped);
    ending_ = true;
  });
  thread_.join();
}

void step_loop::post(command next) {
  {
    std::lock_guard lock(guard_);
    commands_.push_back(std::move(next));
  }
  wake_.notify_one();
}

void step_loop::hold_admissions(bool held) {
  call([&] { admissions_held_ = held; });
}

bool step_loop::drain() {
  if (!holds_admissions()) taken_.swap(held_back_);  // first those that came first
  {
    std::lock_guard lock(guard_);
    std::ranges::move(commands_, std::back_inserter(taken_));
    commands_.clear();
  }
  std::ranges::stable_partition(taken_, [](const command& c) { return c.due == when::first; });
  for (command& next : taken_) {
    release_ended();  // so that a command finds free what the one before it ended
    const bool waits = next.due == when::admitting && holds_admissions();
    if (waits || !next.run()) held_back_.push_back(std::move(next));
  }
  taken_.clear();
  return !ending_;
}

void step_loop::loop() {
  // Devices let it sleep until shortly before a step ends: usually a thread is woken up to 50
  // microseconds late, to save the processor's power.
  constexpr unsigned long nanoseconds = 1;
  (void)prctl(PR_SET_TIMERSLACK, nanoseconds);
  std::unique_lock state(state_);
  while (drain()) {
    if (!is_stranded() && gather()) {
      step(state);
      continue;
    }
    state.unlock();
    {
      std::unique_lock lock(guard_);
      wake_.wait(lock, [this] {
        return !commands_.empty() || (!held_back_.empty() && !holds_admissions());
      });
    }
    state.lock();
  }
}

// ---- Gathering a step

// Where all devices work in the host's memory a step has many rows only if a person says so, and
// then it has them.
prompt_pace step_loop::first_pace() const {
  const bool all_host =
      std::ranges::all_of(rooms_, [](const auto& room) { return room->on->info().host_memory; });
  return all_host ? prompt_pace(shape_.rows, shape_.rows) : prompt_pace(shape_.rows);
}

bool step_loop::gather() {
  release_ended();
  spans_.clear();
  span_sessions_.clear();
  logit_rows_.clear();
  inputs_.rows() = 0;
  most_position_ = 0;
  // Decodes first: a long prompt must not hold up the replies that are being read.
  for (auto& s : sessions_)
    if (s->answering && s->tokens.size() - s->computed == 1) add_rows(*s, 1);
  reply_rows_ = static_cast<std::uint32_t>(inputs_.rows());
  std::size_t left = reply_rows_ == 0 ? pace_.rows_alone() : pace_.rows_beside(reply_rows_);
  for (auto& s : sessions_) {
    if (!s->answering || s->tokens.size() - s->computed <= 1) continue;
    std::size_t most = s->answering->request.prompt_chunk;
    if (most == 0) most = shape_.rows;
    left -= add_rows(*s, std::min({most, left, s->tokens.size() - s->computed}));
  }
  const auto rows = static_cast<std::uint32_t>(inputs_.rows());
  if (rows == 0) return false;
  size_ = rounded({rows, most_position_ / kernels::page_positions + 1,
                   static_cast<std::uint32_t>(logit_rows_.size())});
  size_.rows = std::min(size_.rows, shape_.rows);
  size_.chunks = std::min(size_.chunks, shape_.pages_per_slot());
  size_.logits = std::min(size_.logits, shape_.logit_rows());
  std::fill(inputs_.tokens().begin() + rows, inputs_.tokens().end(), 0);
  std::fill(inputs_.logit_rows().begin() + static_cast<std::ptrdiff_t>(logit_rows_.size()),
            inputs_.logit_rows().end(), 0);
  return true;
}

// Returns how many of them the step has room for.
std::size_t step_loop::add_rows(session& s, std::size_t count) {
  const auto first = static_cast<std::uint32_t>(inputs_.rows());
  count = std::min<std::size_t>(count, shape_.rows - first);
  const reply& r = *s.answering;
  // Where rows with logits are full, the rest of the prompt waits for the next step.
  const std::size_t room = shape_.logit_rows() - logit_rows_.size();
  if (r.request.every_logit && s.computed < r.prompt_end) count = std::min(count, room);
  if (room == 0 && s.computed + count == s.tokens.size()) count = count == 0 ? 0 : count - 1;
  if (count == 0) return 0;
  for (std::size_t i = 0; i < count; i++) {
    const std::size_t position = s.computed + i, row = first + i;
    inputs_.tokens()[row] = static_cast<std::int32_t>(s.tokens[position]);
    inputs_.positions()[row] = static_cast<std::int32_t>(position);
    inputs_.slots()[row] = static_cast<std::int32_t>(s.slot);
    const bool draw = position + 1 == s.tokens.size() && r.request.max_tokens > 0;
    const bool tell = r.request.every_logit && position >= r.told && position < r.prompt_end;
    if (draw || tell) {
      inputs_.logit_rows()[logit_rows_.size()] = static_cast<std::int32_t>(row);
      logit_rows_.push_back({&s, static_cast<std::uint32_t>(logit_rows_.size()), draw, position});
    }
  }
  const auto last = static_cast<std::uint32_t>(s.computed + count - 1);
  spans_.push_back({first, static_cast<std::uint32_t>(count), last, &s.pages});
  span_sessions_.push_back(&s);
  inputs_.rows() += static_cast<std::int32_t>(count);
  most_position_ = std::max(most_position_, last);
  return count;
}

// ---- Running it

void step_loop::step(std::unique_lock<std::mutex>& state) {
  const steady_time begin = std::chrono::steady_clock::now();
  result<void> ok;
  for (std::uint32_t d : plan_->devices()) {
    ok = rooms_[d]->space->write_inputs(inputs_);
    if (!ok) return fail_step(ok.error());
  }
  ok = plan_->begin(size_);
  if (!ok) return fail_step(ok.error());
  state.unlock();
  const steady_time runs = std::chrono::steady_clock::now();  // what it needs is recorded
  ok = plan_->run(spans_);
  const double ran_ms = ms_between(runs, std::chrono::steady_clock::now());
  state.lock();
  if (!ok) return fail_step(ok.error());
  pace_.took(static_cast<std::uint32_t>(inputs_.rows()) - reply_rows_, reply_rows_, ran_ms);
  steps_++;
  last_size_ = size_;
  for (std::size_t i = 0; i < spans_.size(); i++) span_sessions_[i]->computed += spans_[i].rows;
  const bool decodes =
      !logit_rows_.empty() && spans_.size() == static_cast<std::size_t>(inputs_.rows());
  // Before the tokens are given: a reply that ends may put another plan in this one's place.
  if (decodes) note_decode_times();
  hand_out();
  const double seconds = ms_between(begin, std::chrono::steady_clock::now()) / 1000.0;
  if (!decodes) return;
  delay_.token(static_cast<std::uint32_t>(spans_.size()), ran_ms);
  const double now = static_cast<double>(spans_.size()) / seconds;
  decode_tok_s_ = decode_tok_s_ == 0 ? now : 0.9 * decode_tok_s_ + 0.1 * now;
}

void step_loop::note_decode_times() {
  std::uint64_t attended = 0;
  for (const step_row_span& s : spans_) attended += std::uint64_t{s.last_position} + 1;
  for (std::uint32_t d : plan_->devices()) {
    if (plan_->busy_ms()[d] == 0) continue;
    decode_times_[d].tokens += spans_.size();
    decode_times_[d].ms += plan_->busy_ms()[d];
    decode_times_[d].steps++;
    decode_times_[d].attended += attended;
  }
}

void step_loop::hand_out() {
  for (const logit_row& l : logit_rows_) {
    session& s = *l.of;
    if (!s.answering) continue;  // it ended with an earlier row of this step
    const step_logits logits = plan_->logits_room().space->read_logits(l.row, logits_);
    if (logits.values.empty())
      return fail_step({error_code::device_fault, "the logits could not be read", "head"});
    reply& r = *s.answering;
    const std::uint64_t hash = r.request.hash_logits ? hash_logits(logits.values) : 0;
    if (r.request.every_logit && l.position >= r.told && l.position < r.prompt_end) {
      r.observer->on_logits(static_cast<std::uint32_t>(l.position), logits.values);
      r.told = l.position + 1;
    }
    if (l.draw) give_token(s, logits, hash);
  }
  // Replies that only read a prompt.
  for (session* s : span_sessions_) {
    if (!s->answering) continue;
    if (s->answering->request.max_tokens == 0 && s->computed == s->tokens.size())
      finish(*s, stop_reason::max_tokens);
  }
}

void step_loop::give_token(session& s, const step_logits& logits, std::uint64_t hash) {
  reply& r = *s.answering;
  const steady_time now = std::chrono::steady_clock::now();
  if (r.summary.generated_tokens == 0) r.first_token = now;
  result<token_id> drawn = r.choose.sample(logits, s.tokens, s.tokens.size());
  if (!drawn) {
    error why = drawn.error();
    if (why.code == error_code::not_finite) {
      result<std::string> part =
          plan_->find_not_finite(size_, static_cast<std::uint32_t>(inputs_.rows()), spans_);
      if (part) why.where = *part;
    }
    return finish(s, stop_reason::failed, std::move(why));
  }
  r.summary.generated_tokens++;
  r.summary.logits_hash = combine_hashes(r.summary.logits_hash, hash);
  tokens_++;
  const auto& stops = r.request.stop_tokens;
  if (std::find(stops.begin(), stops.end(), *drawn) != stops.end()) {
    r.observer->on_token({*drawn, {}, hash});
    return finish(s, stop_reason::end_of_text);
  }
  const bool full = s.tokens.size() >= shape_.context_tokens;  // the new token has no place
  const bool last = r.summary.generated_tokens >= r.request.max_tokens || full;
  s.tokens.push_back(*drawn);
  r.observer->on_token({*drawn, r.stops.push(r.text.push(words_.bytes(*drawn))), hash});
  if (r.stops.found()) return finish(s, stop_reason::stop_text);
  if (last) {
    return finish(s, full && r.summary.generated_tokens < r.request.max_tokens
                         ? stop_reason::context_full
                         : stop_reason::max_tokens);
  }
}

void step_loop::finish(session& s, stop_reason reason, std::optional<error> failure) {
  reply& r = *s.answering;
  const steady_time now = std::chrono::steady_clock::now();
  r.summary.session = s.id;
  r.summary.reason = reason;
  r.summary.failure = std::move(failure);
  if (!r.stops.found()) {
    r.summary.rest = r.stops.push(r.text.finish());
    if (!r.stops.found()) r.summary.rest += r.stops.finish();
  }
  const bool any = r.summary.generated_tokens > 0;
  r.summary.prefill_ms = ms_between(r.started, any ? r.first_token : now);
  r.summary.decode_ms = any ? ms_between(r.first_token, now) : 0;
  const std::shared_ptr<reply_observer> observer = r.observer;
  const reply_summary summary = r.summary;
  s.last_used = now;
  s.answering.reset();
  if (!s.keep || reason == stop_reason::failed) {
    close_now(s);
  } else {
    trim_pages(s);
    let_go_of_devices();
  }
  observer->on_end(summary);
}

// Pages that were reserved for a longer reply return.
void step_loop::trim_pages(session& s) {
  pages_version_++;
  std::vector<kv_page_ptr> unneeded;
  for (auto& pages : s.pages) {
    const std::size_t used = std::min(pages.size(), pages_for(s.computed));
    const auto first = pages.begin() + static_cast<std::ptrdiff_t>(used);
    unneeded.insert(unneeded.end(), std::move_iterator(first), std::move_iterator(pages.end()));
    pages.resize(used);
  }
  if (!unneeded.empty())
    releases_.give(std::make_shared<std::vector<kv_page_ptr>>(std::move(unneeded)));
}

void step_loop::release_ended() {
  for (auto& s : ended_) releases_.give(std::move(s));
  ended_.clear();
}

void step_loop::wait_for_releases() {
  call([this] { release_ended(); });
  releases_.finish();
}

// Of a lost device nobody's reply is at fault: they go on once its parts are elsewhere.
void step_loop::fail_step(const error& why) {
  settle();
  const std::uint32_t before = lost_;
  // Not more than once for each device: the replies go on where nothing needs it any more.
  if (notice_lost() || lost_ != before) return;
  for (session* s : span_sessions_)
    if (s->answering) finish(*s, stop_reason::failed, why);
}

// ---- Commands

session* step_loop::find(session_id id) {
  for (auto& s : sessions_)
    if (s->id == id) return s.get();
  return nullptr;
}

result<session_id> step_loop::admit(generate_request request,
                                    std::shared_ptr<reply_observer> observer) {
  std::promise<result<session_id>> done;
  post({[&] {
          result<session_id> accepted = accept(request, observer);
          if (!accepted) {
            const std::uint32_t before = lost_;
            const bool waits = notice_lost() && !unplaced_;
            if (waits || lost_ != before) return false;  // it may do without that device
          }
          done.set_value(std::move(accepted));
          return true;
        },
        when::admitting});
  return done.get_future().get();
}

result<session_id> step_loop::accept(generate_request& request,
                                     std::shared_ptr<reply_observer>& observer) {
  if (is_stranded() && unplaced_) return tl::unexpected<error>(*unplaced_);
  session* s = request.session == 0 ? nullptr : find(request.session);
  if (request.session != 0 && s == nullptr)
    return fail(error_code::not_found, "there is no session " + std::to_string(request.session));
  if (s != nullptr && s->answering)
    return fail(error_code::conflict, "session " + std::to_string(s->id) + " is replying already");
  const std::size_t held = s == nullptr ? 0 : s->tokens.size(), end = held + request.prompt.size();
  if (request.prompt.empty() && (s == nullptr || s->computed == end))
    return fail(error_code::invalid_input, "the prompt is empty");
  if (end > shape_.context_tokens || (request.max_tokens > 0 && end >= shape_.context_tokens)) {
    return fail_short(error_code::too_long, end, shape_.context_tokens,
                      "the prompt ends at token " + std::to_string(end) + ", the context holds " +
                          std::to_string(shape_.context_tokens) +
                          (request.max_tokens > 0 ? ", reply included" : ""),
                      "context");
  }
  for (token_id t : request.prompt) {
    if (t >= model_.config().vocabulary) {
      return fail(error_code::invalid_input, "token " + std::to_string(t) +
                                                 " is not in the vocabulary of " +
                                                 std::to_string(model_.config().vocabulary));
    }
  }
  result<sampler> choose = sampler::create(request.sampling, model_.config().vocabulary);
  if (!choose) return tl::unexpected<error>(choose.error());

  std::unique_ptr<session> fresh;
  if (s == nullptr) {
    const auto slot = std::find(slots_.begin(), slots_.end(), false);
    if (slot == slots_.end())
      return fail(error_code::conflict, "all " + std::to_string(slots_.size()) +
                                            " sessions are in use; try again when one has ended");
    fresh = std::make_unique<session>();
    fresh->id = next_session_;
    fresh->owner = request.owner;
    fresh->slot = static_cast<std::uint32_t>(slot - slots_.begin());
    fresh->tokens.reserve(shape_.context_tokens + 1);
    fresh->pages.resize(model_.config().layers);
    s = fresh.get();
  }
  const std::size_t wanted = std::min<std::size_t>(shape_.context_tokens, end + request.max_tokens);
  result<void> ok = reserve_pages(*s, wanted);
  if (ok) {
    std::vector<slot_tables> tables;
    add_tables(*s, tables);
    ok = write_tables(tables);
  }
  if (!ok) return tl::unexpected<error>(ok.error());
  if (fresh != nullptr) {
    next_session_++;
    slots_[fresh->slot] = true;
    sessions_.push_back(std::move(fresh));
    if (options_.on_session) options_.on_session(session_change::opened, s->id, s->owner);
  }
  s->keep = request.keep;
  s->tokens.insert(s->tokens.end(), request.prompt.begin(), request.prompt.end());
  const auto cached = static_cast<std::uint32_t>(s->computed),
             prompt = static_cast<std::uint32_t>(end);
  s->answering.emplace(std::move(request), std::move(observer), std::move(*choose), end);
  s->answering->told = s->computed;
  s->answering->summary.cached_tokens = cached;
  s->answering->summary.prompt_tokens = prompt;
  return s->id;
}

// All the pages a reply can need, or none: a step never allocates and never runs out.
result<void> step_loop::reserve_pages(session& s, std::size_t tokens) {
  const std::size_t wanted = pages_for(tokens), before = s.pages_reserved();
  pages_version_++;
  for (std::uint32_t layer = 0; layer < s.pages.size(); layer++) {
    device_room& room = *rooms_[placement().parts[model_.attention_part(layer)]];
    while (s.pages[layer].size() < wanted) {
      result<kv_page_ptr> page = room.pages.take(layer);
      // Room that is about to come back counts, although the replies wait for it.
      if (!page && releases_.finish()) page = room.pages.take(layer);
      if (!page) {
        for (auto& pages : s.pages) pages.resize(std::min(pages.size(), before));
        return tl::unexpected<error>(page.error());
      }
      s.pages[layer].push_back(std::move(*page));
    }
  }
  return {};
}

result<void> step_loop::stop(session_id id) {
  session* s = find(id);
  if (s == nullptr) return fail(error_code::not_found, "there is no session " + std::to_string(id));
  if (!s->answering)
    return fail(error_code::conflict, "session " + std::to_string(id) + " is not replying");
  finish(*s, stop_reason::stopped);
  return {};
}

result<void> step_loop::close(session_id id, const std::string& by) {
  session* s = find(id);
  if (s == nullptr) return fail(error_code::not_found, "there is no session " + std::to_string(id));
  s->keep = false;
  if (s->answering) {
    s->answering->summary.closed_by = by;
    finish(*s, stop_reason::closed);
  } else {
    close_now(*s);
  }
  return {};
}

void step_loop::close_now(session& s) {
  pages_version_++;
  slots_[s.slot] = false;
  const auto held = std::find_if(sessions_.begin(), sessions_.end(),
                                 [&](const auto& h) { return h.get() == &s; });
  if (options_.on_session) options_.on_session(session_change::closed, s.id, s.owner);
  ended_.push_back(std::move(*held));
  sessions_.erase(held);
  let_go_of_devices();
}

bool step_loop::is_replying() const {
  return std::ranges::any_of(sessions_, [](const auto& s) { return s->answering.has_value(); });
}

void step_loop::add_kv_of(std::uint32_t layer, part_status& to) const {
  const std::uint64_t bytes = rooms_[0]->pages.page_bytes();
  for (const auto& s : sessions_) {
    for (std::size_t p = 0; p < s->pages[layer].size(); p++) {
      if (s->pages[layer][p]->device() != to.device) {
        to.kv_elsewhere_bytes += bytes;
        continue;
      }
      to.kv_bytes += bytes;
      const bool blank =
          s->page_is_empty(p) || s->page_is_past(p, model_.config().attention_of(layer));
      if (blank) to.kv_blank_bytes += bytes;
    }
  }
}

std::vector<kv_share> step_loop::kv_of(const session& s) const {
  std::vector<kv_share> out(rooms_.size());
  const std::uint64_t bytes = rooms_[0]->pages.page_bytes();
  for (std::uint32_t layer = 0; layer < s.pages.size(); layer++) {
    const std::uint32_t home = placement().parts[model_.attention_part(layer)];
    for (std::size_t p = 0; p < s.pages[layer].size(); p++) {
      const std::uint32_t at = s.pages[layer][p]->device();
      kv_share& here = out[at];
      here.bytes += bytes;
      if (at != home) {
        here.away_bytes += bytes;
        out[home].elsewhere_bytes += bytes;
      }
      if (s.page_is_empty(p)) here.empty_bytes += bytes;
      if (!s.page_is_full(p))
        here.open_bytes += bytes;
      else if (s.page_is_past(p, model_.config().attention_of(layer)))
        here.past_bytes += bytes;
    }
  }
  return out;
}

engine_status step_loop::status() const {
  engine_status out;
  out.stranded = is_stranded();
  if (out.stranded) out.unplaced = unplaced_;
  out.revision = revision_;
  out.steps = steps_;
  out.tokens = tokens_;
  out.decode_tok_s = decode_tok_s_;
  out.decode_times = decode_times_;
  out.decode_before = decode_before_;
  for (part_index p = 0; p < parts_.size(); p++) {
    part_status part;
    part.device = placement().parts[p];
    for (const resident_block_ptr& b : parts_[p].blocks) part.weight_bytes += b->description->bytes;
    part.since = parts_[p].since;
    part.moved_at = parts_[p].moved_at;
    part.by = parts_[p].by;
    part.reason = parts_[p].reason;
    if (model_.parts()[p].kind == part_kind::attention) add_kv_of(model_.parts()[p].layer, part);
    out.parts.push_back(std::move(part));
  }
  const steady_time now = std::chrono::steady_clock::now();
  for (const auto& s : sessions_) {
    session_status one;
    one.id = s->id;
    one.owner = s->owner;
    one.context_tokens = static_cast<std::uint32_t>(s->tokens.size());
    one.created = s->created;
    one.kv = kv_of(*s);
    if (s->answering) {
      one.state = s->computed < s->answering->prompt_end ? session_state::prefill
                                                         : session_state::generating;
    } else {
      one.idle_s = ms_between(s->last_used, now) / 1000.0;
    }
    out.sessions.push_back(std::move(one));
  }
  return out;
}

}  // namespace terrane::engine

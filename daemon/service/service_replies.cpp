// The part of the service that speaks: replies, sessions, moves.
#include <algorithm>
#include <cstdio>
#include <mutex>

#include "daemon/journal/event.hpp"
#include "daemon/journal/log.hpp"
#include "daemon/service/admission.hpp"
#include "daemon/service/refusals.hpp"
#include "daemon/service/service.hpp"
#include "daemon/service/to_protocol.hpp"
#include "policies/explain/by_hand.hpp"

namespace terrane::daemon {

namespace {

std::int64_t count(std::uint64_t n) { return static_cast<std::int64_t>(n); }

std::string hex(std::uint64_t h) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h));
  return text;
}

// Passes a reply on to the client that asked for it.
class streaming final : public engine::reply_observer {
 public:
  explicit streaming(ipc::generate_stream to) : to_(std::move(to)) {}

  // The engine may give tokens before generate() has returned the session's number.
  void begin(engine::session_id session) {
    std::lock_guard lock(guard_);
    to_.started(count(session));
    begun_ = true;
    if (!early_.empty()) to_.text(early_);
    if (ended_) end(*ended_);
  }
  void on_token(const engine::token_event& token) override {
    std::lock_guard lock(guard_);
    if (token.text.empty()) return;
    if (begun_)
      to_.text(token.text);
    else
      early_ += token.text;
  }
  void on_end(const engine::reply_summary& summary) override {
    std::lock_guard lock(guard_);
    if (begun_)
      end(summary);
    else
      ended_ = summary;
  }

 private:
  void end(const engine::reply_summary& s) {
    if (!s.rest.empty()) to_.text(s.rest);
    if (s.failure) return to_.fail(refusal_of(*s.failure));
    ipc::generate_summary out;
    out.stop = to_protocol(s.reason);
    out.prompt_tokens = s.prompt_tokens;
    out.cached_tokens = s.cached_tokens;
    out.generated_tokens = s.generated_tokens;
    out.prefill_ms = s.prefill_ms;
    out.decode_ms = s.decode_ms;
    out.moves = s.moves;
    out.longest_pause_ms = s.longest_pause_ms;
    if (s.logits_hash != 0) out.logits_hash = hex(s.logits_hash);
    if (s.reason == engine::stop_reason::closed) out.closed_by = s.closed_by;
    to_.finish(out);
  }

  ipc::generate_stream to_;
  std::mutex guard_;
  bool begun_ = false;
  std::string early_;
  std::optional<engine::reply_summary> ended_;
};

engine::sampling_parameters sampling_of(engine::sampling_parameters p,
                                        const ipc::sampling_settings& s) {
  if (s.temperature) p.temperature = static_cast<float>(*s.temperature);
  if (s.top_k) p.top_k = static_cast<std::uint32_t>(*s.top_k);
  if (s.top_p) p.top_p = static_cast<float>(*s.top_p);
  if (s.min_p) p.min_p = static_cast<float>(*s.min_p);
  if (s.repetition_penalty) p.repetition_penalty = static_cast<float>(*s.repetition_penalty);
  if (s.repetition_window) p.repetition_window = static_cast<std::uint32_t>(*s.repetition_window);
  if (s.seed) p.seed = static_cast<std::uint64_t>(*s.seed);
  return p;
}

std::vector<engine::chat_message> conversation_of(const std::vector<ipc::chat_message>& messages) {
  std::vector<engine::chat_message> out;
  out.reserve(messages.size());
  for (const ipc::chat_message& m : messages) out.push_back({from_protocol(m.role), m.content});
  return out;
}

ipc::move_reply reply_of(const engine::move_status& s, std::uint64_t revision) {
  ipc::move_reply r;
  r.move = count(s.id);
  r.bytes_total = count(s.bytes_total);
  r.bytes_done = count(s.bytes_done);
  r.revision = count(revision);
  if (s.state == engine::move_state::committed) {
    r.state = ipc::move_state::committed;
    r.revision = count(s.revision);
    r.pause_ms = s.pause_ms;
    r.bytes_in_pause = count(s.bytes_in_pause);
  }
  return r;
}

bool over(const engine::move_status& s) {
  return s.state != engine::move_state::waiting && s.state != engine::move_state::preparing;
}

std::string user(const ipc::caller& who) { return "user " + std::to_string(who.uid); }

}  // namespace

result<std::vector<engine::token_id>> service::prompt_tokens(
    const ipc::generate_request& request) const {
  const engine::tokenizer& words = engine_->words();
  if (request.messages) {
    if (!chat_) return fail(error_code::unsupported, no_chat_);
    const std::vector<engine::chat_message> conversation = conversation_of(*request.messages);
    return request.session ? chat_->encode_next(words, conversation)
                           : chat_->encode(words, conversation);
  }
  result<std::vector<engine::token_id>> tokens =
      words.encode(*request.prompt, engine::special_text::as_text);
  if (tokens && !request.session)
    if (const auto first = words.leading_token()) tokens->insert(tokens->begin(), *first);
  return tokens;
}

void service::generate(const ipc::caller& who, ipc::generate_request request,
                       ipc::generate_stream to) {
  with_engine_on(
      admitting_, to,
      [this, who, request = std::move(request), to](engine::inference_engine& e,
                                                    control_loop& loop) {
        if (request.messages && !chat_) return to.fail(ipc::refuse::chat_unsupported(no_chat_));
        if (request.session) {
          const engine::engine_status status = e.status();
          const auto s =
              std::find_if(status.sessions.begin(), status.sessions.end(),
                           [&](const auto& one) { return count(one.id) == *request.session; });
          if (s == status.sessions.end())
            return to.fail(ipc::refuse::unknown_session(*request.session));
          if (!who.may_use(s->owner))
            return to.fail(ipc::refuse::not_your_session(*request.session));
        }
        result<std::vector<engine::token_id>> prompt = prompt_tokens(request);
        if (!prompt) return to.fail(refusal_of(prompt.error()));
        engine::generate_request r;
        r.session = static_cast<engine::session_id>(request.session.value_or(0));
        r.keep = request.keep.value_or(false);
        r.owner = who.uid;
        r.prompt = std::move(*prompt);
        const auto stops = e.words().stop_tokens();
        r.stop_tokens.assign(stops.begin(), stops.end());
        r.stop_texts = request.stop.value_or(std::vector<std::string>{});
        r.max_tokens = static_cast<std::uint32_t>(std::min<std::int64_t>(
            request.max_tokens.value_or(config_.max_tokens), UINT32_MAX / 2));
        r.sampling =
            sampling_of(config_.sampling, request.sampling.value_or(ipc::sampling_settings{}));
        r.hash_logits = config_.hash_logits;
        if (const auto over = over_quota(e, loop, users_, r))
          return to.fail(ipc::refuse::quota_exceeded(over->policy, count(over->held_bytes),
                                                     count(over->quota_bytes), over->message));
        auto observer = std::make_shared<streaming>(to);
        result<engine::session_id> session = e.generate(std::move(r), observer);
        if (!session) return to.fail(refusal_of(session.error()));
        // A client that goes away ends its reply, and its pages return.
        to.on_cancel([this, id = *session] { worker_.add([this, id] { engine_->close(id); }); });
        observer->begin(*session);
      });
}

void service::stop_generate(const ipc::caller& who, std::int64_t session,
                            ipc::answer<ipc::nothing> to) {
  with_own_session(who, session, to,
                   [to](engine::inference_engine& e, const engine::session_status& s) {
                     result<void> ok = e.stop(s.id);
                     if (ok) return to.finish({});
                     if (ok.error().code == error_code::not_found)  // it ended just now
                       return to.fail(ipc::refuse::unknown_session(count(s.id)));
                     to.fail(refusal_of(ok.error()));
                   });
}

void service::close_session(const ipc::caller& who, std::int64_t session,
                            ipc::answer<ipc::nothing> to) {
  with_own_session(who, session, to,
                   [who, to](engine::inference_engine& e, const engine::session_status& s) {
                     result<void> ok = e.close(s.id, user(who));
                     if (ok) return to.finish({});
                     if (ok.error().code == error_code::not_found)  // it ended just now
                       return to.fail(ipc::refuse::unknown_session(count(s.id)));
                     to.fail(refusal_of(ok.error()));
                   });
}

void service::move(const ipc::caller& who, ipc::move_request request, ipc::move_stream to) {
  with_engine(to, [this, who, request = std::move(request), to](engine::inference_engine& e,
                                                                control_loop& loop) {
    engine::move_request r;
    r.by = user(who);
    r.reason = "asked for";
    r.claims = true;
    const auto device = usable_device(request.device);
    if (!device) return to.fail(device.error());
    const std::string& target = e.devices()[*device]->info().name;
    if (const auto yields = why_yields(target)) return to.fail(*yields);
    for (const std::string& name : request.parts) {
      const std::optional<engine::part_index> part = e.loaded_model().find_part(name);
      if (!part) return to.fail(ipc::refuse::unknown_part(name, part_names()));
      r.parts.push_back({*part, *device});
    }
    if (request.revision && *request.revision != count(e.revision()))
      return to.fail(ipc::refuse::stale_revision(*request.revision, count(e.revision())));
    const control_loop::moment m = loop.this_moment();
    std::vector<std::string> notes =
        policies::notes_on_move(*loop.policies(), m.seen, m.memory, request.parts, target);
    result<engine::move_id> id = e.move(
        std::move(r), [this, &e, to, notes = std::move(notes)](const engine::move_status& s) {
          if (!over(s)) return to.progress(reply_of(s, e.revision()));
          publish_move(s);
          if (s.state != engine::move_state::committed) return to.fail(refusal_of(*s.failure));
          ipc::move_reply done = reply_of(s, s.revision);
          done.notes = notes;
          to.finish(done);
        });
    if (!id) to.fail(refusal_of(id.error()));
  });
}

void service::publish_move(const engine::move_status& s) {
  if (s.nothing_moved) return;
  ipc::event e;
  e.time_unix_ms = unix_ms(s.ended);
  const bool done = s.state == engine::move_state::committed;
  e.kind = !done             ? ipc::event_kind::move_failed
           : !s.spill        ? ipc::event_kind::move_committed
           : s.spill->device ? ipc::event_kind::kv_spilled
                             : ipc::event_kind::kv_fetched;
  const std::string what = s.spill ? "the KV of session " + std::to_string(s.spill->session)
                           : s.parts.size() == 1 ? "1 part"
                                                 : std::to_string(s.parts.size()) + " parts";
  e.message = "move of " + what + " for " + s.by + ": " + engine::to_string(s.state) +
              (s.failure ? ", " + to_string(*s.failure) : "");
  std::string part, to;
  if (s.spill) e.session = count(s.spill->session);
  if (!s.parts.empty()) {
    part = engine_->loaded_model().parts()[s.parts.front().part].name;
    to = engine_->devices()[s.parts.front().device]->info().name;
    e.part = part;
    e.to = to;
  }
  e.bytes = count(s.bytes_done + s.bytes_in_pause);
  if (done) e.pause_ms = s.pause_ms;
  events_.publish(e);
  log(done ? log_level::info : log_level::warning, e.message,
      {{"TERRANE_PART", part}, {"TERRANE_TO", to}});
}

void service::cancel_move(const ipc::caller&, std::int64_t move, ipc::answer<ipc::nothing> to) {
  with_engine(to, [move, to](engine::inference_engine& e, control_loop&) {
    result<void> ok = e.cancel_move(static_cast<engine::move_id>(move));
    if (ok) return to.finish({});
    if (ok.error().code == error_code::not_found)
      to.fail(ipc::refuse::unknown_move(move));
    else
      to.fail(refusal_of(ok.error()));
  });
}

void service::move_kv(engine::spill_request spill, std::optional<std::int64_t> revision,
                      const std::string& by, const ipc::answer<ipc::kv_reply>& to) {
  if (revision && *revision != count(engine_->revision()))
    return to.fail(ipc::refuse::stale_revision(*revision, count(engine_->revision())));
  engine::move_request r;
  r.spill = spill;
  r.by = by;
  r.reason = "asked for";
  result<engine::move_id> id =
      engine_->move(std::move(r), [this, to](const engine::move_status& s) {
        if (!over(s)) return;
        publish_move(s);
        if (s.state == engine::move_state::committed)
          to.finish({count(s.bytes_done + s.bytes_in_pause), count(s.revision)});
        else
          to.fail(refusal_of(*s.failure));
      });
  if (!id) to.fail(refusal_of(id.error()));
}

void service::spill_kv(const ipc::caller& who, ipc::spill_kv_request request,
                       ipc::answer<ipc::kv_reply> to) {
  with_own_session(
      who, request.session, to,
      [this, who, request, to](engine::inference_engine&, const engine::session_status& s) {
        const std::string name = request.device.value_or("cpu");
        const auto device = usable_device(name);
        if (!device) return to.fail(device.error());
        if (const auto yields = why_yields(engine_->devices()[*device]->info().name))
          return to.fail(*yields);
        move_kv({s.id, static_cast<std::uint32_t>(request.keep_tokens.value_or(0)), *device},
                request.revision, user(who), to);
      });
}

void service::fetch_kv(const ipc::caller& who, ipc::fetch_kv_request request,
                       ipc::answer<ipc::kv_reply> to) {
  with_own_session(
      who, request.session, to,
      [this, who, request, to](engine::inference_engine& e, const engine::session_status& s) {
        for (std::size_t d = 0; d < s.kv.size(); d++)
          if (s.kv[d].elsewhere_bytes > 0)
            if (const auto yields = why_yields(e.devices()[d]->info().name))
              return to.fail(*yields);
        move_kv({s.id, 0, std::nullopt}, request.revision, user(who), to);
      });
}

}  // namespace terrane::daemon

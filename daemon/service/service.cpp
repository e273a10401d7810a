#include "daemon/service/service.hpp"

#include <algorithm>

#include <unistd.h>

#include "daemon/journal/event.hpp"
#include "daemon/journal/log.hpp"
#include "daemon/service/refusals.hpp"
#include "daemon/service/to_protocol.hpp"
#include "daemon/version.hpp"
#include "engine/gguf/file_type.hpp"
#include "policies/canary/canary.hpp"
#include "policies/pipeline/what_if.hpp"
#include "policies/trace/trace.hpp"

namespace terrane::daemon {

namespace {

std::int64_t count(std::uint64_t n) { return static_cast<std::int64_t>(n); }

}  // namespace

void service::set_ready(engine::inference_engine& engine, control_loop& loop,
                        std::vector<device_config> configured,
                        std::vector<engine::device_candidate> refused,
                        std::vector<engine::copy_path> paths) {
  engine_ = &engine;
  loop_ = &loop;
  configured_ = std::move(configured);
  refused_ = std::move(refused);
  paths_ = std::move(paths);
  result<engine::chat_format> chat = engine::chat_format::recognise(engine.words());
  if (chat)
    chat_.emplace(std::move(*chat));
  else
    no_chat_ = to_string(chat.error());
  state_ = ipc::daemon_state::ready;
}

void service::set_failed(const std::string& reason) {
  {
    std::lock_guard lock(reason_guard_);
    reason_ = reason;
  }
  state_ = ipc::daemon_state::failed;
}

std::optional<ipc::refusal> service::no_engine() const {
  const ipc::daemon_state state = state_;
  switch (state) {
    case ipc::daemon_state::ready:
      return std::nullopt;
    case ipc::daemon_state::starting:
      return ipc::refuse::not_ready(state, "the model is being loaded");
    case ipc::daemon_state::stopping:
      return ipc::refuse::shutting_down();
    case ipc::daemon_state::failed:
      break;
  }
  std::lock_guard lock(reason_guard_);
  return ipc::refuse::not_ready(state, reason_ + "; put that right and send SIGHUP to process " +
                                           std::to_string(getpid()) +
                                           ", or restart it after a change of its configuration");
}

tl::expected<std::uint32_t, ipc::refusal> service::usable_device(const std::string& name) const {
  for (std::uint32_t d = 0; d < engine_->devices().size(); d++) {
    const engine::device& device = *engine_->devices()[d];
    if (device.info().name != name && to_string(device.info().kind) != name) continue;
    if (const std::optional<error> why = device.lost())
      return tl::unexpected(ipc::refuse::device_unusable(device.info().name, why->message));
    return d;
  }
  for (const engine::device_candidate& c : refused_)
    if (c.info.name == name || to_string(c.info.kind) == name)
      return tl::unexpected(ipc::refuse::device_unusable(c.info.name, c.refused));
  std::vector<std::string> names;
  for (const engine::device* d : engine_->devices()) names.push_back(d->info().name);
  return tl::unexpected(ipc::refuse::unknown_device(name, names));
}

std::vector<std::string> service::part_names() const {
  std::vector<std::string> names;
  for (const engine::model_part& p : engine_->loaded_model().parts()) names.push_back(p.name);
  return names;
}

// ---- What is

void service::status(const ipc::caller& who, ipc::answer<ipc::status_reply> to) {
  ipc::status_reply r;
  r.version = version;
  r.state = state_;
  r.access = who.level;
  r.pid = getpid();
  r.uptime_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  r.warnings = warnings_.all();
  if (r.state == ipc::daemon_state::failed) {
    std::lock_guard lock(reason_guard_);
    r.reason = reason_;
  }
  if (r.state != ipc::daemon_state::ready) return to.finish(r);
  with_engine(to, [this, r, to](engine::inference_engine& e, control_loop& loop) mutable {
    const engine::engine_status s = e.status();
    const engine::model_config& c = e.loaded_model().config();
    ipc::model_info m;
    m.name = c.name;
    m.file = e.loaded_model().file().paths().front();
    m.architecture = c.architecture;
    m.format = engine::gguf::file_type_name(e.loaded_model().file().meta());
    if (m.format.empty()) m.format = c.quantization;
    m.layers = c.layers;
    m.context_tokens = e.options().context_tokens;
    m.weights_bytes = count(e.loaded_model().weight_bytes());
    if (chat_) m.chat_format = std::string(chat_->name());
    r.model = std::move(m);
    r.revision = count(s.revision);
    r.devices = count(e.devices().size());
    r.sessions = count(s.sessions.size());
    r.generating = std::count_if(s.sessions.begin(), s.sessions.end(), [](const auto& one) {
      return one.state != engine::session_state::idle;
    });
    r.moves = count(s.moves.size());
    r.decode_tok_s = s.decode_tok_s;
    if (s.unplaced) {
      r.state = ipc::daemon_state::failed;
      r.reason = "what was on a lost device has no place: " + to_string(*s.unplaced);
    }
    loop.look([&](const auto& set, const auto&, const auto&, const auto& past) {
      r.policies = count(set.rules().size());
      r.policy_revision = set.revision();
      const auto newest = past.recent(1);
      if (!newest.empty()) r.last_decision = count(newest.front()->id);
      return 0;
    });
    for (std::string& t : loop.troubles()) r.warnings.push_back(std::move(t));
    r.predictions = to_protocol(loop.forecasts());
    r.yields = yields();
    r.switched_off = loop.standing().disabled();
    to.finish(r);
  });
}

void service::devices(const ipc::caller&, ipc::answer<ipc::devices_reply> to) {
  with_engine(to, [this, to](engine::inference_engine& e, control_loop& loop) {
    const engine::engine_status s = e.status();
    ipc::devices_reply r;
    r.revision = count(s.revision);
    for (std::uint32_t d = 0; d < e.devices().size(); d++) {
      const engine::device& from = *e.devices()[d];
      ipc::device_info i;
      i.name = from.info().name;
      i.kind = to_protocol(from.info().kind);
      i.description = from.info().description;
      i.total_bytes = count(from.limit_bytes());
      i.weights_bytes = count(from.used_bytes(engine::memory_use::weights));
      i.kv_bytes = count(from.used_bytes(engine::memory_use::kv));
      i.scratch_bytes = count(from.used_bytes(engine::memory_use::scratch));
      i.staging_bytes = count(from.used_bytes(engine::memory_use::staging));
      i.reserve_bytes = count(configured_[d].reserve_bytes);
      loop.look([&](const auto&, const policies::snapshot& last, const auto&, const auto&) {
        if (d >= last.devices.size()) return 0;
        const policies::device_state& seen = last.devices[d];
        // Where a card has two drivers, what is not this device's is not all others'.
        const double others = seen.vram_others.present()
                                  ? seen.vram_others.value
                                  : seen.vram_used.value - seen.vram_ours.value;
        i.others_bytes = static_cast<std::int64_t>(std::max(0.0, others));
        if (seen.temp_c.present()) i.temperature_c = seen.temp_c.value;
        return 0;
      });
      i.free_bytes =
          std::max<std::int64_t>(0, i.total_bytes - count(from.used_bytes()) - i.others_bytes);
      i.parts = std::count_if(s.parts.begin(), s.parts.end(),
                              [&](const auto& p) { return p.device == d; });
      if (const std::optional<error> why = from.lost()) {
        i.state = ipc::device_state::lost;
        i.reason = why->message;
        i.free_bytes = 0;
      }
      r.devices.push_back(std::move(i));
    }
    for (const engine::device_candidate& c : refused_) {
      ipc::device_info i;
      i.name = c.info.name;
      i.kind = to_protocol(c.info.kind);
      i.description = c.info.description;
      i.state = ipc::device_state::refused;
      i.reason = c.refused;
      i.total_bytes = count(c.info.memory_bytes);
      r.devices.push_back(std::move(i));
    }
    for (const engine::copy_path& p : paths_) {
      const auto name = [&](std::uint32_t d) { return e.devices()[d]->info().name; };
      ipc::device_path path{name(p.from), name(p.to), to_protocol(p.way), std::nullopt};
      if (!p.no_direct.empty()) path.reason = p.no_direct;
      r.paths.push_back(std::move(path));
    }
    r.yields = yields();
    to.finish(r);
  });
}

ipc::part_placement service::placement_of(const engine::engine_status& status,
                                          engine::part_index part) const {
  const engine::part_status& from = status.parts[part];
  ipc::part_placement p;
  p.part = engine_->loaded_model().parts()[part].name;
  p.device = engine_->devices()[from.device]->info().name;
  if (from.moving_to) p.moving_to = engine_->devices()[*from.moving_to]->info().name;
  p.weights_bytes = count(from.weight_bytes);
  p.kv_bytes = count(from.kv_bytes);
  p.kv_elsewhere_bytes = count(from.kv_elsewhere_bytes);
  p.since_unix_ms = unix_ms(from.since);
  p.by = from.by;
  p.reason = from.reason;
  if (from.by.starts_with("policy ")) {
    p.decision =
        loop_->look([&](const auto&, const auto&, const auto&, const policies::journal& past) {
          const policies::decision_record* last = past.last_move_of(p.part);
          return last == nullptr ? std::nullopt : std::optional<std::int64_t>(count(last->id));
        });
  }
  return p;
}

void service::placement(const ipc::caller&, ipc::answer<ipc::placement_reply> to) {
  with_engine(to, [this, to](engine::inference_engine& e, control_loop&) {
    const engine::engine_status s = e.status();
    ipc::placement_reply r;
    r.revision = count(s.revision);
    for (engine::part_index p = 0; p < s.parts.size(); p++) r.parts.push_back(placement_of(s, p));
    to.finish(r);
  });
}

void service::telemetry(const ipc::caller&, ipc::answer<ipc::telemetry_reply> to) {
  with_engine(to, [to](engine::inference_engine&, control_loop& loop) {
    ipc::telemetry_reply r;
    loop.look([&](const auto&, const policies::snapshot& s, const auto&, const auto&) {
      r.snapshot = count(s.sequence);
      auto add = [&](const policies::object_ref& object, policies::scope scope,
                     const std::string& name) {
        for (const policies::metric_entry& m : policies::metrics()) {
          if (m.belongs_to != scope) continue;
          const policies::reading value = m.read(object);
          if (!value.present()) continue;
          r.readings.push_back({std::string(m.name), name, value.value, to_protocol(m.measured_in),
                                std::string(value.source.empty() ? "engine" : value.source),
                                static_cast<double>(s.time_ms - value.sampled_ms) / 1000.0,
                                value.stale(s.time_ms)});
        }
      };
      add({&s, nullptr, nullptr, nullptr}, policies::scope::host, "host");
      for (const auto& d : s.devices)
        add({&s, &d, nullptr, nullptr}, policies::scope::device, d.name);
      for (const auto& one : s.sessions)
        add({&s, nullptr, &one, nullptr}, policies::scope::session, one.id);
      for (const auto& one : s.tenants)
        add({&s, nullptr, nullptr, nullptr, &one}, policies::scope::tenant, one.name);
      return 0;
    });
    to.finish(r);
  });
}

void service::snapshot(const ipc::caller&, ipc::answer<ipc::snapshot_reply> to) {
  with_engine(to, [to](engine::inference_engine&, control_loop& loop) {
    const policies::policy_set_ptr set = loop.policies();
    const control_loop::moment m = loop.this_moment();
    policies::trace::writer writer;
    std::string text = writer.begin(*set, m.memory, loop.unix_ms(0));
    text += writer.tick(*set, m.seen, {});
    to.finish({count(m.seen.sequence), std::move(text)});
  });
}

void service::sessions(const ipc::caller& who, ipc::answer<ipc::sessions_reply> to) {
  with_engine(to, [who, to](engine::inference_engine& e, control_loop&) {
    ipc::sessions_reply r;
    for (const engine::session_status& s : e.status().sessions) {
      if (!who.may_use(s.owner)) continue;
      ipc::session_info i;
      i.id = count(s.id);
      i.owner_uid = s.owner;
      i.state = to_protocol(s.state);
      i.context_tokens = s.context_tokens;
      i.context_limit_tokens = e.options().context_tokens;
      for (std::size_t d = 0; d < s.kv.size(); d++) {
        const std::string& name = e.devices()[d]->info().name;
        if (s.kv[d].bytes != 0) i.kv.push_back({name, count(s.kv[d].bytes)});
        if (s.kv[d].empty_bytes != 0) i.kv_reserved.push_back({name, count(s.kv[d].empty_bytes)});
      }
      i.created_unix_ms = unix_ms(s.created);
      i.idle_s = s.idle_s;
      r.sessions.push_back(std::move(i));
    }
    to.finish(r);
  });
}

// ---- Policies

void service::policy_list(const ipc::caller&, ipc::answer<ipc::policy_list_reply> to) {
  with_engine(to, [this, to](engine::inference_engine&, control_loop& loop) {
    ipc::policy_list_reply r;
    loop.look([&](const policies::policy_set& set, const auto& last, const auto& state,
                  const auto&) {
      r.policy_revision = set.revision();
      const std::vector<policies::policy_status> all = policies::policy_statuses(set, last, state);
      for (const policies::rule& rule : set.asked()) {
        const bool yields = rule.name == policies::yield_policy;
        const bool promotes = rule.name == policies::promotion_policy;
        const bool built_in = yields || promotes;
        ipc::policy_info p;
        p.name = rule.name;
        p.source = built_in ? "built in" : policies::to_string(rule.where);
        p.language = rule.where.file.ends_with(".lua") ? ipc::policy_language::lua
                                                       : ipc::policy_language::yaml;
        p.mode = to_protocol(rule.mode);
        p.enabled = !loop.standing().is_disabled(rule.name);
        p.priority = rule.priority;
        for (const policies::policy_status& s : all)
          if (s.policy == rule.name)
            p.objects.push_back({s.object, s.state, to_protocol(s.conditions)});
        if (promotes && !last.promotes)
          p.objects.push_back({"host", "not wanted by the configuration", {}});
        if (!yields || !p.objects.empty()) r.policies.push_back(std::move(p));
      }
      return 0;
    });
    r.yields = yields();
    to.finish(r);
  });
}

void service::policy_lint(const ipc::caller&, ipc::policy_lint_request request,
                          ipc::answer<ipc::policy_lint_reply> to) {
  worker_.add([this, request = std::move(request), to] {
    auto set = policies::policy_set::from_sources({{request.file, request.content}});
    std::vector<policies::diagnostic> found = set ? (*set)->warnings() : set.error();
    if (set && state_ == ipc::daemon_state::ready)
      std::ranges::move(policies::canary::what_cannot_act(**set, loop_->this_moment().seen),
                        std::back_inserter(found));
    to.finish({set.has_value(), to_protocol(found)});
  });
}

void service::plan(const ipc::caller&, ipc::plan_request request, ipc::answer<ipc::plan_reply> to) {
  with_engine(to, [this, request = std::move(request), to](engine::inference_engine& e,
                                                           control_loop& loop) {
    policies::policy_set_ptr set = loop.policies();
    if (request.content) {
      auto tried = policies::policy_set::from_sources({{*request.file, *request.content}});
      if (!tried) {
        return to.fail(
            ipc::refuse::policy_invalid(to_protocol(tried.error()), "nothing was tried"));
      }
      set = *tried;
    }
    auto [now, state] = loop.this_moment();  // copies, so that nothing is changed
    for (const ipc::assumption& a : request.assume.value_or(std::vector<ipc::assumption>{}))
      if (std::string fault = policies::assume(now, {a.metric, a.object, a.value}); !fault.empty())
        return to.fail(ipc::refuse::invalid_parameter("assume", fault));
    ipc::plan_reply r;
    r.revision = count(e.revision());
    for (const policies::decision_record& record :
         policies::evaluate_as_if_held(*set, now, state).records)
      r.decisions.push_back(describe(record));
    r.predictions = to_protocol(loop.forecasts());
    to.finish(r);
  });
}

void service::explain(const ipc::caller&, std::int64_t decision,
                      ipc::answer<ipc::explain_reply> to) {
  with_engine(to, [this, decision, to](engine::inference_engine&, control_loop& loop) {
    std::int64_t newest = 0, oldest = 0;
    const auto found =
        loop.look([&](const auto&, const auto&, const auto&, const policies::journal& past) {
          const auto all = past.recent(1U << 20);
          if (!all.empty()) newest = count(all.front()->id), oldest = count(all.back()->id);
          const policies::decision_record* r = past.find(static_cast<std::uint64_t>(decision));
          return r == nullptr ? std::nullopt : std::optional(*r);
        });
    if (!found) return to.fail(ipc::refuse::unknown_decision(decision, oldest, newest));
    to.finish({describe(*found)});
  });
}

void service::why(const ipc::caller&, std::string part, ipc::answer<ipc::why_reply> to) {
  with_engine(to,
              [this, part = std::move(part), to](engine::inference_engine& e, control_loop& loop) {
                const std::optional<engine::part_index> index = e.loaded_model().find_part(part);
                if (!index) return to.fail(ipc::refuse::unknown_part(part, part_names()));
                ipc::why_reply r;
                r.placement = placement_of(e.status(), *index);
                std::optional<policies::decision_record> moved, left;
                loop.look([&](const auto& set, const auto& last, const auto& state,
                              const policies::journal& past) {
                  r.text = policies::why_text(part, set, last, state, past);
                  if (const auto* d = past.last_move_of(part)) moved = *d;
                  if (const auto* d = past.last_refusal_of(part)) left = *d;
                  return 0;
                });
                if (moved) r.decision = describe(*moved);
                if (left) r.last_left = describe(*left);
                to.finish(r);
              });
}

ipc::decision_info service::describe(const policies::decision_record& from) const {
  ipc::decision_info d = to_protocol(from);
  d.time_unix_ms = loop_->unix_ms(from.time_ms);
  for (std::size_t i = 0; i < from.moves.size(); i++) {
    ipc::action_info& a = d.actions[i];
    if (from.moves[i].id == 0) continue;
    a.outcome = ipc::action_outcome::running;
    const std::optional<move_result> r = loop_->result_of(from.moves[i].id);
    if (!r) continue;
    a.outcome = r->state == engine::move_state::committed   ? ipc::action_outcome::done
                : r->state == engine::move_state::cancelled ? ipc::action_outcome::cancelled
                                                            : ipc::action_outcome::failed;
    if (!r->detail.empty()) a.detail = r->detail;
    if (a.outcome != ipc::action_outcome::done) continue;
    a.pause_ms = r->pause_ms;
    a.took_ms = r->took_ms;
    a.moved_bytes = count(r->bytes);
    if (r->token_ms > 0) a.token_ms = r->token_ms;
  }
  return d;
}

}  // namespace terrane::daemon

#include <algorithm>

#include "policies/explain/explain.hpp"
#include "policies/explain/json.hpp"
#include "policies/explain/sentences.hpp"
#include "policies/planner/objects.hpp"
#include "policies/planner/propose.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

std::string phase_text(const rule& r, const policy_memory& memory, const latch_state& latch,
                       const snapshot& now) {
  if (memory.retry_ms != reading::never && now.time_ms < memory.retry_ms) return "backing off";
  if (latch.settling()) return "settling";
  if (latch.stale) return "stale";
  if (latch.retry_ms != reading::never && now.time_ms < latch.retry_ms) {
    return std::string(latch.phase == latch_phase::engaged ? "engaged" : "idle") +
           ", looks again in " + format_duration(latch.retry_ms - now.time_ms);
  }
  if (latch.phase == latch_phase::engaged) return "engaged";
  const bool cooling = latch.planned_ms != reading::never &&
                       now.time_ms - latch.planned_ms < cooldown_ms(latch, r, now.time_ms);
  if (cooling) return "cooling down";
  const bool met = std::ranges::any_of(latch.enter.term_since_ms,
                                       [](std::int64_t since) { return since != reading::never; });
  return met ? "holding" : "idle";
}

policy_status status_of(const rule& r, const policy_memory& memory, const latch_state& latch,
                        const object_ref& object) {
  policy_status s;
  s.policy = r.name;
  s.object = object_name(object);
  s.mode = r.mode;
  s.engaged = latch.phase == latch_phase::engaged;
  s.state = phase_text(r, memory, latch, *object.now);
  s.conditions =
      s.engaged ? describe(r.leave, latch.leave, object) : describe(r.enter, latch.enter, object);
  s.where = r.where;
  return s;
}

void write_json(json_writer& out, const policy_status& s) {
  out.begin_object().field("policy", s.policy).field("object", s.object);
  out.field("mode", name_of(s.mode)).field("engaged", s.engaged).field("state", s.state);
  write_list(out, "conditions", s.conditions);
  out.key("where");
  terrane::policies::write_json(out, s.where);
  out.end_object();
}

// What is asked about.
struct question {
  const part_state* part = nullptr;
  const session_state* session = nullptr;
  const holding* held = nullptr;
};

question find_subject(const std::string& subject, const snapshot& now,
                      const pipeline_state& state) {
  question q;
  q.part = find_part(now, subject);
  if (q.part == nullptr) q.session = find_session(now, subject);
  const subject_kind kind = q.part != nullptr ? subject_kind::part : subject_kind::session_kv;
  const auto at = state.held.find({kind, subject});
  if (at != state.held.end()) q.held = &at->second;
  return q;
}

void add_statuses(const rule& r, const snapshot& now, const pipeline_state& state,
                  std::vector<policy_status>& to) {
  static const policy_memory none;
  const auto memory = std::ranges::find(state.policies, r.name, &policy_memory::policy);
  const policy_memory& known = memory != state.policies.end() ? *memory : none;
  for_each_object(r, now, [&](const object_ref& object) {
    const auto at = std::ranges::find(known.latches, object_name(object), &object_latch::object);
    const latch_state idle;
    to.push_back(status_of(r, known, at != known.latches.end() ? at->latch : idle, object));
  });
}

// Whether a policy judged for that object may move the subject.
bool concerns(const policy_status& s, const question& q, const snapshot& now) {
  if (s.policy == promotion_policy) return q.part != nullptr;
  if (q.held != nullptr && std::ranges::any_of(q.held->by, [&](const hold& h) {
        return h.policy == s.policy && h.object == s.object;
      })) {
    return true;
  }
  if (q.part != nullptr) {
    const device_state* cpu = find_cpu(now);
    const bool on_cpu = cpu != nullptr && q.part->device == cpu->name;
    return s.object == q.part->device || s.object == q.part->name || (s.object == "host" && on_cpu);
  }
  return s.object == q.session->id ||
         std::ranges::any_of(q.session->kv, [&](const kv_residency& r) {
           return r.device == s.object && r.bytes > 0;
         });
}

std::vector<policy_status> concerned(const question& q, const policy_set& policies,
                                     const snapshot& now, const pipeline_state& state) {
  std::vector<policy_status> all = policy_statuses(policies, now, state);
  std::erase_if(all, [&](const policy_status& s) { return !concerns(s, q, now); });
  return all;
}

std::string where_it_is(const question& q, const snapshot& now) {
  if (q.session != nullptr) {
    std::string text = "The KV of session " + q.session->id + " (" +
                       std::to_string(q.session->context_tokens) + " tokens) is on";
    for (const kv_residency& r : q.session->kv) {
      text += " " + r.device + " (" + format_bytes(r.bytes);
      if (r.empty_bytes > 0) text += ", " + format_bytes(r.empty_bytes) + " of it only reserved";
      text += ")";
    }
    return text + (q.session->kv.empty() ? " no device.\n" : ".\n");
  }
  const part_state& p = *q.part;
  std::string text = p.name + " is on " + p.device + " (weights " + format_bytes(p.weight_bytes) +
                     ", KV " + format_bytes(p.kv_bytes) + ")";
  if (p.moved_ms == reading::never) {
    text += "; it has been there since the model was loaded";
  } else {
    text += "; it came there by a move " + format_duration(now.time_ms - p.moved_ms) + " ago";
  }
  if (p.placed_by_user) text += "; a person put it there";
  if (p.placed_by_user && now.promotes) text += ", so promotion leaves it";
  if (p.pinned) text += "; it is pinned";
  if (!p.movable) text += "; it cannot be moved";
  return text + ".\n";
}

std::string held_text(const holding& held) {
  std::string text;
  const std::string home = held.home.empty() ? "beside its parts" : held.home;
  for (const hold& h : held.by) {
    text += "Policy '" + h.policy + "' (for " + h.object + ") ";
    text += h.releasing ? "has let it go home to " + home : "holds it away from its home, " + home;
    text += ".\n";
  }
  if (held.room_since_ms != reading::never) {
    text +=
        "There is room for it at home again; it goes when that has lasted as long as 'leave'.\n";
  } else if (held.blocked_by != filter::none) {
    text += "It is kept from going home: " + std::string(to_string(held.blocked_by)) + ".\n";
  }
  return text;
}

std::string past_text(const std::string& subject, const journal& past) {
  std::string text;
  if (const decision_record* r = past.last_move_of(subject)) {
    for (const planned_move& m : r->moves) {
      if (m.subject != subject) continue;
      text += "Last moved by decision " + std::to_string(r->id) + ": " + headline(*r) + "; " +
              sentence(m) + ".\n";
    }
  } else {
    text += "No policy has moved it.\n";
  }
  if (const decision_record* r = past.last_refusal_of(subject)) {
    for (const candidate& c : r->candidates) {
      if (c.subject != subject || c.removed_by == filter::none) continue;
      text += "Last considered and left by decision " + std::to_string(r->id) + ": " +
              headline(*r) + "; " + sentence(c) + ".\n";
      break;
    }
  }
  return text;
}

}  // namespace

std::vector<policy_status> policy_statuses(const policy_set& policies, const snapshot& now,
                                           const pipeline_state& state) {
  std::vector<policy_status> list;
  for (const rule& r : policies.rules()) add_statuses(r, now, state, list);
  // Of what every set does: promotion where it is wanted, and yield of devices that yield.
  for (const rule& r : policies.asked()) {
    if (now.promotes && r.name == promotion_policy) add_statuses(r, now, state, list);
    if (r.name != yield_policy) continue;
    std::vector<policy_status> yields;
    add_statuses(r, now, state, yields);
    for (policy_status& s : yields)
      if (s.engaged || find_yield(now, s.object) != nullptr) list.push_back(std::move(s));
  }
  return list;
}

std::string to_text(const policy_status& s) {
  std::string text = "Policy '" + s.policy + "' for " + s.object + ": " + s.state;
  if (s.mode == rule_mode::shadow) text += ", in shadow mode";
  text += s.engaged ? "; it releases when" : "; it acts when";
  std::string list;
  for (const condition_value& c : s.conditions) list += (list.empty() ? " " : "; ") + awaited(c);
  return text + list + ".";
}

std::string to_json(const policy_status& s) {
  json_writer out;
  write_json(out, s);
  return out.text();
}

std::string why_text(const std::string& subject, const policy_set& policies, const snapshot& now,
                     const pipeline_state& state, const journal& past) {
  const question q = find_subject(subject, now, state);
  if (q.part == nullptr && q.session == nullptr) {
    return "There is no part and no session '" + subject + "'.\n";
  }
  std::string text = where_it_is(q, now);
  if (q.held != nullptr) text += held_text(*q.held);
  text += past_text(subject, past);
  for (const policy_status& s : concerned(q, policies, now, state)) text += to_text(s) + "\n";
  return text;
}

std::string why_json(const std::string& subject, const policy_set& policies, const snapshot& now,
                     const pipeline_state& state, const journal& past) {
  const question q = find_subject(subject, now, state);
  json_writer out;
  out.begin_object().field("subject", subject);
  out.field("known", q.part != nullptr || q.session != nullptr);
  if (q.part != nullptr) {
    out.field("device", q.part->device).field("weight_bytes", q.part->weight_bytes);
    out.field("kv_bytes", q.part->kv_bytes).field("pinned", q.part->pinned);
    out.key("moved_ms");
    q.part->moved_ms == reading::never ? out.null() : out.value(q.part->moved_ms);
  }
  if (q.session != nullptr) {
    out.key("kv").begin_array();
    for (const kv_residency& r : q.session->kv) {
      out.begin_object().field("device", r.device).field("bytes", r.bytes);
      out.field("reserved_bytes", r.empty_bytes).end_object();
    }
    out.end_array();
  }
  out.key("held_by").begin_array();
  if (q.held != nullptr) {
    for (const hold& h : q.held->by) {
      out.begin_object().field("policy", h.policy).field("object", h.object);
      out.field("home", q.held->home).field("releasing", h.releasing);
      out.field("kept_away_by", to_string(q.held->blocked_by)).end_object();
    }
  }
  out.end_array();
  const auto decision_field = [&](std::string_view name, const decision_record* r) {
    out.key(name);
    r != nullptr ? write_json(out, *r) : void(out.null());
  };
  decision_field("last_move", past.last_move_of(subject));
  decision_field("last_refusal", past.last_refusal_of(subject));
  out.key("policies").begin_array();
  if (q.part != nullptr || q.session != nullptr) {
    for (const policy_status& s : concerned(q, policies, now, state)) write_json(out, s);
  }
  out.end_array().end_object();
  return out.text();
}

}  // namespace terrane::policies

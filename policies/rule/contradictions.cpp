#include "policies/rule/contradictions.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "policies/planner/ledger.hpp"
#include "policies/planner/objects.hpp"
#include "policies/planner/propose.hpp"
#include "policies/rule/value_set.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies {
namespace {

std::string in_quotes(std::string_view name) { return "'" + std::string(name) + "'"; }

std::string text_of(const term& t) {
  return in_quotes(metric(t.metric).name) + " " + limit_text(t);
}

// ---- Names: of devices and parts, with * and ?

// Whether any name is like both patterns.
bool can_name_the_same(std::string_view a, std::string_view b) {
  // reached[j]: what was read of `a` and the first j letters of `b` can stand for the same text.
  std::vector<bool> reached(b.size() + 1, false);
  reached[0] = true;
  for (std::size_t j = 0; j < b.size() && b[j] == '*'; ++j) reached[j + 1] = true;
  for (const char c : a) {
    std::vector<bool> next(b.size() + 1, false);
    next[0] = c == '*' && reached[0];
    for (std::size_t j = 0; j < b.size(); ++j) {
      const bool star = c == '*' || b[j] == '*';
      const bool same = c == b[j] || c == '?' || b[j] == '?';
      next[j + 1] = star ? reached[j + 1] || next[j] : same && reached[j];
    }
    reached = std::move(next);
  }
  return reached[b.size()];
}

struct place {
  std::string names;  // a pattern
  bool only_gpus = false;
};
using places = std::vector<place>;

bool meets(const place& a, const place& b) {
  const bool is_cpu = a.names == "cpu" || b.names == "cpu";
  return can_name_the_same(a.names, b.names) && !(is_cpu && (a.only_gpus || b.only_gpus));
}

// Whether all that b names on any machine a names too; where that is unclear, no.
bool covers(const place& a, const place& b) {
  const bool is_gpu = b.only_gpus || !can_name_the_same(b.names, "cpu");
  if (a.only_gpus && !is_gpu) return false;
  // b's * is taken for a letter, which a's * may stand for, and a's ? may not.
  const bool is_unclear = a.names.find('?') != std::string::npos;
  return a.names == b.names || (!is_unclear && matches_pattern(a.names, b.names));
}

bool covers(const places& a, const places& b) {
  return std::ranges::all_of(b, [&](const place& one) {
    return std::ranges::any_of(a, [&](const place& all) { return covers(all, one); });
  });
}

bool meet(const places& a, const places& b) {
  return std::ranges::any_of(a, [&](const place& one) {
    return std::ranges::any_of(b, [&](const place& other) { return meets(one, other); });
  });
}

enum class certainty { no, on_some_machines, yes };

// Whether something has a name of both. It does wherever there is anything of the names that one of
// two patterns has, if the other has them too; where each has names of its own, nothing may.
certainty share_names(const places& a, const places& b) {
  certainty found = certainty::no;
  for (const place& one : a) {
    for (const place& other : b) {
      if (!meets(one, other)) continue;
      if (covers(one, other) || covers(other, one)) return certainty::yes;
      found = certainty::on_some_machines;
    }
  }
  return found;
}

// The same of plain names; none are all.
certainty share_names(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  if (a.empty() || b.empty()) return certainty::yes;
  const auto named = [](const std::vector<std::string>& names) {
    places all;
    for (const std::string& name : names) all.push_back({name});
    return all;
  };
  return share_names(named(a), named(b));
}

// The devices that a rule is judged for; those of the host are the CPU's.
places objects_of(const rule& r) {
  if (r.for_each == scope::cpu || r.for_each == scope::host) return {{"cpu"}};
  const bool gpus = r.for_each == scope::gpu;
  if (r.only.empty()) return {{"*", gpus}};
  places all;
  for (const std::string& name : r.only) all.push_back({name, gpus});
  return all;
}

bool is_of_devices(const rule& r) {
  return is_device_scope(r.for_each) || r.for_each == scope::host;
}

certainty share_objects(const rule& a, const rule& b) {
  if (is_of_devices(a) && is_of_devices(b)) return share_names(objects_of(a), objects_of(b));
  return a.for_each == b.for_each ? share_names(a.only, b.only) : certainty::no;
}

places places_of(const std::vector<target_choice>& list, const rule& r) {
  places all;
  for (const target_choice& t : list) {
    switch (t.kind) {
      case target_kind::cpu:
        all.push_back({"cpu"});
        break;
      case target_kind::most_free_gpu:
        all.push_back({"*", true});
        break;
      case target_kind::itself:
        std::ranges::copy(objects_of(r), std::back_inserter(all));
        break;
      case target_kind::device:
        all.push_back({t.device});
        break;
      case target_kind::most_free:
      case target_kind::coolest:
        all.push_back({"*"});
        break;
    }
  }
  return all;
}

// The names that parts of a selection have.
std::string names_of_parts(const declarative_action& a) {
  if (a.action == verb::yield) return "*";
  switch (a.what) {
    case selection::parts:
      return "*";
    case selection::layers:
      return "layer.*";
    case selection::attention:
      return "layer.*.attn";
    case selection::feed_forward:
      return "layer.*.ffn";
    case selection::experts:
      return "layer.*.expert.*";
    case selection::head:
      return "head";
    case selection::embedding:
      return "embedding";
    case selection::pattern:
      return a.pattern;
  }
  return "*";
}

// ---- What a rule does

// From where to where a rule brings which parts.
struct course {
  std::vector<std::string> parts;  // empty: any
  places from;                     // empty: from wherever else they are
  places to;
  bool drains = false;  // it takes from the object that it is judged for
  bool fills = false;   // it brings to that object
};

const declarative_action* action_of(const rule& r) {
  return r.mode == rule_mode::enforce ? std::get_if<declarative_action>(&r.action) : nullptr;
}

std::optional<course> course_of(const rule& r) {
  const declarative_action* a = action_of(r);
  if (a == nullptr || (a->action != verb::move && a->action != verb::yield)) return std::nullopt;
  course c;
  c.to = places_of(a->to, r);
  if (a->to.empty()) c.to.push_back({"*"});
  if (r.for_each == scope::part) {
    c.parts = r.only;
    return c;
  }
  c.parts = {names_of_parts(*a)};
  c.drains = a->from.empty();
  c.from = c.drains ? objects_of(r) : places_of(a->from, r);
  c.fills = !c.drains && std::ranges::any_of(a->to, [](const target_choice& t) {
    return t.kind == target_kind::itself;
  });
  return c;
}

// Whether it goes elsewhere than it came from, whatever the machine.
bool is_definite(const course& c) { return c.from.empty() || !meet(c.from, c.to); }

// Whether a takes what was brought to these places.
certainty takes_from(const course& a, const places& brought) {
  if (a.from.empty()) return meet(a.to, brought) ? certainty::no : certainty::yes;
  if (!meet(a.from, brought)) return certainty::no;
  return covers(a.from, brought) ? certainty::yes : certainty::on_some_machines;
}

// Whether both bring parts of the same names; some parts every model has.
certainty share_parts(const course& a, const course& b) {
  const certainty found = share_names(a.parts, b.parts);
  if (found != certainty::on_some_machines) return found;
  const auto is_in = [](const char* part) {
    return [part](const std::string& pattern) { return matches_pattern(pattern, part); };
  };
  for (const char* part : {"embedding", "layer.0.attn", "layer.0.ffn", "head"})
    if (std::ranges::any_of(a.parts, is_in(part)) && std::ranges::any_of(b.parts, is_in(part)))
      return certainty::yes;
  return found;
}

// Whether one of them brings back what the other takes away.
certainty are_opposite(const rule& a, const rule& b) {
  const declarative_action* does_a = action_of(a);
  const declarative_action* does_b = action_of(b);
  if (does_a == nullptr || does_b == nullptr) return certainty::no;
  const auto are = [&](verb one, verb other) {
    return does_a->action == one && does_b->action == other;
  };
  if (are(verb::spill, verb::fetch) || are(verb::fetch, verb::spill)) return share_objects(a, b);
  const auto x = course_of(a), y = course_of(b);
  if (!x || !y) return certainty::no;
  certainty found = certainty::no;
  if ((x->drains && y->fills) || (x->fills && y->drains)) found = share_objects(a, b);
  if (is_definite(*x) && is_definite(*y))
    found = std::max(found, std::min(takes_from(*x, y->to), takes_from(*y, x->to)));
  return std::min(found, share_parts(*x, *y));
}

// ---- When a rule engages

// Terms that must all hold.
using all_terms = std::vector<const term*>;

// The ways in which a condition can hold.
std::vector<all_terms> ways(const condition& c) {
  std::vector<all_terms> list;
  if (c.how == combination::all_of) list.emplace_back();
  for (const term& t : c.terms) {
    if (c.how == combination::any_of) list.emplace_back();
    list.back().push_back(&t);
  }
  return list;
}

value_set values_of(const all_terms& terms, metric_id id) {
  value_set all = value_set::possible(id);
  for (const term* t : terms)
    if (t->metric == id) all = all.meet(value_set::of(*t));
  return all;
}

bool asks(const all_terms& terms, metric_id id) {
  return std::ranges::any_of(terms, [&](const term* t) { return t->metric == id; });
}

bool is_of_host(const term& t) { return metric(t.metric).belongs_to == scope::host; }

// Whether both rules read the same value of the metric, at least for one object.
bool reads_the_same(const rule& a, const rule& b, const term& t) {
  return is_of_host(t) || share_objects(a, b) != certainty::no;
}

// Whether there are objects for which both engage when they engage at the same readings.
certainty engage_on_same_objects(const rule& a, const rule& b) {
  const bool any = std::ranges::all_of(a.enter.terms, is_of_host);
  return any ? certainty::yes : share_objects(a, b);
}

// The comparisons that hold together whenever one of the two ways does, told; nothing when that is
// not certain: where each asks for something that the other does not, they may never meet.
std::string hold_together(const rule& a, const all_terms& x, const rule& b, const all_terms& y) {
  const auto is_common = [&](const term* t) {
    return asks(x, t->metric) && asks(y, t->metric) && reads_the_same(a, b, *t);
  };
  if (!std::ranges::all_of(x, is_common) && !std::ranges::all_of(y, is_common)) return {};
  std::string told;
  std::vector<std::string> seen;
  for (const all_terms* terms : {&x, &y}) {
    for (const term* t : *terms) {
      if (!is_common(t)) continue;
      if (values_of(x, t->metric).meet(values_of(y, t->metric)).empty()) return {};
      const std::string text = text_of(*t);
      if (std::ranges::find(seen, text) != seen.end()) continue;
      told += (told.empty() ? "" : " and ") + text;
      seen.push_back(text);
    }
  }
  return told;
}

std::string hold_together(const rule& a, const rule& b) {
  for (const all_terms& x : ways(a.enter)) {
    for (const all_terms& y : ways(b.enter)) {
      std::string told = hold_together(a, x, b, y);
      if (!told.empty()) return told;
    }
  }
  return {};
}

std::string named(const rule& r) { return in_quotes(r.name) + " (" + to_string(r.where) + ")"; }

void lint_opposites(const rule& a, const rule& b, std::vector<diagnostic>& faults) {
  if (a.priority != b.priority) return;
  const certainty opposite = are_opposite(a, b);
  if (opposite == certainty::no) return;
  const std::string together = hold_together(a, b);
  if (together.empty()) return;
  const certainty how = std::min(opposite, engage_on_same_objects(a, b));
  const bool is_certain = how == certainty::yes;
  faults.push_back(
      {is_certain ? severity::error : severity::warning, b.where,
       "policy " + in_quotes(b.name) + (is_certain ? " contradicts " : " may contradict ") +
           named(a) + ": " + (is_certain ? "" : "on some machines ") +
           "one brings back what the other takes away, and both engage at " + together +
           "; set the levels apart, or give the one that is to win a higher "
           "'priority'"});
}

// Where `fills` is to bring an object past the level down to which `relieves_it` keeps it.
void lint_levels(const rule& relieves_it, const rule& fills, const rule& told_at,
                 std::vector<diagnostic>& faults) {
  const auto x = course_of(relieves_it), y = course_of(fills);
  const certainty how = share_objects(relieves_it, fills);
  if (!x || !y || !x->drains || !y->fills || how == certainty::no) return;
  if (!relieves(relieves_it) || action_of(fills)->until != extent::leave) return;
  // Where any of several ends it, another may be reached.
  if (fills.leave.how == combination::any_of && fills.leave.terms.size() > 1) return;
  for (const term& kept : relieves_it.leave.terms) {
    for (const term& wanted : fills.leave.terms) {
      if (kept.metric != wanted.metric || metric(kept.metric).bytes_until == nullptr) continue;
      if (!value_set::of(kept).meet(value_set::of(wanted)).empty()) continue;
      const bool is_certain = how == certainty::yes;
      faults.push_back({is_certain ? severity::error : severity::warning, told_at.where,
                        std::string(is_certain ? "policy " : "on some machines policy ") +
                            named(fills) + " is to fill up to " + text_of(wanted) +
                            ", and nothing is put there past the 'leave' of " + named(relieves_it) +
                            ", " + text_of(kept) +
                            ", so it never gets there; move one of the levels"});
      return;
    }
  }
}

void lint_condition(const condition& c, std::string_view key, std::vector<diagnostic>& faults) {
  const std::vector<all_terms> all = ways(c);
  const bool only = all.size() == 1;
  for (const all_terms& way : all) {
    for (const term* last : way) {
      const all_terms others(way.begin(), std::ranges::find(way, last) + 1);
      if (!values_of(others, last->metric).empty()) continue;
      std::string told;
      for (const term* t : others)
        if (t->metric == last->metric)
          told += told.empty() ? text_of(*t) : " and " + limit_text(*t) + " at once";
      const std::string which =
          (only ? "" : "one of the conditions of ") + in_quotes(key) + " can never hold";
      faults.push_back({severity::error, last->where, which + ": no value is " + told});
      break;
    }
  }
}

}  // namespace

void lint_conditions(const rule& r, std::vector<diagnostic>& faults) {
  lint_condition(r.enter, "enter", faults);
  lint_condition(r.leave, "leave", faults);
  lint_condition(r.emergency, "emergency", faults);
}

void lint_contradictions(const std::vector<rule>& rules, std::vector<diagnostic>& faults) {
  for (std::size_t second = 1; second < rules.size(); ++second) {
    for (std::size_t first = 0; first < second; ++first) {
      const rule& a = rules[first];
      const rule& b = rules[second];
      const std::size_t before = faults.size();
      lint_opposites(a, b, faults);
      if (faults.size() > before) continue;
      lint_levels(a, b, b, faults);
      lint_levels(b, a, b, faults);
    }
  }
}

}  // namespace terrane::policies

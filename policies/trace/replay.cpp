#include <algorithm>
#include <charconv>

#include "policies/explain/explain.hpp"
#include "policies/explain/json_writer.hpp"
#include "policies/trace/codec.hpp"
#include "policies/trace/trace.hpp"

namespace terrane::policies::trace {
namespace {

constexpr std::size_t most_details = 100;
constexpr std::size_t longest_line = 64u << 20;

// Reads the sections that a line has into the snapshot; the others stay.
class section_reader {
 public:
  section_reader(const json_value& line, std::int64_t now_ms) : line_(line), decoder_(now_ms) {}

  template <class T>
  void operator()(std::string_view name, T& x) {
    if (const json_value* value = line_.find(name)) decoder_.read(*value, x);
  }
  const std::string& fault() const { return decoder_.fault(); }

 private:
  const json_value& line_;
  decoder decoder_;
};

// Keeps what a line left out as old as it was in the line before.
struct ager {
  std::int64_t by_ms;

  void operator()(std::string_view, reading& r) const {
    if (r.present()) r.sampled_ms += by_ms;
  }
  template <class T>
  void operator()(std::string_view, const T&) const {}
};

void age_readings(snapshot& s, std::int64_t by_ms) {
  ager v{by_ms};
  fields(v, s.host);
  for (device_state& d : s.devices) fields(v, d);
}

// What the machine would look like had the moves of other policies been made instead: where parts
// are, what devices hold, which moves have ended.
class other_course {
 public:
  snapshot seen(snapshot s) {
    s.moving.clear();
    s.completed.clear();
    for (part_state& p : s.parts) {
      const auto [at, is_new] = places_.try_emplace(p.name, place{p.device, p.moved_ms});
      if (at->second.device != p.device) shift(s, p, at->second.device);
      p.device = at->second.device;
      p.moved_ms = at->second.moved_ms;
    }
    for (const planned_move& m : planned_) {
      s.completed.push_back({m.id, m.kind, m.subject, m.from, m.to, s.time_ms, move_outcome::done,
                             "", m.predicted_ms, m.predicted_pause_ms});
      part_state* p = nullptr;
      for (part_state& one : s.parts) {
        if (m.kind == subject_kind::part && one.name == m.subject) p = &one;
      }
      if (p == nullptr) continue;
      shift(s, *p, m.to);
      p->device = m.to;
      p->moved_ms = s.time_ms;
      places_[m.subject] = {m.to, s.time_ms};
    }
    planned_.clear();
    return s;
  }
  void plan(const decision& d) { planned_ = d.planned.moves; }

 private:
  struct place {
    std::string device;
    std::int64_t moved_ms = reading::never;
  };

  static void shift(snapshot& s, const part_state& p, const std::string& to) {
    const auto bytes = static_cast<double>(p.weight_bytes + p.kv_bytes);
    for (device_state& d : s.devices) {
      const double change = d.name == to ? bytes : d.name == p.device ? -bytes : 0;
      d.vram_used.value += change;
      d.vram_ours.value += change;
      if (d.vram_free.present()) d.vram_free.value -= change;
    }
  }

  std::map<std::string, place> places_;
  std::vector<planned_move> planned_;
};

class replayer {
 public:
  replayer(policy_set_ptr others, const tick_observer& seen)
      : others_(std::move(others)), seen_(seen) {}

  replay_report run(std::istream& in) {
    std::string line;
    std::size_t number = 0;
    while (std::getline(in, line)) {
      ++number;
      const bool whole = !in.eof();
      if (line.size() > longest_line) return end(number, "the line is too long");
      if (line.empty()) continue;
      std::string fault = take(line, number);
      if (!fault.empty()) {
        return end(number,
                   whole ? std::move(fault) : "the trace ends in the middle of a line: " + fault);
      }
    }
    if (!begun_ && !report_.fault) return end(number, "it is empty");
    return std::move(report_);
  }

 private:
  replay_report end(std::size_t line, std::string message) {
    report_.fault = trace_fault{line, std::move(message)};
    return std::move(report_);
  }

  // What is wrong with the line, or nothing.
  std::string take(const std::string& line, std::size_t number) {
    const auto parsed = parse_json(line);
    if (!parsed) return parsed.error();
    if (const json_value* v = parsed->find("terrane_trace")) {
      if (v->text != std::to_string(version)) {
        return "it has version " + v->text + ", and this program knows " + std::to_string(version);
      }
      return begin(*parsed);
    }
    if (!begun_) return "it is no trace: the first line has no 'terrane_trace'";
    if (parsed->find("tick") != nullptr) return tick(*parsed, number);
    return use_policies(*parsed);
  }

  std::string begin(const json_value& line) {
    const json_value* state = line.find("state");
    if (state == nullptr) return "'state' is missing";
    decoder in(0);
    if (!begun_ || others_ == nullptr) in.read(*state, state_);
    if (!in.fault().empty()) return in.fault();
    begun_ = true;
    return use_policies(line);
  }

  std::string use_policies(const json_value& line) {
    const json_value* list = line.find("policies");
    if (list == nullptr) return "'policies' is missing";
    std::vector<policy_source> sources;
    for (const json_value& item : list->items) {
      const json_value* name = item.find("name");
      const json_value* text = item.find("text");
      if (name == nullptr || text == nullptr) return "a policy has no name or text";
      sources.push_back({name->text, text->text});
    }
    if (others_ != nullptr) return {};
    auto set = policy_set::from_sources(sources);
    if (!set) return "its policies cannot be used: " + to_string(set.error().front());
    own_ = *set;
    return {};
  }

  std::string tick(const json_value& line, std::size_t number) {
    const json_value* time = line.find("time_ms");
    if (time == nullptr) return "'time_ms' is missing";
    decoder in(0);
    std::int64_t time_ms = 0;
    in.read(*line.find("tick"), now_.sequence);
    in.read(*time, time_ms);
    if (!in.fault().empty()) return in.fault();
    age_readings(now_, time_ms - now_.time_ms);
    now_.time_ms = time_ms;
    section_reader sections(line, time_ms);
    fields(sections, now_);
    if (!sections.fault().empty()) return sections.fault();
    decide(line, number);
    return {};
  }

  void decide(const json_value& line, std::size_t number) {
    const policy_set& policies = others_ != nullptr ? *others_ : *own_;
    const snapshot seen = others_ != nullptr ? course_.seen(now_) : now_;
    pipeline_state before;
    if (seen_) before = state_;
    const decision d = evaluate(policies, seen, state_);
    if (seen_) seen_(policies, seen, before, d);
    if (others_ != nullptr) course_.plan(d);
    const json_value* recorded = line.find("decision");
    const bool decides =
        !d.records.empty() || !d.planned.moves.empty() || !d.planned.shadow.empty();
    const std::string replayed = decides ? plan_json(d) : "";
    const std::string was(recorded != nullptr ? recorded->written : std::string_view());
    ++report_.ticks;
    if (recorded != nullptr) ++report_.decisions;
    if (replayed == was) return;
    ++report_.differences;
    if (report_.first.size() >= most_details) return;
    std::string text;
    for (const decision_record& r : d.records) text += explain_text(r);
    report_.first.push_back({number, now_.sequence, now_.time_ms, was, replayed, text});
  }

  policy_set_ptr others_, own_;
  const tick_observer& seen_;
  bool begun_ = false;
  snapshot now_;
  pipeline_state state_;
  other_course course_;
  replay_report report_;
};

}  // namespace

replay_report replay(std::istream& in, policy_set_ptr others, const tick_observer& seen) {
  return replayer(std::move(others), seen).run(in);
}

std::string report_text(const replay_report& r) {
  std::string text =
      std::to_string(r.ticks) + " ticks, " + std::to_string(r.decisions) + " with decisions: ";
  text +=
      r.differences == 0 ? "all the same.\n" : std::to_string(r.differences) + " are different.\n";
  for (const difference& d : r.first) {
    text += "Snapshot " + std::to_string(d.sequence) + " (line " + std::to_string(d.line) + "): ";
    if (d.replayed.empty()) {
      text += "what was decided would not be.\n";
    } else {
      text += d.recorded.empty() ? "nothing was decided, and now it would be:\n"
                                 : "something else would be decided:\n";
      text += d.text;
    }
  }
  if (r.differences > r.first.size()) text += "And more that are not shown.\n";
  if (r.fault) {
    text += "The trace is damaged at line " + std::to_string(r.fault->line) + ": " +
            r.fault->message + "; what comes before was replayed.\n";
  }
  return text;
}

std::string report_json(const replay_report& r) {
  json_writer out;
  out.begin_object().field("ticks", r.ticks).field("decisions", r.decisions);
  out.field("differences", r.differences).key("first").begin_array();
  for (const difference& d : r.first) {
    out.begin_object().field("line", static_cast<std::uint64_t>(d.line));
    out.field("snapshot", d.sequence).field("time_ms", d.time_ms);
    out.field("recorded", d.recorded).field("replayed", d.replayed).field("text", d.text);
    out.end_object();
  }
  out.end_array().key("fault");
  if (r.fault) {
    out.begin_object().field("line", static_cast<std::uint64_t>(r.fault->line));
    out.field("message", r.fault->message).end_object();
  } else {
    out.null();
  }
  out.end_object();
  return out.text();
}

}  // namespace terrane::policies::trace

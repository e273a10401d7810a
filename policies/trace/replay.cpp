#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <tuple>

#include "policies/explain/explain.hpp"
#include "policies/explain/json.hpp"
#include "policies/explain/sentences.hpp"
#include "policies/trace/codec.hpp"
#include "policies/trace/other_course.hpp"
#include "policies/trace/trace.hpp"
#include "policies/vocabulary/table.hpp"

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

// The recorded moves, and those in shadow mode, in what explain needs of them.
std::vector<planned_move> moves_in(const json_value* decision, std::string_view list) {
  const json_value* moves = decision != nullptr ? decision->find(list) : nullptr;
  std::vector<planned_move> out;
  if (moves == nullptr) return out;
  for (const json_value& item : moves->items) {
    const auto text = [&](std::string_view name) {
      const json_value* v = item.find(name);
      return v != nullptr ? v->text : std::string();
    };
    const auto number = [&](std::string_view name) {
      std::uint64_t n = 0;
      const std::string digits = text(name);
      std::from_chars(digits.data(), digits.data() + digits.size(), n);
      return n;
    };
    planned_move& m = out.emplace_back();
    m.action = find_word(verbs(), text("action")).value_or(verb::move);
    m.kind =
        text("kind") == name_of(subject_kind::part) ? subject_kind::part : subject_kind::session_kv;
    m.subject = text("subject"), m.from = text("from"), m.to = text("to");
    m.bytes = number("bytes"), m.keep_tokens = number("keep_tokens");
    m.reason = text("reason"), m.policy = text("policy");
  }
  return out;
}

// What is the same whoever numbers decisions and wherever a policy's file lies.
bool same_moves(const std::vector<planned_move>& a, const std::vector<planned_move>& b) {
  const auto essence = [](const planned_move& m) {
    return std::tie(m.action, m.kind, m.subject, m.to, m.keep_tokens);
  };
  return std::ranges::equal(a, b, {}, essence, essence);
}

class replayer {
 public:
  replayer(policy_set_ptr others, const tick_observer& seen)
      : others_(std::move(others)), seen_(seen) {
    report_.with_others = others_ != nullptr;
  }

  replay_report run(std::istream& in) {
    std::string line;
    std::size_t number = 0;
    while (std::getline(in, line)) {
      ++number;
      const bool whole = !in.eof();
      if (line.size() > longest_line) return end(number, "the line is too long");
      if (line.empty()) continue;
      std::string fault = take(line, number);
      if (fault.empty()) continue;
      if (whole) return end(number, std::move(fault));
      return end(number, "the trace ends in the middle of a line: " + fault, true);
    }
    if (!begun_ && !report_.fault) return end(number, "it is empty");
    return std::move(report_);
  }

 private:
  replay_report end(std::size_t line, std::string message, bool cut = false) {
    report_.fault = trace_fault{line, std::move(message), cut};
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
    // Traces of before it was written have none.
    if (const json_value* offset = line.find("unix_offset_ms")) in.read(*offset, unix_offset_ms_);
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
    const snapshot seen = course_.begun() ? course_.seen(now_) : now_;
    pipeline_state before;
    if (seen_) before = state_;
    const std::uint64_t first_move = state_.next_move;
    const decision d = evaluate(policies, seen, state_);
    if (seen_) seen_(policies, seen, before, d);
    const json_value* recorded = line.find("decision");
    const std::vector<planned_move> moves = moves_in(recorded, "moves");
    ++report_.ticks;
    if (recorded != nullptr) ++report_.decisions;
    report_.moves_recorded += moves.size();
    report_.moves_replayed += d.planned.moves.size();
    const std::string replayed = decides(d) ? plan_json(d) : "";
    const std::string was(recorded != nullptr ? recorded->written : std::string_view());
    const bool same = others_ == nullptr
                          ? replayed == was
                          : same_moves(moves, d.planned.moves) &&
                                same_moves(moves_in(recorded, "shadow"), d.planned.shadow) &&
                                !faults(d);
    if (others_ != nullptr && !same && !course_.begun()) course_.begin(now_, first_move);
    if (course_.begun()) course_.plan(d.planned);
    if (!same) tell(number, was, replayed, moves, d);
  }

  static bool decides(const decision& d) {
    return !d.records.empty() || !d.planned.moves.empty() || !d.planned.shadow.empty();
  }
  static bool faults(const decision& d) {
    return std::ranges::any_of(
        d.records, [](const decision_record& r) { return r.event == decision_event::faulted; });
  }

  void tell(std::size_t number, const std::string& was, const std::string& replayed,
            const std::vector<planned_move>& moves, const decision& d) {
    ++report_.differences;
    if (report_.first.size() >= most_details) return;
    difference& told = report_.first.emplace_back();
    told.line = number;
    told.sequence = now_.sequence;
    told.time_ms = now_.time_ms;
    if (unix_offset_ms_ != 0) told.unix_ms = now_.time_ms + unix_offset_ms_;
    told.recorded = was;
    told.replayed = replayed;
    told.was = move_lines(moves, "  ");
    for (const decision_record& r : d.records) told.text += explain_text(r);
  }

  policy_set_ptr others_, own_;
  const tick_observer& seen_;
  bool begun_ = false;
  snapshot now_;
  pipeline_state state_;
  std::int64_t unix_offset_ms_ = 0;
  other_course course_;
  replay_report report_;
};

}  // namespace

replay_report replay(std::istream& in, policy_set_ptr others, const tick_observer& seen) {
  return replayer(std::move(others), seen).run(in);
}

namespace {

// "2026-11-30 03:00:12 UTC".
std::string time_text(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm parts{};
  std::array<char, 32> text{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "?";
  std::strftime(text.data(), text.size(), "%F %T UTC", &parts);
  return text.data();
}

std::string text_of(const difference& d, bool with_others) {
  std::string text = "Snapshot " + std::to_string(d.sequence) + ", line " + std::to_string(d.line);
  if (d.unix_ms != 0) text += ", " + time_text(d.unix_ms);
  if (with_others) {
    text += d.was.empty() ? ": nothing was moved. " : ":\n Was:\n" + d.was + " ";
    return text + (d.text.empty() ? "Now nothing would be decided.\n" : "Now:\n" + d.text);
  }
  if (d.replayed.empty()) return text + ": what was decided is not decided again:\n" + d.was;
  text += d.recorded.empty() ? ": nothing was decided, and now it is:\n"
                             : ": something else was decided:\n" + d.was + " and now:\n";
  return text + d.text;
}

}  // namespace

std::string report_text(const replay_report& r) {
  std::string text =
      std::to_string(r.ticks) + " ticks, " + std::to_string(r.decisions) + " with decisions: ";
  text +=
      r.differences == 0 ? "all the same.\n" : std::to_string(r.differences) + " are different.\n";
  if (r.with_others) {
    text += "Moves: " + std::to_string(r.moves_recorded) + " as recorded, " +
            std::to_string(r.moves_replayed) + " with these policies.\n";
  }
  for (const difference& d : r.first) text += text_of(d, r.with_others);
  if (r.differences > r.first.size()) text += "And more that are not shown.\n";
  if (r.fault) {
    text += (r.fault->line == 0 ? "" : "Line " + std::to_string(r.fault->line) + ": ") +
            r.fault->message + "; what comes before was replayed.\n";
  }
  return text;
}

std::string report_json(const replay_report& r) {
  json_writer out;
  out.begin_object().field("ticks", r.ticks).field("decisions", r.decisions);
  out.field("differences", r.differences).field("with_other_policies", r.with_others);
  out.field("moves_recorded", r.moves_recorded).field("moves_replayed", r.moves_replayed);
  out.key("first").begin_array();
  for (const difference& d : r.first) {
    out.begin_object().field("line", static_cast<std::uint64_t>(d.line));
    out.field("snapshot", d.sequence).field("time_ms", d.time_ms).key("unix_ms");
    d.unix_ms != 0 ? out.value(d.unix_ms) : out.null();
    out.field("recorded", d.recorded).field("replayed", d.replayed).field("text", d.text);
    out.end_object();
  }
  out.end_array().key("fault");
  if (r.fault) {
    out.begin_object().field("line", static_cast<std::uint64_t>(r.fault->line));
    out.field("message", r.fault->message).field("cut", r.fault->cut).end_object();
  } else {
    out.null();
  }
  out.end_object();
  return out.text();
}

}  // namespace terrane::policies::trace

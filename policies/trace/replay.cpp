#include <algorithm>
#include <array>
#include <charconv>
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
const std::string no_trace = "it is no trace: ";

// Reads the sections that a line has into the snapshot; the others stay.
class section_reader {
 public:
  section_reader(const json_value& line, std::int64_t now_ms, int written)
      : line_(line), decoder_(now_ms, written) {}

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
  template <class Field, class T>
  void later(const Field&, const T&) const {}
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

// Whether `now` has all that `then` has, in the same order and with the same values; fields that
// only `now` has were added since.
bool tells_all(const json_value& now, const json_value& then) {
  if (now.kind != then.kind || now.text != then.text || now.items.size() != then.items.size())
    return false;
  if (!std::ranges::equal(now.items, then.items, tells_all)) return false;
  return std::ranges::all_of(then.fields, [&](const auto& field) {
    const json_value* value = now.find(field.first);
    return value != nullptr && tells_all(*value, field.second);
  });
}

// What is the same whoever numbers decisions and wherever a policy's file lies.
bool same_moves(const std::vector<planned_move>& a, const std::vector<planned_move>& b) {
  const auto essence = [](const planned_move& m) {
    return std::tie(m.action, m.kind, m.subject, m.to, m.keep_tokens);
  };
  return std::ranges::equal(a, b, {}, essence, essence);
}

// Whether a line has the sections that every first one has, of whatever version.
bool tells_everything(const json_value& tick) {
  constexpr std::array<std::string_view, 4> always = {"host", "model", "devices", "parts"};
  return std::ranges::all_of(always, [&](std::string_view s) { return tick.find(s) != nullptr; });
}

enum class line_end { newline, end_of_file, too_long };

// The next line without its newline. What is longer than a line of a trace can be is not read.
line_end next_line(std::istream& in, std::string& line) {
  line.clear();
  std::streambuf& from = *in.rdbuf();
  for (int c = from.sbumpc(); c != std::char_traits<char>::eof(); c = from.sbumpc()) {
    if (c == '\n') return line_end::newline;
    if (line.size() == longest_line) return line_end::too_long;
    line.push_back(static_cast<char>(c));
  }
  return line_end::end_of_file;
}

bool is_header(std::string_view line) { return line.starts_with("{\"terrane_trace\":"); }

}  // namespace

class replayer::course {
 public:
  course(policy_set_ptr others, tick_observer seen)
      : others_(std::move(others)), seen_(std::move(seen)) {}

  replay_report run(std::istream& in) {
    report_ = {};
    report_.with_others = others_ != nullptr;
    begun_ = lost_ = false;
    std::string line;
    for (std::size_t number = 1;; ++number) {
      const line_end last = next_line(in, line);
      if (last == line_end::too_long)
        return end(number, begun_ ? "the line is longer than any that was recorded"
                                  : no_trace + "its first line is longer than any of one");
      const bool whole = last == line_end::newline;
      if (!line.empty()) {
        std::string fault = take(line, number);
        if (!fault.empty() && whole) return end(number, std::move(fault));
        if (!fault.empty() && !begun_ && !is_header(line)) return end(number, std::move(fault));
        if (!fault.empty())
          return end(number, "the trace ends in the middle of a line: " + fault, true);
      }
      if (!whole) break;
    }
    if (report_.ticks == 0 && report_.unknown.ticks > 0) return end_without_beginning();
    if (!begun_) return end(0, no_trace + "it is empty");
    return std::move(report_);
  }

 private:
  replay_report end(std::size_t line, std::string message, bool cut = false) {
    report_.fault = trace_fault{line, std::move(message), cut, !begun_ && !cut};
    return std::move(report_);
  }

  replay_report end_without_beginning() {
    const unknown_ticks& u = report_.unknown;
    return end(u.line, "its beginning is missing: tick " + std::to_string(u.sequence) +
                           " tells only what had changed since the one before, so nothing here can "
                           "be compared; a recording is replayed from its first line on, and so is "
                           "the next file of its folder");
  }

  // What is wrong with the line, or nothing.
  std::string take(const std::string& line, std::size_t number) {
    const auto parsed = parse_json(line);
    if (!parsed) return begun_ || is_header(line) ? parsed.error() : no_trace + parsed.error();
    if (const json_value* v = parsed->find("terrane_trace")) {
      const tl::expected<int, std::string> said = version_of(*v);
      if (!said) return said.error();
      written_ = *said;
      return begin(*parsed);
    }
    const bool is_tick = parsed->find("tick") != nullptr && parsed->find("time_ms") != nullptr;
    if (is_tick && (!begun_ || lost_ || (begins_ && !tells_everything(*parsed))))
      return pass_over(*parsed, number);
    if (!begun_) return no_trace + "the first line has no 'terrane_trace'";
    if (parsed->find("tick") != nullptr) return tick(*parsed, number);
    return use_policies(*parsed);
  }

  // A tick of which nothing is known but what changed in it, up to where a recording begins again.
  std::string pass_over(const json_value& line, std::size_t number) {
    lost_ = true;
    unknown_ticks& u = report_.unknown;
    if (u.ticks++ > 0) return {};
    u.line = number;
    decoder in(0);
    in.read(*line.find("tick"), u.sequence);
    return in.fault();
  }

  std::string begin(const json_value& line) {
    const json_value* state = line.find("state");
    if (state == nullptr) return "'state' is missing";
    decoder in(0, written_);
    pipeline_state recorded;
    in.read(*state, recorded);
    // Traces of before it was written have none.
    if (const json_value* offset = line.find("unix_offset_ms")) in.read(*offset, unix_offset_ms_);
    if (!in.fault().empty()) return in.fault();
    begins_ = true;
    lost_ = false;
    // Others go on from what they did, where the next tick tells that this follows.
    recorded_ = std::move(recorded);
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
    auto set = policy_set::as_recorded(sources);
    if (!set) return "its policies cannot be used: " + to_string(set.error().front());
    own_ = *set;
    return {};
  }

  std::string tick(const json_value& line, std::size_t number) {
    const json_value* time = line.find("time_ms");
    if (time == nullptr) return "'time_ms' is missing";
    decoder in(0);
    std::int64_t time_ms = 0;
    const std::uint64_t before = now_.sequence;
    in.read(*line.find("tick"), now_.sequence);
    in.read(*time, time_ms);
    if (!in.fault().empty()) return in.fault();
    if (std::string gap = follow(before, time_ms); !gap.empty()) return gap;
    age_readings(now_, time_ms - now_.time_ms);
    now_.time_ms = time_ms;
    section_reader sections(line, time_ms, written_);
    fields(sections, now_);
    if (!sections.fault().empty()) return sections.fault();
    decide(line, number);
    return {};
  }

  // Whether the tick is the one after the last; what is wrong otherwise. What a line leaves out is
  // as in the line before, so of lines that are missing nothing can be made up. A file that begins
  // elsewhere than the one before it ended begins with its own state.
  std::string follow(std::uint64_t before, std::int64_t time_ms) {
    const bool follows = now_.sequence == before + 1;
    if (std::exchange(begins_, false)) {
      const bool goes_on = others_ != nullptr && follows && before != 0;
      if (!goes_on) {
        state_ = std::move(recorded_);
        course_ = {};
      }
      report_.begins_anew = before != 0 && !follows;
      return {};
    }
    if (!follows)
      return "tick " + std::to_string(now_.sequence) + " comes after tick " +
             std::to_string(before) + ": lines are missing, or out of order";
    if (time_ms < now_.time_ms) return "its time is before that of the tick before";
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
                          ? same_text(was, recorded, replayed)
                          : same_moves(moves, d.planned.moves) &&
                                same_moves(moves_in(recorded, "shadow"), d.planned.shadow) &&
                                !faults(d);
    if (others_ != nullptr && !same && !course_.begun()) course_.begin(now_, first_move);
    if (course_.begun()) course_.plan(d.planned);
    if (!same) tell(number, was, replayed, moves, d);
  }

  // Bit for bit; of a trace of before what decisions tell was more, what it told.
  bool same_text(const std::string& was, const json_value* recorded,
                 const std::string& replayed) const {
    if (replayed == was || written_ == version) return replayed == was;
    const auto now = recorded != nullptr && !replayed.empty()
                         ? parse_json(replayed)
                         : tl::expected<json_value, std::string>(tl::unexpect, "");
    return now && tells_all(*now, *recorded);
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
  tick_observer seen_;
  int written_ = version;  // of the file that is read
  bool begun_ = false;
  bool begins_ = false;  // the next tick is the first of its file
  bool lost_ = false;    // the first tick of what is read now is missing
  pipeline_state recorded_;
  snapshot now_;
  pipeline_state state_;
  std::int64_t unix_offset_ms_ = 0;
  other_course course_;
  replay_report report_;
};

replayer::replayer(policy_set_ptr others, tick_observer seen)
    : course_(std::make_unique<course>(std::move(others), std::move(seen))) {}
replayer::~replayer() = default;

replay_report replayer::next(std::istream& in) { return course_->run(in); }

replay_report replay(std::istream& in, policy_set_ptr others, const tick_observer& seen) {
  return replayer(std::move(others), seen).next(in);
}

}  // namespace terrane::policies::trace

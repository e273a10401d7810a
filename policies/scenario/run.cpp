#include "policies/scenario/run.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include "policies/explain/explain.hpp"
#include "policies/explain/sentences.hpp"
#include "policies/pipeline/admission.hpp"
#include "policies/pipeline/evaluate.hpp"
#include "policies/scenario/move_text.hpp"
#include "policies/scenario/settings.hpp"
#include "policies/vocabulary/passage.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies::scenario {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t tick_ms = 1000;
// A test file is no larger than a policy file may be.
constexpr std::size_t max_test_bytes = max_policy_file_bytes;
// So many decisions are told with a mismatch, the last ones.
constexpr std::size_t most_told = 6;

// A planned move and when it was planned.
struct seen_move {
  std::int64_t at_ms = 0;
  std::string text;
};

std::string clock_text(std::int64_t ms) {
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

std::string indented(std::string_view text, std::string_view by) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    out += std::string(by) + std::string(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  return out.empty() || out.ends_with('\n') ? out : out + "\n";
}

// How many of each list's beginnings are alike: the table of the longest common subsequence.
std::vector<std::vector<std::size_t>> common_lengths(const std::vector<std::string>& a,
                                                     const std::vector<seen_move>& b) {
  std::vector<std::vector<std::size_t>> length(a.size() + 1,
                                               std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      length[i][j] = a[i] == b[j].text ? length[i + 1][j + 1] + 1
                                       : std::max(length[i + 1][j], length[i][j + 1]);
    }
  }
  return length;
}

// A move in a list of many is told no more.
constexpr std::size_t most_lines = 40;

// Both lists in one: what came as expected, what is missing, what came besides.
std::string compared(const std::vector<std::string>& expected, const std::vector<seen_move>& came) {
  const auto length = common_lengths(expected, came);
  const auto line = [](const std::string& mark, const std::string& move) {
    return "    " + mark + std::string(mark.size() < 12 ? 12 - mark.size() : 1, ' ') + move + "\n";
  };
  std::string text;
  std::size_t i = 0, j = 0;
  for (std::size_t lines = 0; i < expected.size() || j < came.size(); ++lines) {
    if (lines == most_lines) return text + line("...", "and more");
    const bool both = i < expected.size() && j < came.size();
    if (both && expected[i] == came[j].text) {
      text += line("at " + clock_text(came[j].at_ms), expected[i]);
      ++i, ++j;
    } else if (j == came.size() || (both && length[i + 1][j] >= length[i][j + 1])) {
      text += line("- missing", expected[i++]);
    } else {
      text += line("+ at " + clock_text(came[j].at_ms), came[j].text);
      ++j;
    }
  }
  return text;
}

// Values that take turns since a step.
struct shaken {
  const swing* of = nullptr;
  std::int64_t since_ms = 0;
};

// One run. Holds references for its short life.
class runner {
 public:
  runner(const script& what, report& into) : script_(what), report_(into), machine_(what.start) {}

  void run() {
    for (const step& s : script_.steps) run_step(s);
    report_.lasted_ms = now_ms_;
  }

 private:
  void run_step(const step& s);
  void change_machine(const step& s);
  void tick();
  void compare(const wanted_moves& wanted, const std::vector<seen_move>& came,
               const std::string& mode);
  void check_texts(const step& s);
  void check_places(const step& s);
  void check_admission(const step& s);
  void mismatched(const source_location& where, std::string text) {
    report_.mismatches.push_back({where, now_ms_, std::move(text)});
    unexplained_ = true;
  }
  bool is_said(const std::string& text) const;
  std::string nearest_said(const std::string& text) const;
  std::string since_text() const {
    return since_ms_ < 0 ? "up to " + clock_text(now_ms_)
                         : "after " + clock_text(since_ms_) + ", up to " + clock_text(now_ms_);
  }
  std::string why_so() const;

  const script& script_;
  report& report_;
  machine machine_;
  pipeline_state state_;
  journal past_;
  const snapshot* seen_ = nullptr;
  std::int64_t now_ms_ = -tick_ms;
  std::int64_t since_ms_ = -1;  // the step before
  std::vector<shaken> shaken_;
  std::vector<seen_move> moves_;
  std::vector<seen_move> shadow_;
  std::vector<std::string> decisions_;
  // What was left where it is, one by one: a decision tells what is alike together.
  std::vector<std::string> left_;
  bool unexplained_ = false;  // something of this step is not as expected
};

void runner::tick() {
  for (const shaken& s : shaken_) {
    const auto turn = static_cast<std::size_t>((now_ms_ - s.since_ms) / s.of->every_ms);
    s.of->turns[turn % s.of->turns.size()].apply(machine_, now_ms_);
  }
  seen_ = &machine_.at(now_ms_);
  const decision d = evaluate(*script_.policies, *seen_, state_);
  past_.add(d);
  machine_.carry_out(d.planned, now_ms_);
  for (const planned_move& m : d.planned.moves) moves_.push_back({now_ms_, move_text(m)});
  for (const planned_move& m : d.planned.shadow) shadow_.push_back({now_ms_, move_text(m)});
  for (const decision_record& r : d.records) {
    decisions_.push_back("At " + clock_text(now_ms_) + ": " + explain_text(r));
    for (const candidate& c : r.candidates)
      if (c.removed_by != filter::none) left_.push_back(sentence(c));
  }
}

void runner::change_machine(const step& s) {
  for (const change& c : s.changes) {
    std::erase_if(shaken_, [&](const shaken& one) { return one.of->turns[0].what == c.what; });
    c.apply(machine_, now_ms_);
  }
  for (const swing& one : s.swings) shaken_.push_back({&one, now_ms_});
}

void runner::run_step(const step& s) {
  moves_.clear();
  shadow_.clear();
  decisions_.clear();
  left_.clear();
  while (now_ms_ + tick_ms < s.at_ms) {
    now_ms_ += tick_ms;
    tick();
  }
  now_ms_ = s.at_ms;
  change_machine(s);
  tick();
  report_.moves += moves_.size();
  compare(s.moves, moves_, "");
  compare(s.shadow, shadow_, " in shadow mode");
  check_texts(s);
  check_places(s);
  check_admission(s);
  // Once for all that is not as this step expects.
  if (std::exchange(unexplained_, false)) report_.mismatches.back().text += why_so();
  since_ms_ = now_ms_;
}

// Why the policies did what they did since the last step, or what they wait for.
std::string runner::why_so() const {
  std::string text = "  Why:\n";
  if (decisions_.empty()) {
    text += "    No policy decided anything.\n";
    for (const policy_status& s : policy_statuses(*script_.policies, *seen_, state_)) {
      text += "    " + to_text(s) + "\n";
    }
    return text;
  }
  const std::size_t told = std::min(decisions_.size(), most_told);
  if (told < decisions_.size()) {
    text += "    " + std::to_string(decisions_.size() - told) + " decisions before these.\n";
  }
  for (std::size_t i = decisions_.size() - told; i < decisions_.size(); ++i) {
    text += indented(decisions_[i], "    ");
  }
  return text;
}

void runner::compare(const wanted_moves& wanted, const std::vector<seen_move>& came,
                     const std::string& mode) {
  if (wanted.counted()) {
    const bool enough = came.size() >= wanted.at_least.value_or(0);
    if (enough && came.size() <= wanted.at_most.value_or(came.size())) return;
    std::string text = since_text() + " there should be " +
                       (enough ? "at most " + std::to_string(*wanted.at_most)
                               : "at least " + std::to_string(*wanted.at_least)) +
                       " moves" + mode + ", and there were " + std::to_string(came.size()) + ":\n";
    return mismatched(wanted.where, text + compared({}, came));
  }
  const bool same = std::ranges::equal(wanted.exactly, came, {}, {}, &seen_move::text);
  if (same) return;
  std::string text = since_text() + " the moves" + mode + " are not those expected:\n";
  if (wanted.exactly.empty()) {
    text = since_text() + " there should be no moves" + mode + ", and there were:\n";
  } else if (came.empty()) {
    text = since_text() + " there were no moves" + mode + ", and there should be:\n";
  }
  mismatched(wanted.where, text + compared(wanted.exactly, came));
}

bool runner::is_said(const std::string& text) const {
  const auto says = [&](const std::string& d) { return d.find(text) != d.npos; };
  return std::ranges::any_of(decisions_, says) || std::ranges::any_of(left_, says);
}

// " The nearest is '...'." for a text that may be misspelt; empty where nothing is near.
std::string nearest_in(const std::string& text, const std::string& within) {
  const std::string_view near = nearest_passage(text, within);
  return near.empty() ? "" : " The nearest is '" + std::string(near) + "'.";
}

std::string runner::nearest_said(const std::string& text) const {
  std::string all;
  for (const std::string& d : decisions_) all += d;
  for (const std::string& l : left_) all += l + "\n";
  return nearest_in(text, all);
}

void runner::check_texts(const step& s) {
  for (const wanted_text& wanted : s.says) {
    if (is_said(wanted.text)) continue;
    mismatched(wanted.where, since_text() + " no decision says '" + wanted.text + "'." +
                                 nearest_said(wanted.text) + "\n");
  }
  for (const wanted_text& wanted : s.why) {
    const std::string text = why_text(wanted.about, *script_.policies, *seen_, state_, past_);
    if (text.find(wanted.text) != std::string::npos) continue;
    // Which tells why by itself.
    report_.mismatches.push_back({wanted.where, now_ms_,
                                  "at " + clock_text(now_ms_) + " the answer to why " +
                                      wanted.about + " does not say '" + wanted.text + "'." +
                                      nearest_in(wanted.text, text) + " It says:\n" +
                                      indented(text, "    ")});
  }
}

// "layer.5.ffn is on gpu: its move to cpu fails, the device has no room".
std::string place_of_part(machine& there, const std::string& name) {
  std::string text = name + " is on " + there.part(name).device;
  for (const completed_move& m : there.ended()) {
    if (m.subject == name && m.outcome == move_outcome::failed)
      text += ": its move to " + m.to + " fails, " + m.message;
  }
  return text;
}

void runner::check_places(const step& s) {
  if (s.placed.empty()) return;
  machine then = machine_.after_moves();
  for (const wanted_text& wanted : s.placed) {
    std::string elsewhere;
    for (const std::string& name : parts_like(then, wanted.about)) {
      if (then.part(name).device != wanted.text)
        elsewhere += "    " + place_of_part(then, name) + "\n";
    }
    if (elsewhere.empty()) continue;
    mismatched(wanted.where, "at " + clock_text(now_ms_) +
                                 ", once the moves planned by then have ended, " + wanted.about +
                                 " should be on " + wanted.text + ":\n" + elsewhere);
  }
}

void runner::check_admission(const step& s) {
  const auto answer = [&](const std::string& tenant) {
    const auto refused = refuse_admission(*script_.policies, *seen_, state_, {tenant, s.request});
    return refused ? refused->message : std::string();
  };
  for (const wanted_text& wanted : s.refused) {
    const std::string told = answer(wanted.about);
    if (!told.empty() && told.find(wanted.text) != std::string::npos) continue;
    mismatched(wanted.where, "at " + clock_text(now_ms_) + " a request of " + wanted.about +
                                 " should be refused, saying '" + wanted.text + "', and it is " +
                                 (told.empty() ? "admitted.\n" : "told:\n    " + told + "\n"));
  }
  for (const wanted_text& wanted : s.admitted) {
    const std::string told = answer(wanted.text);
    if (told.empty()) continue;
    mismatched(wanted.where, "at " + clock_text(now_ms_) + " a request of " + wanted.text +
                                 " should be admitted, and it is refused:\n    " + told + "\n");
  }
}

std::optional<std::string> read_text(const fs::path& file) {
  std::error_code fault;
  if (!fs::is_regular_file(file, fault)) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  std::string text(max_test_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad()) return std::nullopt;
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

}  // namespace

report run_script(const script& what) {
  report r;
  r.title = what.title;
  runner(what, r).run();
  return r;
}

report run_file(const fs::path& file) {
  report r;
  r.file = file.string();
  const auto refuse = [&](std::string why) {
    r.faults.push_back({severity::error, {r.file}, std::move(why)});
    return r;
  };
  const std::optional<std::string> text = read_text(file);
  if (!text) return refuse("cannot be read");
  if (file.extension() == ".lua") {
    r.faults.push_back(no_test(file, file.parent_path()));
    return r;
  }
  if (text->size() > max_test_bytes) {
    return refuse("is larger than " + std::to_string(max_test_bytes / 1024) +
                  " KiB, the most a test may be");
  }
  auto read = read_script(r.file, *text, file.parent_path());
  if (!read) {
    r.faults = std::move(read.error());
    return r;
  }
  r = run_script(*read);
  r.file = file.string();
  return r;
}

result<std::vector<fs::path>> find_tests(const fs::path& path) {
  std::error_code fault;
  if (!fs::exists(path, fault)) return fail({path.string()}, "does not exist");
  if (!fs::is_directory(path, fault)) return std::vector{path};
  std::vector<fs::path> tests;
  fs::recursive_directory_iterator at(path, fault), end;
  for (; !fault && at != end; at.increment(fault)) {
    if (at->path().filename().string().ends_with(test_ending)) tests.push_back(at->path());
  }
  if (fault) return fail({path.string()}, "cannot be read: " + fault.message());
  if (tests.empty()) {
    return fail({path.string()}, "holds no tests; they are called NAME" + std::string(test_ending));
  }
  std::ranges::sort(tests);
  return tests;
}

std::string to_text(const report& r) {
  std::string text = r.passed() ? "ok          " : r.ran() ? "FAILED      " : "cannot run  ";
  text += r.file;
  if (!r.title.empty()) text += ": " + r.title;
  if (r.passed()) {
    text += " (" + format_duration(r.lasted_ms) + ", " + std::to_string(r.moves) +
            (r.moves == 1 ? " move)" : " moves)");
  }
  text += "\n";
  for (const diagnostic& d : r.faults) text += "  " + to_string(d) + "\n";
  for (const mismatch& m : r.mismatches) {
    text += "  " + to_string(m.where) + ": " + m.text;
  }
  return text;
}

}  // namespace terrane::policies::scenario

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>

#include "ipc/terranectl/commands.hpp"
#include "ipc/terranectl/words.hpp"

namespace terrane::ipc::ctl {
namespace {

// The daemon takes a mebibyte per message; JSON makes the text a little longer.
constexpr std::size_t longest_policy_bytes = 512 * 1024;

std::string subject_of(const context& with, const decision_info& decision) {
  const std::string when = clock_text(decision.time_unix_ms);
  std::string text = decision.id > 0 ? "decision " + std::to_string(decision.id) : "a dry run";
  text += ", " + when + ", by " + decision.by;
  if (decision.mode == policy_mode::shadow) {
    text += " (shadow: it only says what it would do)";
  }
  if (decision.source && !decision.source->empty()) {
    text += ", " + *decision.source;
  }
  return with.paint(colour::title, printable(text));
}

void print_conditions(const context& with, const std::vector<condition_info>& conditions) {
  table rows({{"METRIC", align::left, true},
              {""},
              {"LIMIT", align::right},
              {"VALUE", align::right},
              {"AGE", align::right},
              {"MET FOR", align::right},
              {"NEEDED", align::right},
              {"VERDICT"}});
  for (const condition_info& one : conditions) {
    std::string verdict = boost::describe::enum_to_string(one.verdict, "");
    rows.add({one.metric, boost::describe::enum_to_string(one.side, ""),
              value_text(one.limit, one.unit) +
                  (one.upper ? "-" + value_text(*one.upper, one.unit) : ""),
              one.value ? value_text(*one.value, one.unit) : "-",
              one.age_s ? duration_text(*one.age_s) : "-", duration_text(one.met_for_s),
              duration_text(one.needed_s), verdict == "not_met" ? "not met" : verdict});
  }
  with.print(rows);
}

void print_candidates(const context& with, const std::vector<candidate_info>& candidates) {
  std::vector<std::string> all;
  for (const candidate_info& one : candidates) {
    all.push_back(one.to);
  }
  const device_names names(all);
  table rows({{"CONSIDERED"},
              {"TO"},
              {"BYTES", align::right},
              {"RULED OUT BY"},
              {"WHY", align::left, true}});
  for (const candidate_info& one : candidates) {
    rows.add({one.subject, names.brief(one.to), bytes_text(one.bytes), one.removed_by.value_or(""),
              one.detail});
  }
  with.print(rows);
}

// Actions in a row that differ in nothing but their subject: one line says it better than sixty.
struct alike_actions {
  std::span<const action_info> actions;

  std::string subject() const {
    const std::string& first = actions.front().subject;
    return actions.size() == 1
               ? first
               : std::to_string(actions.size()) + ": " + first + " to " + actions.back().subject;
  }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const action_info& one : actions) {
      sum += one.bytes;
    }
    return sum;
  }
  // Copies one after the other, and one pause for all.
  std::optional<double> predicted_ms() const {
    double copies = 0, pause = 0;
    for (const action_info& one : actions) {
      if (!one.predicted_ms) return std::nullopt;
      copies += *one.predicted_ms - one.predicted_pause_ms.value_or(0);
      pause = std::max(pause, one.predicted_pause_ms.value_or(0));
    }
    return copies + pause;
  }
  std::optional<std::int64_t> moved_bytes() const {
    std::int64_t sum = 0;
    for (const action_info& one : actions) {
      if (!one.moved_bytes) return std::nullopt;
      sum += *one.moved_bytes;
    }
    return sum;
  }
};

bool alike(const action_info& a, const action_info& b) {
  return a.verb == b.verb && a.from == b.from && a.to == b.to && a.outcome == b.outcome &&
         a.pause_ms == b.pause_ms && a.took_ms == b.took_ms && a.reason == b.reason &&
         a.detail == b.detail;
}

std::vector<alike_actions> join_alike(std::span<const action_info> actions) {
  std::vector<alike_actions> joined;
  for (std::size_t first = 0; first < actions.size();) {
    std::size_t last = first + 1;
    while (last < actions.size() && alike(actions[first], actions[last])) {
      ++last;
    }
    joined.push_back({actions.subspan(first, last - first)});
    first = last;
  }
  return joined;
}

// "pause 8.1 ms, predicted 9.0 ms"; empty when nothing was predicted.
std::string compared(const std::string& what, std::optional<double> measured,
                     std::optional<double> predicted) {
  if (!predicted) {
    return {};
  }
  return what + (measured ? " " + ms_text(*measured) + ", predicted " : " is predicted to be ") +
         ms_text(*predicted);
}

void print_actions(const context& with, const std::vector<action_info>& actions) {
  std::vector<std::string> all;
  for (const action_info& one : actions) {
    all.push_back(one.from);
    all.push_back(one.to);
  }
  const device_names names(all);
  table rows({{"ACTION"},
              {"WHAT"},
              {"FROM"},
              {"TO"},
              {"BYTES", align::right},
              {"OUTCOME"},
              {"PAUSE", align::right},
              {"WHY", align::left, true}});
  for (const alike_actions& group : join_alike(actions)) {
    const action_info& one = group.actions.front();
    rows.add({boost::describe::enum_to_string(one.verb, ""), group.subject(), names.brief(one.from),
              names.brief(one.to), bytes_text(group.bytes()),
              boost::describe::enum_to_string(one.outcome, ""),
              one.pause_ms ? ms_text(*one.pause_ms) : "", one.detail.value_or(one.reason)});
  }
  with.print(rows);
  for (const alike_actions& group : join_alike(actions)) {
    const action_info& one = group.actions.front();
    const std::string pause = compared("pause", one.pause_ms, one.predicted_pause_ms);
    const std::string time = compared("time", one.took_ms, group.predicted_ms());
    const std::string token = compared("a token after it", one.token_ms, one.predicted_token_ms);
    std::string bytes;
    if (const std::optional<std::int64_t> moved = group.moved_bytes()) {
      bytes = "bytes " + bytes_text(*moved) + ", planned " + bytes_text(group.bytes());
    }
    if (bytes.empty() && pause.empty() && time.empty() && token.empty()) {
      continue;
    }
    with.out() << printable(group.subject()) << ":\n";
    for (const std::string& line : {bytes, pause, time, token}) {
      if (!line.empty()) with.out() << "  " << line << "\n";
    }
  }
}

// The sentences that the daemon made say all; without them, the tables do.
void print_decision(const context& with, const decision_info& decision) {
  with.out() << subject_of(with, decision) << "\n";
  if (!decision.text.empty()) {
    with.out() << printable(decision.text) << (decision.text.ends_with('\n') ? "" : "\n");
  } else {
    if (!decision.conditions.empty()) {
      print_conditions(with, decision.conditions);
    }
    if (!decision.candidates.empty()) {
      print_candidates(with, decision.candidates);
    }
    for (const std::string& note : decision.notes) {
      with.out() << printable(note) << "\n";
    }
  }
  if (!decision.actions.empty()) {
    with.out() << "\n";
    print_actions(with, decision.actions);
  }
}

void print_diagnostics(const context& with, const std::vector<diagnostic>& diagnostics) {
  for (const diagnostic& one : diagnostics) {
    const bool bad = one.severity == diagnostic_severity::error;
    with.out() << printable(place_text(one.file, one.line, one.column)) << ": "
               << with.paint(bad ? colour::bad : colour::title, bad ? "error" : "warning") << ": "
               << printable(one.message) << "\n";
  }
}

std::optional<std::string> read_policy(const context& with, const std::string& file, int& code) {
  std::error_code wrong;
  if (std::filesystem::is_directory(file, wrong)) {
    code = with.fail(file + " is a folder; name the files in it");
    return std::nullopt;
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text(longest_policy_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.is_open() || stream.bad()) {
    code = with.fail("cannot read " + file);
    return std::nullopt;
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > longest_policy_bytes) {
    code = with.fail(file + " is longer than " +
                     bytes_text(static_cast<std::int64_t>(longest_policy_bytes)) +
                     ", the most a policy file may have");
    return std::nullopt;
  }
  return text;
}

}  // namespace

std::optional<assumption> parse_assumption(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  const std::size_t slash = text.rfind('/', equals);
  if (equals == std::string::npos || slash == std::string::npos) {
    return std::nullopt;
  }
  assumption parsed{text.substr(slash + 1, equals - slash - 1), text.substr(0, slash), 0};
  const char* last = text.data() + text.size();
  const auto [end, wrong] = std::from_chars(text.data() + equals + 1, last, parsed.value);
  const bool good = wrong == std::errc() && end == last && slash > 0 && !parsed.metric.empty() &&
                    std::isfinite(parsed.value);
  return good ? std::optional(parsed) : std::nullopt;
}

int refuse_assumption(const context& with, const std::string& text) {
  return with.fail("not an assumption: " + text +
                       "; write OBJECT/METRIC=NUMBER, such as "
                       "cpu/vram.used_ratio=0.95",
                   exit_usage);
}

int list_policies(const context& with) {
  return with.show<policy_list_reply>("PolicyList", {}, [&](const policy_list_reply& reply) {
    std::vector<std::string> all;
    for (const policy_info& one : reply.policies) {
      for (const policy_object& object : one.objects) {
        all.push_back(object.object);
      }
    }
    const device_names names(all);
    table rows({{"POLICY"},
                {"MODE"},
                {"PRIORITY", align::right},
                {"FOR"},
                {"STATE"},
                {"FROM", align::left, true}});
    for (const policy_info& one : reply.policies) {
      const std::string mode = boost::describe::enum_to_string(one.mode, "");
      if (one.objects.empty()) {
        rows.add({one.name, mode, std::to_string(one.priority), "-",
                  one.enabled ? "nothing to judge" : "off", one.source});
      }
      for (const policy_object& object : one.objects) {
        rows.add({one.name, mode, std::to_string(one.priority), names.brief(object.object),
                  one.enabled ? object.state : "off", one.source});
      }
    }
    if (rows.empty()) {
      with.out() << "No policies.\n";
    } else {
      with.print(rows);
    }
    print_yields(with, reply.yields, names);
    with.out() << with.paint(colour::dim, "revision " + reply.policy_revision) << "\n";
  });
}

int reload_policies(const context& with) {
  return with.show<policy_reload_reply>("PolicyReload", {}, [&](const policy_reload_reply& reply) {
    print_diagnostics(with, reply.diagnostics);
    with.out() << reply.policies << (reply.policies == 1 ? " policy" : " policies")
               << " in force, revision " << reply.policy_revision;
    if (reply.tests > 0) {
      with.out() << ", " << reply.tests << (reply.tests == 1 ? " test" : " tests") << " passed";
    }
    with.out() << "\n";
    for (const std::string& note : reply.notes) {
      with.out() << printable(note) << "\n";
    }
  });
}

int plan(const context& with, const std::vector<std::string>& assumptions,
         const std::string& file) {
  plan_request request;
  for (const std::string& text : assumptions) {
    const auto parsed = parse_assumption(text);
    if (!parsed) {
      return refuse_assumption(with, text);
    }
    request.assume.has_value() ? request.assume->push_back(*parsed)
                               : void(request.assume = {*parsed});
  }
  if (!file.empty()) {
    int code = exit_done;
    request.content = read_policy(with, file, code);
    if (!request.content) {
      return code;
    }
    request.file = file;
  }
  return with.show<plan_reply>("Plan", to_json(request), [&](const plan_reply& reply) {
    if (reply.decisions.empty()) {
      with.out() << "Nothing would be done.\n";
    }
    for (const decision_info& one : reply.decisions) {
      print_decision(with, one);
    }
    if (!reply.decisions.empty() && !reply.predictions.empty()) {
      with.out() << "Predictions of moves so far: " << predictions_text(reply.predictions) << "\n";
    }
  });
}

int explain(const context& with, std::int64_t id) {
  return with.show<explain_reply>(
      "Explain", to_json(explain_request{id}),
      [&](const explain_reply& reply) { print_decision(with, reply.decision); });
}

int why(const context& with, const std::string& part) {
  return with.show<why_reply>("Why", to_json(why_request{part}), [&](const why_reply& reply) {
    with.out() << printable(reply.text) << (reply.text.ends_with('\n') ? "" : "\n");
    if (reply.decision) {
      with.out() << with.paint(colour::dim, "terranectl explain " +
                                                std::to_string(reply.decision->id) +
                                                " tells more about that decision.")
                 << "\n";
    }
  });
}

}  // namespace terrane::ipc::ctl

// What a replay found, as sentences and as JSON.
#include <array>
#include <ctime>

#include "policies/explain/json_writer.hpp"
#include "policies/trace/trace.hpp"

namespace terrane::policies::trace {
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

std::string place_of(const trace_fault& f) {
  return f.line == 0 ? "" : "Line " + std::to_string(f.line) + ": ";
}

// Of a recording of which no tick was replayed.
std::string nothing_text(const replay_report& r) {
  if (!r.fault) return "it holds no tick: nothing to replay.\n";
  return "nothing was replayed. " + place_of(*r.fault) + r.fault->message + ".\n";
}

}  // namespace

std::string report_text(const replay_report& r) {
  if (r.fault && r.fault->no_trace) return r.fault->message + ".\n";
  if (r.ticks == 0) return nothing_text(r);
  std::string text = std::to_string(r.ticks) + (r.ticks == 1 ? " tick, " : " ticks, ") +
                     std::to_string(r.decisions) + " with decisions: ";
  text +=
      r.differences == 0 ? "all the same.\n" : std::to_string(r.differences) + " are different.\n";
  if (r.with_others) {
    text += "Moves: " + std::to_string(r.moves_recorded) + " as recorded, " +
            std::to_string(r.moves_replayed) + " with these policies.\n";
  }
  if (r.with_others && r.begins_anew)
    text += "It does not go on where the file before it ended, so they began as it begins.\n";
  for (const difference& d : r.first) text += text_of(d, r.with_others);
  if (r.differences > r.first.size()) text += "And more that are not shown.\n";
  if (r.unknown.ticks > 0) {
    text += std::to_string(r.unknown.ticks) + " ticks from line " + std::to_string(r.unknown.line) +
            " on could not be compared: the first tick of their recording is missing.\n";
  }
  if (r.fault)
    text += place_of(*r.fault) + r.fault->message + "; what comes before was replayed.\n";
  return text;
}

std::string report_json(const replay_report& r) {
  json_writer out;
  out.begin_object().field("ticks", r.ticks).field("decisions", r.decisions);
  out.field("differences", r.differences).field("with_other_policies", r.with_others);
  out.field("moves_recorded", r.moves_recorded).field("moves_replayed", r.moves_replayed);
  out.field("begins_anew", r.begins_anew).field("unknown_ticks", r.unknown.ticks);
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
    out.field("message", r.fault->message).field("cut", r.fault->cut);
    out.field("no_trace", r.fault->no_trace).end_object();
  } else {
    out.null();
  }
  out.end_object();
  return out.text();
}

}  // namespace terrane::policies::trace

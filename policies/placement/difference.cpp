#include "policies/placement/difference.hpp"

#include <limits>
#include <set>
#include <utility>

#include "policies/explain/json_writer.hpp"
#include "policies/placement/notes.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies::placement {
namespace {

// Consecutive parts that go the same way, from `i` on; the number after the last.
std::size_t end_of_run(const std::vector<step_move>& moves, std::size_t i) {
  std::size_t end = i + 1;
  while (end < moves.size() && moves[end].part == moves[end - 1].part + 1 &&
         moves[end].from == moves[i].from && moves[end].to == moves[i].to)
    ++end;
  return end;
}

std::string lines(const request& r, const std::vector<step_move>& moves,
                  const std::string& before) {
  std::string text;
  for (std::size_t i = 0; i < moves.size();) {
    const std::size_t end = end_of_run(moves, i);
    std::uint64_t bytes = 0;
    for (std::size_t k = i; k < end; ++k) bytes += moves[k].bytes;
    text += before + r.parts[moves[i].part].name;
    if (end - i > 1)
      text +=
          " to " + r.parts[moves[end - 1].part].name + ", " + std::to_string(end - i) + " parts";
    text += ": " + r.devices[moves[i].from].name + " -> " + r.devices[moves[i].to].name + ", " +
            format_bytes(bytes) + (moves[i].aside ? ", for a while" : "") + "\n";
    i = end;
  }
  return text;
}

void write_moves(const request& r, const std::vector<step_move>& moves, bool aside,
                 json_writer& to) {
  to.begin_array();
  for (const step_move& m : moves) {
    to.begin_object().field("part", r.parts[m.part].name).field("from", r.devices[m.from].name);
    to.field("to", r.devices[m.to].name).field("bytes", m.bytes);
    if (aside) to.field("aside", m.aside);
    to.end_object();
  }
  to.end_array();
}

}  // namespace

std::vector<bool> brings_shared(const request& r, const placed& from, const placed& to) {
  std::set<std::pair<std::uint32_t, std::int32_t>> there;
  for (std::uint32_t p = 0; p < from.size(); ++p) there.emplace(from[p], r.parts[p].shared);
  std::vector<bool> out(from.size(), false);
  for (std::uint32_t p = 0; p < from.size(); ++p)
    if (from[p] != to[p] && r.parts[p].shared >= 0)
      out[p] = there.emplace(to[p], r.parts[p].shared).second;
  return out;
}

difference compare(const request& r, const standing& now, const placed& target) {
  difference out;
  out.before = predict(r, now.where);
  out.after = predict(r, target);
  const std::vector<bool> with_shared = brings_shared(r, now.where, target);
  for (std::uint32_t p = 0; p < target.size(); ++p) {
    if (now.where[p] == target[p]) continue;
    const std::uint64_t bytes = own_bytes(r, p) + (with_shared[p] ? shared_bytes(r, p) : 0);
    out.moves.push_back({p, now.where[p], target[p], bytes, false});
    out.bytes += bytes;
  }
  outcome<move_sequence> s = find_sequence(r, now, target);
  if (s)
    out.sequence = std::move(*s);
  else
    out.why_no_sequence = s.error().message;
  return out;
}

double pays_after_tokens(const difference& d) {
  if (d.gain_s() <= 0 || !d.sequence) return std::numeric_limits<double>::infinity();
  return d.sequence->seconds / d.gain_s();
}

std::string to_text(const request& r, const difference& d) {
  if (d.moves.empty()) return "the same placement: nothing would move\n";
  std::string text = std::to_string(d.moves.size()) + " parts would move, " +
                     format_bytes(d.bytes) + ":\n" + lines(r, d.moves, "  ");
  if (d.before.token_s > 0 || d.after.token_s > 0) {
    text += "a token takes " + milliseconds(d.before.token_s) + " now and " +
            milliseconds(d.after.token_s) + " after, as predicted\n";
  }
  if (!d.sequence) return text + "no safe sequence: " + d.why_no_sequence + "\n";
  text += (d.sequence->seconds > 0 ? "the copies take about " + milliseconds(d.sequence->seconds)
                                   : std::string("how long the copies take is not known")) +
          ", in " + std::to_string(d.sequence->steps.size()) +
          (d.sequence->steps.size() == 1 ? " step\n" : " steps, each within every budget:\n");
  if (d.sequence->steps.size() == 1) return text;
  for (std::size_t i = 0; i < d.sequence->steps.size(); ++i)
    text += " step " + std::to_string(i + 1) + ":\n" + lines(r, d.sequence->steps[i].moves, "  ");
  return text;
}

std::string to_json(const request& r, const difference& d) {
  json_writer to;
  to.begin_object().key("moves");
  write_moves(r, d.moves, false, to);
  to.field("bytes", d.bytes).field("token_ms_before", d.before.token_s * 1e3);
  to.field("token_ms_after", d.after.token_s * 1e3);
  if (d.sequence) {
    to.field("move_ms", d.sequence->seconds * 1e3).key("steps").begin_array();
    for (const move_step& s : d.sequence->steps) write_moves(r, s.moves, true, to);
    to.end_array();
  } else {
    to.field("blocked", d.why_no_sequence);
  }
  return to.end_object().text();
}

}  // namespace terrane::policies::placement

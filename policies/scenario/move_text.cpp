#include "policies/scenario/move_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "policies/vocabulary/nearest.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies::scenario {
namespace {

constexpr std::string_view its_parts = "its parts";
// What moves are called in plans; a policy that yields makes moves and spills.
constexpr std::array<verb, 3> planned_verbs = {verb::move, verb::spill, verb::fetch};

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

// Takes the next word off the text.
std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

std::string how_to_write(verb v) {
  const std::string subject = v == verb::move ? "PART" : "SESSION";
  const std::string to = v == verb::fetch ? "DEVICE', or '... to its parts" : "DEVICE";
  return std::string(name_of(v)) + " " + subject + " from DEVICE to " + to +
         (v == verb::spill ? "', with 'keeping TOKENS' where it keeps some" : "'");
}

bool is_count(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

}  // namespace

std::string move_text(const planned_move& m) {
  std::string text(name_of(m.action));
  text +=
      " " + m.subject + " from " + m.from + " to " + (m.to.empty() ? std::string(its_parts) : m.to);
  if (m.keep_tokens > 0) text += " keeping " + std::to_string(m.keep_tokens);
  return text;
}

std::string why_no_move(std::string_view text, const machine_names& known) {
  std::string_view rest = text;
  const std::string_view first = next_word(rest);
  const auto action =
      std::ranges::find_if(planned_verbs, [&](verb v) { return name_of(v) == first; });
  if (action == planned_verbs.end()) {
    std::vector<std::string_view> words;
    for (const verb v : planned_verbs) words.push_back(name_of(v));
    return in_quotes(text) + " is no move: none begins with " + in_quotes(first) +
           name_hint(first, words);
  }
  const std::string_view subject = next_word(rest);
  const std::string_view from_word = next_word(rest), from = next_word(rest);
  const std::string_view to_word = next_word(rest);
  std::string_view to = next_word(rest);
  if (to == "its" && next_word(rest) == "parts") to = its_parts;
  const std::string_view keeping = next_word(rest), tokens = next_word(rest);
  const bool keeps_well = keeping.empty() || (keeping == "keeping" && is_count(tokens));
  if (from_word != "from" || to_word != "to" || to.empty() || !keeps_well ||
      !next_word(rest).empty()) {
    return in_quotes(text) + " is no move; write '" + how_to_write(*action);
  }
  std::string why =
      *action == verb::move ? why_no_part(subject, known) : why_no_session(subject, known);
  if (why.empty()) why = why_no_device(from, known);
  return !why.empty() || to == its_parts ? why : why_no_device(to, known);
}

}  // namespace terrane::policies::scenario

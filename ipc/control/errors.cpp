#include "ipc/control/errors.hpp"

#include <algorithm>
#include <numeric>

#include <boost/json/array.hpp>

#include "ipc/control/amount_text.hpp"
#include "ipc/control/json.hpp"
#include "ipc/varlink/service.hpp"

namespace terrane::ipc {
namespace {

namespace json = boost::json;

refusal named(const char* member, json::object fields, const std::string& message) {
  fields["message"] = message;
  return {std::string("io.terrane.Control.") + member, std::move(fields)};
}

std::string in_quotes(std::string_view text) { return "\"" + std::string(text) + "\""; }

// Levenshtein's distance, for "did you mean".
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// " Did you mean X?", when a known name is near enough to be a slip.
std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  constexpr std::size_t longest_name = 256;  // the distance costs the product of the lengths
  const auto nearest =
      std::min_element(known.begin(), known.end(), [&](const std::string& a, const std::string& b) {
        return name.size() <= longest_name && distance(name, a) < distance(name, b);
      });
  if (nearest == known.end() || name.size() > longest_name ||
      distance(name, *nearest) > name.size() / 3 + 1) {
    return "";
  }
  return " Did you mean " + *nearest + "?";
}

// The parts of a layer, where one is named as if it were a part; a few of them.
std::string names_within(std::string_view name, const std::vector<std::string>& known) {
  constexpr std::size_t most_told = 4;
  const std::string beginning = std::string(name) + ".";
  std::string text;
  std::size_t count = 0;
  for (const std::string& one : known) {
    if (!one.starts_with(beginning) || count++ >= most_told) continue;
    text += (text.empty() ? "" : ", ") + one;
  }
  return count > most_told ? text + " and " + std::to_string(count - most_told) + " more" : text;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

}  // namespace

std::string_view group_of(access_level level) {
  switch (level) {
    case access_level::observe:
      return "";
    case access_level::operate:
      return "terrane";
    case access_level::admin:
      return "terrane-admin";
  }
  return "";
}

namespace refuse {

refusal not_permitted(std::string_view method, access_level needed) {
  const std::string group(group_of(needed));
  return named("NotPermitted",
               {{"method", method},
                {"level", boost::describe::enum_to_string(needed, "")},
                {"group", group}},
               std::string(method) + " is for members of the group " + group +
                   "; an administrator can add you with: usermod -aG " + group +
                   " USER (then log in again)");
}

refusal not_your_session(std::int64_t session) {
  const std::string what = "the session " + std::to_string(session) + " of another user";
  const std::string group(group_of(access_level::admin));
  return named("NotPermitted", {{"method", what}, {"level", "admin"}, {"group", group}},
               "this is " + what + "; only members of the group " + group + " may touch it");
}

refusal not_ready(daemon_state state, std::string_view why) {
  const std::string name = boost::describe::enum_to_string(state, "");
  const std::string so =
      state == daemon_state::failed ? "the daemon has no model" : "the daemon is " + name;
  return named("NotReady", {{"state", name}}, so + ": " + std::string(why));
}

refusal shutting_down() { return named("ShuttingDown", {}, "the daemon is stopping"); }

refusal too_many_connections(std::int64_t limit) {
  return named("TooManyConnections", {{"limit", limit}},
               "too many connections are open (" + std::to_string(limit) +
                   " for one user); close some and try again");
}

refusal too_slow(std::string_view what) {
  return named("TooSlow", {}, std::string(what) + ": the client did not read for too long");
}

refusal busy(std::string_view why) { return named("Busy", {}, std::string(why)); }

refusal cancelled(std::string_view what) {
  return named("Cancelled", {}, std::string(what) + " was cancelled");
}

refusal stale_revision(std::int64_t given, std::int64_t current) {
  return named("StaleRevision", {{"given", given}, {"current", current}},
               "this was decided on placement revision " + std::to_string(given) +
                   ", but the current one is " + std::to_string(current) +
                   "; look at the placement again");
}

refusal no_room(std::string_view device, std::int64_t needed_bytes, std::int64_t free_bytes) {
  return named("NoRoom",
               {{"device", device}, {"needed_bytes", needed_bytes}, {"free_bytes", free_bytes}},
               std::string(device) + " has no room: " + bytes_text(needed_bytes) +
                   " are needed and " + bytes_text(free_bytes) + " are free");
}

refusal unknown_part(std::string_view part, const std::vector<std::string>& known) {
  const std::string inside = names_within(part, known);
  std::string hint = inside.empty() ? suggestion(part, known) : " It has " + inside + ".";
  if (hint.empty() && !known.empty())
    hint = " Parts have names such as " + known[known.size() / 2] +
           "; terranectl placement lists them";
  return named("UnknownPart", {{"part", part}},
               "the model has no part " + in_quotes(part) + "." + hint);
}

refusal unknown_device(std::string_view device, const std::vector<std::string>& known) {
  return named("UnknownDevice",
               {{"device", device}, {"known", json::array(known.begin(), known.end())}},
               "there is no device " + in_quotes(device) + "." + suggestion(device, known) +
                   " Known: " + listed(known));
}

refusal device_unusable(std::string_view device, std::string_view why) {
  return named("DeviceUnusable", {{"device", device}},
               std::string(device) + " cannot be used: " + std::string(why));
}

refusal unknown_policy(std::string_view policy, const std::vector<std::string>& known) {
  return named("UnknownPolicy",
               {{"policy", policy}, {"known", json::array(known.begin(), known.end())}},
               "there is no policy " + in_quotes(policy) + "." + suggestion(policy, known) +
                   " Known: " + listed(known));
}

refusal not_freed(std::string_view device, std::int64_t left_bytes, std::string_view why) {
  return named(
      "NotFreed", {{"device", device}, {"left_bytes", left_bytes}},
      bytes_text(left_bytes) + " are still on " + std::string(device) + ": " + std::string(why));
}

refusal yield_over(std::string_view device, std::int64_t left_bytes, std::string_view why) {
  return named("Cancelled", {},
               std::string(device) + " no longer yields: " + std::string(why) + ". " +
                   bytes_text(left_bytes) + (left_bytes == 1 ? " is" : " are") +
                   " still there, and what has left goes home");
}

refusal device_yields(const yield_info& order, std::string_view left) {
  json::object fields{{"device", order.device}, {"by", order.by}};
  if (order.until_unix_ms) fields["until_unix_ms"] = *order.until_unix_ms;
  return named("DeviceYields", std::move(fields),
               order.device + " yields " + std::string(left) + ": " + order.by +
                   " asked for its memory, so nothing goes there; terranectl yield --end " +
                   order.device + " ends that");
}

refusal unknown_session(std::int64_t session) {
  return named("UnknownSession", {{"session", session}},
               "there is no session " + std::to_string(session) + "; it may have been closed");
}

refusal unknown_move(std::int64_t move) {
  return named("UnknownMove", {{"move", move}},
               "no move " + std::to_string(move) + " is being prepared");
}

refusal unknown_decision(std::int64_t id, std::int64_t oldest, std::int64_t newest) {
  const std::string kept = newest == 0 ? "none was made yet"
                                       : "those from " + std::to_string(oldest) + " to " +
                                             std::to_string(newest) + " are kept";
  return named("UnknownDecision", {{"id", id}, {"oldest", oldest}, {"newest", newest}},
               "there is no decision " + std::to_string(id) + "; " + kept);
}

refusal context_exceeded(std::int64_t prompt_tokens, std::int64_t context_tokens) {
  return named(
      "ContextExceeded", {{"prompt_tokens", prompt_tokens}, {"context_tokens", context_tokens}},
      "the prompt has " + std::to_string(prompt_tokens) + " tokens and the context takes " +
          std::to_string(context_tokens) + ", the reply included");
}

refusal quota_exceeded(std::string_view policy, std::int64_t held_bytes, std::int64_t quota_bytes,
                       const std::string& message) {
  return named("QuotaExceeded",
               {{"policy", policy}, {"held_bytes", held_bytes}, {"quota_bytes", quota_bytes}},
               message);
}

refusal chat_unsupported(std::string_view why) {
  return named("ChatUnsupported", {},
               "the model cannot chat: " + std::string(why) + ". Raw text works: give a prompt");
}

refusal not_finite(std::string_view part) {
  return named("NotFinite", {{"part", part}},
               "the reply was stopped: " + std::string(part) +
                   " gave a value that is not finite; the model's file or the device is faulty");
}

refusal policy_invalid(const std::vector<diagnostic>& diagnostics, std::string_view so) {
  json::array list;
  for (const diagnostic& one : diagnostics) {
    list.push_back(to_json(one));
  }
  return named("PolicyInvalid", {{"diagnostics", std::move(list)}},
               "the policies have faults; " + std::string(so));
}

refusal failed(std::string_view message) { return named("Failed", {}, std::string(message)); }

refusal invalid_parameter(std::string_view parameter, std::string_view why) {
  return varlink::invalid_parameter(std::string(parameter),
                                    std::string(parameter) + ": " + std::string(why));
}

}  // namespace refuse
}  // namespace terrane::ipc

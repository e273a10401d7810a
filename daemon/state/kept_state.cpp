#include "daemon/state/kept_state.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>
#include <boost/system/system_error.hpp>

#include "policies/trace/trace.hpp"

namespace terrane::daemon {

namespace {

namespace json = boost::json;

constexpr int version = 1;
constexpr std::int64_t longest_passed_ms = 7LL * 24 * 3600 * 1000;

// FNV-1a, 64 bits: finds damage, protects nothing.
std::string sum_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return std::to_string(hash);
}

// Milliseconds that may be added and subtracted. Throws as read() does.
std::int64_t time_of(const json::value& v) {
  constexpr std::int64_t farthest = std::int64_t{1} << 53;
  const std::int64_t ms = v.as_int64();
  if (ms < -farthest || ms > farthest) throw std::runtime_error("a time out of bounds");
  return ms;
}

// Throws what Boost.JSON does when something is missing or another kind of value.
kept_state read(const json::object& head, std::string_view memory, const instant& at,
                const std::string& model) {
  const instant then{json::value_to<std::string>(head.at("boot")), time_of(head.at("boottime_ms")),
                     time_of(head.at("unix_ms")), time_of(head.at("clock_ms"))};
  const std::int64_t passed = passed_ms(then, at);
  kept_state kept;
  auto state = policies::trace::state_from_text(memory, at.clock_ms, passed);
  if (!state) throw std::runtime_error(state.error());
  kept.memory = std::move(*state);
  if (json::value_to<std::string>(head.at("model")) != model) {
    kept.memory.held.clear();
    kept.memory.failures.clear();
    kept.memory.flaps.clear();
  }
  kept.disabled = json::value_to<std::vector<std::string>>(head.at("disabled"));
  const std::int64_t shift = at.clock_ms - passed - then.clock_ms;
  for (const json::value& one : head.at("yields").as_array()) {
    const json::object& from = one.as_object();
    policies::yield_order y;
    y.device = json::value_to<std::string>(from.at("device"));
    y.by = json::value_to<std::string>(from.at("by"));
    y.since_ms = time_of(from.at("since_ms")) + shift;
    if (const json::value& until = from.at("until_ms"); !until.is_null()) {
      y.until_ms = time_of(until) + shift;
      if (y.until_ms <= at.clock_ms) continue;
    }
    kept.yields.push_back(std::move(y));
  }
  return kept;
}

}  // namespace

instant now(std::int64_t clock_ms) {
  instant at;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> at.boot;
  timespec t{};
  clock_gettime(CLOCK_BOOTTIME, &t);
  at.boottime_ms = std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
  at.unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count();
  at.clock_ms = clock_ms;
  return at;
}

std::int64_t passed_ms(const instant& then, const instant& now) {
  if (!then.boot.empty() && then.boot == now.boot && now.boottime_ms >= then.boottime_ms)
    return now.boottime_ms - then.boottime_ms;
  return std::clamp<std::int64_t>(now.unix_ms - then.unix_ms, 0, longest_passed_ms);
}

std::string to_text(const kept_state& kept, const instant& at, const std::string& model) {
  const std::string memory = policies::trace::state_text(kept.memory, at.clock_ms);
  json::array yields;
  for (const policies::yield_order& y : kept.yields) {
    json::object one{{"device", y.device}, {"by", y.by}, {"since_ms", y.since_ms}};
    one["until_ms"] =
        y.until_ms == policies::reading::never ? json::value(nullptr) : json::value(y.until_ms);
    yields.push_back(std::move(one));
  }
  json::object head{{"terraned_state", version},
                    {"boot", at.boot},
                    {"boottime_ms", at.boottime_ms},
                    {"unix_ms", at.unix_ms},
                    {"clock_ms", at.clock_ms},
                    {"model", model},
                    {"disabled", json::value_from(kept.disabled)},
                    {"yields", std::move(yields)}};
  head["sum"] = sum_of(json::serialize(head) + memory);  // the last key
  return json::serialize(head) + "\n" + memory;
}

tl::expected<kept_state, std::string> from_text(std::string_view text, const instant& at,
                                                const std::string& model) {
  const std::size_t end = text.find('\n');
  const std::string_view memory =
      end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  try {
    json::value head = json::parse(json::string_view(text.data(), std::min(end, text.size())));
    const json::value* v =
        head.is_object() ? head.as_object().if_contains("terraned_state") : nullptr;
    if (v == nullptr) return tl::unexpected<std::string>("it is no state of terraned");
    if (*v != version)
      return tl::unexpected("it has version " + json::serialize(*v) + ", and this terraned knows " +
                            std::to_string(version));
    const auto sum = json::value_to<std::string>(head.at("sum"));
    json::object& rest = head.as_object();
    rest.stable_erase(rest.find("sum"));
    if (sum != sum_of(json::serialize(rest) + std::string(memory)))
      return tl::unexpected<std::string>("it is damaged: its sum is another");
    return read(rest, memory, at, model);
  } catch (const boost::system::system_error& fault) {  // of what is no JSON, or of another kind
    return tl::unexpected("it is damaged: " + fault.code().message());
  } catch (const std::exception&) {  // of what is not there
    return tl::unexpected<std::string>("it is damaged: something in it is missing");
  }
}

}  // namespace terrane::daemon

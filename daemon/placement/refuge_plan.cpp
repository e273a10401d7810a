#include "daemon/placement/refuge_plan.hpp"

#include <algorithm>
#include <map>

namespace terrane::daemon {

namespace {

namespace placement = policies::placement;

std::string counted(std::size_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

}  // namespace

refuge_plan::refuge_plan(const engine::model& of, std::vector<engine::device*> devices,
                         std::vector<device_facts> known, const engine::engine_options& options)
    : model_(of),
      devices_(std::move(devices)),
      known_(std::move(known)),
      context_tokens_(options.context_tokens),
      sessions_(options.sessions) {}

std::optional<std::vector<std::uint32_t>> refuge_plan::choose(
    const engine::lost_placement& from) const {
  const std::uint64_t host = available_host_bytes();
  std::vector<device_facts> facts = known_;
  std::uint64_t ours_of_host = 0;
  for (std::size_t d = 0; d < facts.size(); d++) {
    const engine::device& on = *devices_[d];
    const std::uint64_t limit = on.limit_bytes(), ours = on.used_bytes();
    facts[d].budget_bytes = limit;
    if (from.lost[d]) {
      facts[d].left_out = "it is lost";
    } else if (on.info().host_memory) {
      ours_of_host += ours;
      if (host != 0) facts[d].budget_bytes = std::min(limit, host + ours);
    } else if (on.budget_bytes() == 0) {
      const std::uint64_t all = on.driver_used_bytes();
      facts[d].budget_bytes = limit - std::min(limit, all > ours ? all - ours : 0);
    }
  }
  engine::engine_options options;
  options.context_tokens = context_tokens_;
  options.sessions = sessions_;
  placement::request r = make_request(model_, facts, options, host == 0 ? 0 : host + ours_of_host);
  for (std::uint32_t p = 0; p < from.parts.size(); p++)
    if (!from.lost[from.parts[p]]) r.pins.push_back({p, from.parts[p], "it is there"});
  const auto answer = placement::plan(r);
  return answer ? std::optional(answer->where) : std::nullopt;
}

// "8 parts are on cpu now, 4 on vulkan:..."
std::string refuge_plan::where(const engine::refuge_report& report) const {
  std::map<std::uint32_t, std::size_t> parts;
  for (const engine::part_move& m : report.parts) parts[m.device]++;
  std::string out;
  for (const auto& [d, count] : parts)
    out += (out.empty() ? counted(count, "part") + (count == 1 ? " is on " : " are on ")
                        : ", " + std::to_string(count) + " on ") +
           devices_[d]->info().name;
  return out.empty() ? "KV was there, and no part" : out + " now";
}

std::string refuge_plan::sentence(const engine::refuge_report& report) const {
  std::string out;
  for (std::uint32_t d : report.lost)
    out += (out.empty() ? "device " : ", ") + devices_[d]->info().name;
  out += report.lost.size() == 1 ? " is lost: " : " are lost: ";
  const std::string ended = report.sessions_ended == 0 ? ""
                                                       : counted(report.sessions_ended, "session") +
                                                             " had to end for want of room";
  if (report.failure) {
    return out +
           "what was there has no place, and requests are refused: " + to_string(*report.failure) +
           (ended.empty() ? "" : "; " + ended) +
           ". It is tried again; more room on another device, or a restart with other devices, "
           "puts it right";
  }
  out += where(report);
  if (!ended.empty()) return out + "; " + ended;
  if (report.sessions_rebuilt != 0)
    out += ", KV of " + counted(report.sessions_rebuilt, "session") + " is computed again";
  return out;
}

}  // namespace terrane::daemon

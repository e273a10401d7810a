// The part of the service that takes standing orders: policies off and on, devices given back.
#include <algorithm>
#include <cmath>

#include "daemon/journal/log.hpp"
#include "daemon/service/service.hpp"

namespace terrane::daemon {

namespace {

// A client is not kept waiting for a device for longer.
constexpr std::int64_t longest_wait_ms = 30'000;

// What last kept something on the device, in the words of the decision.
std::string what_stays(control_loop& loop, const std::string& device) {
  return loop.look([&](const auto&, const auto&, const auto&, const policies::journal& past) {
    for (const policies::decision_record* r : past.recent(64)) {
      if (r->policy != policies::yield_policy || r->object != device) continue;
      for (const policies::candidate& c : r->candidates)
        if (c.removed_by != policies::filter::none)
          return c.subject + ": " + policies::to_string(c.removed_by) + ", " + c.detail;
    }
    return std::string("moves are under way; ask again");
  });
}

// An order is answered once it would outlive the daemon's sudden end. It holds in any case; what is
// returned is why it could not be written down.
std::optional<std::string> write_down(control_loop& loop) {
  const std::string fault = loop.save_and_wait();
  if (fault.empty()) return std::nullopt;
  log(log_level::warning, fault + "; the order holds, and ends with this process");
  return fault;
}

}  // namespace

void service::switch_policy(const ipc::caller& who, ipc::policy_switch request,
                            ipc::answer<ipc::policy_switch_reply> to) {
  with_engine(
      to, [who, request = std::move(request), to](engine::inference_engine&, control_loop& loop) {
        std::vector<std::string> known;
        for (const policies::rule& r : loop.policies()->rules()) known.push_back(r.name);
        known.emplace_back(policies::promotion_policy);
        // One that was switched off and then taken away can be forgotten.
        const bool forgets = request.enabled && loop.standing().is_disabled(request.name);
        if (!forgets && std::find(known.begin(), known.end(), request.name) == known.end())
          return to.fail(ipc::refuse::unknown_policy(request.name, known));
        loop.standing().switch_policy(request.name, request.enabled);
        log(log_level::notice,
            "policy '" + request.name + "' was switched " + (request.enabled ? "on" : "off") +
                " by user " + std::to_string(who.uid),
            {{"TERRANE_POLICY", request.name}});
        to.finish({request.name, request.enabled, write_down(loop)});
      });
}

void service::yield(const ipc::caller& who, ipc::yield_request request,
                    ipc::answer<ipc::yield_reply> to) {
  with_engine(to, [this, who, request = std::move(request), to](engine::inference_engine& e,
                                                                control_loop& loop) {
    std::optional<std::uint32_t> index;
    if (request.device) {
      const auto usable = usable_device(*request.device);
      if (!usable) return to.fail(usable.error());
      index = *usable;
    } else {
      for (const engine::part_status& p : e.status().parts)
        if (!index && e.devices()[p.device]->info().kind != engine::device_kind::cpu)
          index = p.device;
      if (!index)
        return to.fail(ipc::refuse::invalid_parameter(
            "device", "no device but the CPU's holds parts; name the one that is to yield"));
    }
    engine::device& device = *e.devices()[*index];
    policies::yield_order order;
    order.device = device.info().name;
    order.since_ms = loop.now_ms();
    if (request.for_s)
      order.until_ms = order.since_ms + static_cast<std::int64_t>(std::ceil(*request.for_s * 1000));
    order.by = "user " + std::to_string(who.uid);
    log(log_level::notice, order.by + " asked for the memory of " + order.device,
        {{"TERRANE_DEVICE", order.device}});
    const std::uint64_t before = loop.standing().yield(order, device);
    const auto tell = [&loop, to, name = order.device,
                       not_kept = write_down(loop)](const yield_outcome& o) {
      const auto bytes = static_cast<std::int64_t>(o.bytes);
      if (!o.freed) return to.fail(ipc::refuse::not_freed(name, bytes, what_stays(loop, name)));
      ipc::yield_reply r{name, bytes, std::nullopt, not_kept};
      if (o.driver_bytes != 0) r.driver_used_bytes = static_cast<std::int64_t>(o.driver_bytes);
      to.finish(r);
    };
    loop.standing().await(device, before, loop.now_ms() + longest_wait_ms, tell);
  });
}

void service::end_yield(const ipc::caller&, ipc::end_yield_request request,
                        ipc::answer<ipc::end_yield_reply> to) {
  with_engine(to, [this, request = std::move(request), to](engine::inference_engine& e,
                                                           control_loop& loop) {
    // Of a lost device, too.
    const auto lost = [&](const engine::device* d) {
      return d->lost().has_value() && d->info().name == request.device;
    };
    std::optional<std::string> name = request.device;
    if (name && std::ranges::none_of(e.devices(), lost)) {
      const auto usable = usable_device(*name);
      if (!usable) return to.fail(usable.error());
      name = e.devices()[*usable]->info().name;
    }
    const std::vector<std::string> ended = loop.standing().end_yield(name);
    to.finish({ended, write_down(loop)});
  });
}

}  // namespace terrane::daemon

// The part of the service that takes standing orders: policies off and on, devices given back.
#include <algorithm>
#include <cmath>
#include <map>

#include "daemon/journal/log.hpp"
#include "daemon/service/service.hpp"
#include "policies/vocabulary/quantity.hpp"

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

ipc::yield_info to_protocol(const policies::yield_order& y, const control_loop& loop) {
  ipc::yield_info out{y.device, y.by, std::nullopt};
  if (y.until_ms != policies::reading::never) out.until_unix_ms = loop.unix_ms(y.until_ms);
  return out;
}

// How much the yield of a device has brought away and not let go of.
std::int64_t held_away(const control_loop& loop, const std::string& device) {
  return loop.look(
      [&](const auto&, const auto&, const policies::pipeline_state& state, const auto&) {
        return std::ranges::count_if(state.held, [&](const auto& entry) {
          return std::ranges::any_of(entry.second.by, [&](const policies::hold& h) {
            return h.policy == policies::yield_policy && h.object == device && !h.releasing;
          });
        });
      });
}

void tell(control_loop& loop, ipc::yield_reply so_far, const yield_outcome& o,
          const ipc::yield_stream& to) {
  const auto bytes = static_cast<std::int64_t>(o.bytes);
  switch (o.progress) {
    case yield_progress::leaving:
      so_far.left_bytes = bytes;
      return to.progress(so_far);
    case yield_progress::stays:
      return to.fail(
          ipc::refuse::not_freed(so_far.device, bytes,
                                 what_stays(loop, so_far.device) +
                                     "; it goes on yielding, and what can leave later does; " +
                                     "terranectl yield --end " + so_far.device + " ends that"));
    case yield_progress::ended:
      return to.fail(ipc::refuse::yield_over(so_far.device, bytes, "it was ended by someone"));
    case yield_progress::ran_out:
      return to.fail(ipc::refuse::yield_over(
          so_far.device, bytes, "the time that was asked for is over; ask for a longer one"));
    case yield_progress::freed:
      break;
  }
  so_far.state = ipc::yield_state::free;
  so_far.left_bytes = 0;
  so_far.freed_bytes = bytes;
  if (o.driver_bytes != 0) so_far.driver_used_bytes = static_cast<std::int64_t>(o.driver_bytes);
  to.finish(so_far);
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

std::vector<ipc::yield_info> service::yields() const {
  std::vector<ipc::yield_info> out;
  for (const policies::yield_order& y : loop_->standing().yields(loop_->now_ms()))
    out.push_back(to_protocol(y, *loop_));
  return out;
}

std::optional<ipc::refusal> service::why_yields(const std::string& device) const {
  const std::int64_t now_ms = loop_->now_ms();
  for (const policies::yield_order& y : loop_->standing().yields(now_ms)) {
    if (y.device != device) continue;
    std::string how_long = "until someone ends that";
    if (y.until_ms != policies::reading::never) {
      const std::int64_t left_ms = std::max<std::int64_t>(y.until_ms - now_ms, 1000);
      how_long = "for another " + policies::format_duration(left_ms);
    }
    return ipc::refuse::device_yields(to_protocol(y, *loop_), how_long);
  }
  return std::nullopt;
}

void service::yield(const ipc::caller& who, ipc::yield_request request, ipc::yield_stream to) {
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
    ipc::yield_reply so_far;
    so_far.device = order.device;
    so_far.until_unix_ms = to_protocol(order, loop).until_unix_ms;
    so_far.not_kept = write_down(loop);
    so_far.left_bytes = static_cast<std::int64_t>(before);
    if (before > 0) to.progress(so_far);
    loop.standing().await(
        device, before, loop.now_ms() + longest_wait_ms, order.until_ms,
        [&loop, to, so_far](const yield_outcome& o) { tell(loop, so_far, o, to); });
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
    ipc::end_yield_reply r;
    std::map<std::string, std::int64_t> held;  // before the loop can begin to bring it home
    for (const policies::yield_order& y : loop.standing().yields(loop.now_ms()))
      held[y.device] = held_away(loop, y.device);
    for (const std::string& device : loop.standing().end_yield(name))
      r.ended.push_back({device, held[device]});
    r.not_kept = write_down(loop);
    to.finish(r);
  });
}

}  // namespace terrane::daemon

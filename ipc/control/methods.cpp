#include "ipc/control/methods.hpp"

#include <limits>
#include <utility>

namespace terrane::ipc {
namespace {

using parameters = boost::json::object;

// The request's struct from the parameters. These were checked against the interface, so only a
// difference between the interface and types.hpp could fail here; tests/ipc checks that too.
template <class Request, class Call>
void with_request(const parameters& given, const varlink::reply& to, Call call) {
  auto request = from_json<Request>(given);
  if (!request) {
    return to.fail(refuse::failed("the daemon does not understand its own interface"));
  }
  call(std::move(*request));
}

// A method without parameters.
template <class Reply, void (control_service::*Function)(const caller&, answer<Reply>)>
void ask(const call_targets& targets, const caller& who, const parameters&,
         const varlink::reply& to) {
  (targets.service.*Function)(who, answer<Reply>(to));
}

// A method whose request is passed on as it is.
template <class Request, class To, void (control_service::*Function)(const caller&, Request, To)>
void request(const call_targets& targets, const caller& who, const parameters& given,
             const varlink::reply& to) {
  with_request<Request>(given, to, [&](Request wanted) {
    (targets.service.*Function)(who, std::move(wanted), To(to));
  });
}

// A method about one session.
template <void (control_service::*Function)(const caller&, std::int64_t, answer<nothing>)>
void about_session(const call_targets& targets, const caller& who, const parameters& given,
                   const varlink::reply& to) {
  with_request<session_request>(given, to, [&](const session_request& wanted) {
    (targets.service.*Function)(who, wanted.session, answer<nothing>(to));
  });
}

void generate(const call_targets& targets, const caller& who, const parameters& given,
              const varlink::reply& to) {
  with_request<generate_request>(given, to, [&](generate_request wanted) {
    if (wanted.prompt.has_value() == wanted.messages.has_value()) {
      return to.fail(refuse::invalid_parameter("prompt", "give either a prompt or messages"));
    }
    if (wanted.messages && wanted.messages->empty()) {
      return to.fail(refuse::invalid_parameter("messages", "there must be at least one"));
    }
    if (wanted.max_tokens && *wanted.max_tokens < 1) {
      return to.fail(refuse::invalid_parameter("max_tokens", "it must be at least 1"));
    }
    if (wanted.sampling) {
      const sampling_settings& s = *wanted.sampling;
      constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
      for (const auto& [name, value] :
           {std::pair("sampling.top_k", s.top_k),
            std::pair("sampling.repetition_window", s.repetition_window)}) {
        if (value && (*value < 0 || *value > most)) {
          return to.fail(
              refuse::invalid_parameter(name, "it must be from 0 to " + std::to_string(most)));
        }
      }
    }
    targets.service.generate(who, std::move(wanted), generate_stream(to));
  });
}

void move(const call_targets& targets, const caller& who, const parameters& given,
          const varlink::reply& to) {
  with_request<move_request>(given, to, [&](move_request wanted) {
    if (wanted.parts.empty()) {
      return to.fail(refuse::invalid_parameter("parts", "there must be at least one"));
    }
    targets.service.move(who, std::move(wanted), move_stream(to));
  });
}

void cancel_move(const call_targets& targets, const caller& who, const parameters& given,
                 const varlink::reply& to) {
  with_request<cancel_move_request>(given, to, [&](const cancel_move_request& wanted) {
    targets.service.cancel_move(who, wanted.move, answer<nothing>(to));
  });
}

void spill_kv(const call_targets& targets, const caller& who, const parameters& given,
              const varlink::reply& to) {
  with_request<spill_kv_request>(given, to, [&](spill_kv_request wanted) {
    if (wanted.keep_tokens && *wanted.keep_tokens < 0) {
      return to.fail(refuse::invalid_parameter("keep_tokens", "it must not be negative"));
    }
    targets.service.spill_kv(who, std::move(wanted), answer<kv_reply>(to));
  });
}

void plan(const call_targets& targets, const caller& who, const parameters& given,
          const varlink::reply& to) {
  with_request<plan_request>(given, to, [&](plan_request wanted) {
    if (wanted.content.has_value() != wanted.file.has_value()) {
      return to.fail(refuse::invalid_parameter("file", "file and content come together"));
    }
    targets.service.plan(who, std::move(wanted), answer<plan_reply>(to));
  });
}

void yield(const call_targets& targets, const caller& who, const parameters& given,
           const varlink::reply& to) {
  with_request<yield_request>(given, to, [&](yield_request wanted) {
    if (wanted.for_s && !(*wanted.for_s > 0 && *wanted.for_s <= 1e8)) {
      return to.fail(refuse::invalid_parameter(
          "for_s", "the seconds that a device yields must be above 0, and 1e8 at most"));
    }
    targets.service.yield(who, std::move(wanted), yield_stream(to));
  });
}

void explain(const call_targets& targets, const caller& who, const parameters& given,
             const varlink::reply& to) {
  with_request<explain_request>(given, to, [&](const explain_request& wanted) {
    targets.service.explain(who, wanted.id, answer<explain_reply>(to));
  });
}

void why(const call_targets& targets, const caller& who, const parameters& given,
         const varlink::reply& to) {
  with_request<why_request>(given, to, [&](why_request wanted) {
    targets.service.why(who, std::move(wanted.part), answer<why_reply>(to));
  });
}

void monitor(const call_targets& targets, const caller&, const parameters&,
             const varlink::reply& to) {
  targets.events.subscribe(to);
}

using service = control_service;
constexpr auto observe = access_level::observe;
constexpr auto operate = access_level::operate;
constexpr auto admin = access_level::admin;

constexpr method_row rows[] = {
    {"Status", observe, false, ask<status_reply, &service::status>},
    {"Devices", observe, false, ask<devices_reply, &service::devices>},
    {"Placement", observe, false, ask<placement_reply, &service::placement>},
    {"Telemetry", observe, false, ask<telemetry_reply, &service::telemetry>},
    {"Snapshot", operate, false, ask<snapshot_reply, &service::snapshot>},
    {"Generate", operate, false, generate},
    {"StopGenerate", operate, false, about_session<&service::stop_generate>},
    {"Sessions", operate, false, ask<sessions_reply, &service::sessions>},
    {"CloseSession", operate, false, about_session<&service::close_session>},
    {"Move", operate, false, move},
    {"CancelMove", operate, false, cancel_move},
    {"SpillKv", operate, false, spill_kv},
    {"FetchKv", operate, false, request<fetch_kv_request, answer<kv_reply>, &service::fetch_kv>},
    {"Tuning", observe, false, ask<tuning_reply, &service::tuning>},
    {"Tune", admin, false, request<tune_request, tune_stream, &service::tune>},
    {"PolicyList", observe, false, ask<policy_list_reply, &service::policy_list>},
    {"PolicyLint", operate, false,
     request<policy_lint_request, answer<policy_lint_reply>, &service::policy_lint>},
    {"PolicyReload", admin, false, ask<policy_reload_reply, &service::policy_reload>},
    {"PolicySwitch", admin, false,
     request<policy_switch, answer<policy_switch_reply>, &service::switch_policy>},
    {"Yield", operate, false, yield},
    {"EndYield", operate, false,
     request<end_yield_request, answer<end_yield_reply>, &service::end_yield>},
    {"Plan", operate, false, plan},
    {"Explain", observe, false, explain},
    {"Why", observe, false, why},
    {"Monitor", observe, true, monitor},
};

}  // namespace

std::span<const method_row> control_methods() { return rows; }

const method_row* find_control_method(std::string_view name) {
  for (const method_row& row : rows) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace terrane::ipc

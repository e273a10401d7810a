#include "ipc/control/server.hpp"

#include <cassert>
#include <thread>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <unistd.h>

#include "ipc/control/access.hpp"
#include "ipc/control/interface_text.hpp"
#include "ipc/control/methods.hpp"
#include "ipc/varlink/server.hpp"
#include "ipc/varlink/service.hpp"

namespace terrane::ipc {
namespace {

varlink::server_errors errors_of(const varlink::limits& limits) {
  return {refuse::failed("the daemon gave the call up without saying why; see its journal"),
          refuse::failed("the answer is too long for one message"), refuse::shutting_down(),
          refuse::too_many_connections(static_cast<std::int64_t>(limits.connections_per_user))};
}

varlink::interface_description control_interface() {
  auto parsed = varlink::parse_interface(control_interface_text);
  assert(parsed.has_value());  // the text is a constant of the build, and tests parse it
  return std::move(*parsed);
}

}  // namespace

struct control_server::state {
  state(control_service& service, event_hub& events, const control_server_options& options)
      : targets{service, events},
        levels{group_named(options.groups.operate), group_named(options.groups.admin), geteuid()},
        protocol({"Terrane", "terraned", options.version, ""}),
        server(context, protocol, options.limits, errors_of(options.limits)) {
    protocol.add(control_interface(), [this](const varlink::checked_call& what,
                                             const varlink::reply& to) { call(what, to); });
  }

  void call(const varlink::checked_call& what, const varlink::reply& to) const {
    const method_row* row = find_control_method(what.member);
    assert(row != nullptr);  // the interface has the method, and tests compare both lists
    const caller who{what.from.uid, what.from.pid, level_of(what.from, levels)};
    if (who.level < row->level) {
      return to.fail(refuse::not_permitted(row->name, row->level));
    }
    if (row->only_with_more && !what.more) {
      return to.fail({"org.varlink.service.ExpectedMore", {}});
    }
    row->call(targets, who, what.parameters, to);
  }

  const call_targets targets;
  const level_rules levels;
  boost::asio::io_context context{1};
  varlink::service protocol;
  varlink::server server;
  std::thread thread;
};

control_server::control_server(control_service& service, event_hub& events,
                               const control_server_options& options)
    : state_(std::make_unique<state>(service, events, options)) {}

control_server::~control_server() { stop(); }

result<void> control_server::start(varlink::listen_socket socket) {
  assert(!state_->thread.joinable());  // started once
  if (auto listening = state_->server.listen(std::move(socket)); !listening) {
    return listening;
  }
  state_->thread = std::thread([context = &state_->context] { context->run(); });
  return {};
}

void control_server::stop() {
  if (!state_->thread.joinable()) {
    return;
  }
  boost::asio::post(state_->context, [server = &state_->server] { server->stop(); });
  state_->thread.join();
}

}  // namespace terrane::ipc

// The table of io.terrane.Control's methods: the level of access that each needs, and how its
// parameters reach the service. A new method is a line in the interface text, its structs in
// types.hpp, a function of control_service, and a row here.
#pragma once

#include <span>
#include <string_view>

#include <boost/json/object.hpp>

#include "ipc/control/event_hub.hpp"
#include "ipc/control/service.hpp"

namespace terrane::ipc {

// What a call may reach.
struct call_targets {
  control_service& service;
  event_hub& events;
};

struct method_row {
  std::string_view name;
  access_level level;
  bool only_with_more;  // it has no end, so it makes no sense as one reply
  void (*call)(const call_targets& targets, const caller& who,
               const boost::json::object& parameters, const varlink::reply& to);
};

std::span<const method_row> control_methods();
const method_row* find_control_method(std::string_view name);

}  // namespace terrane::ipc

// A Varlink service: the interfaces that it offers, org.varlink.service among them, and what
// happens to a call before it reaches its handler. No sockets here: tests call it directly.
// Interfaces are added before the first call; calls are made on one thread, the server's.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "ipc/varlink/interface.hpp"
#include "ipc/varlink/message.hpp"
#include "ipc/varlink/peer.hpp"
#include "ipc/varlink/reply.hpp"

namespace terrane::ipc::varlink {

// What org.varlink.service.GetInfo tells.
struct service_info {
  std::string vendor;
  std::string product;
  std::string version;
  std::string url;
};

// A call that its interface allows: the method exists and the parameters fit.
struct checked_call {
  std::string member;
  boost::json::object parameters;
  bool more = false;
  bool oneway = false;
  peer from;
};

using handler = std::function<void(checked_call, reply)>;

class service {
 public:
  explicit service(service_info info);

  void add(interface_description interface, handler handle);

  // Answers what the interfaces forbid with the errors of org.varlink.service, and hands the rest
  // to the handler of its interface.
  void call(varlink::call what, const peer& from, const reply& to) const;

 private:
  struct entry {
    interface_description interface;
    handler handle;
  };

  void get_info(const reply& to) const;
  void get_interface_description(const checked_call& what, const reply& to) const;

  service_info info_;
  std::map<std::string, entry, std::less<>> interfaces_;
};

// org.varlink.service.InvalidParameter: which parameter, and in "message" what is wrong with it.
named_error invalid_parameter(const std::string& parameter, const std::string& message);

}  // namespace terrane::ipc::varlink

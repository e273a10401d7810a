#include "ipc/varlink/service.hpp"

#include <cassert>
#include <utility>

#include <boost/json/array.hpp>

namespace terrane::ipc::varlink {
namespace {

// As varlink.org publishes it.
constexpr const char* service_text =
    R"(# The Varlink Service Interface is provided by every varlink service. It
# describes the service and the interfaces it implements.
interface org.varlink.service

# Get a list of all the interfaces a service provides and information
# about the implementation.
method GetInfo() -> (
  vendor: string,
  product: string,
  version: string,
  url: string,
  interfaces: []string
)

# Get the description of an interface that is implemented by this service.
method GetInterfaceDescription(interface: string) -> (description: string)

# The requested interface was not found.
error InterfaceNotFound (interface: string)

# The requested method was not found
error MethodNotFound (method: string)

# The interface defines the requested method, but the service does not
# implement it.
error MethodNotImplemented (method: string)

# One of the passed parameters is invalid.
error InvalidParameter (parameter: string)

# Client is denied access
error PermissionDenied ()

# Method is expected to be called with 'more' set to true, but wasn't
error ExpectedMore ()
)";

named_error service_error(const char* member, boost::json::object parameters) {
  return {std::string("org.varlink.service.") + member, std::move(parameters)};
}

}  // namespace

named_error invalid_parameter(const std::string& parameter, const std::string& message) {
  return service_error("InvalidParameter", {{"parameter", parameter}, {"message", message}});
}

service::service(service_info info) : info_(std::move(info)) {
  auto own = parse_interface(service_text);
  assert(own.has_value());  // the text above is a constant
  add(std::move(*own), [this](const checked_call& what, const reply& to) {
    if (what.member == "GetInfo") {
      get_info(to);
    } else {
      get_interface_description(what, to);
    }
  });
}

void service::add(interface_description interface, handler handle) {
  std::string name = interface.name;
  interfaces_.insert_or_assign(std::move(name), entry{std::move(interface), std::move(handle)});
}

void service::call(varlink::call what, const peer& from, const reply& to) const {
  if (what.upgrade) {
    return to.fail(invalid_parameter("upgrade", "no other protocol is spoken here"));
  }
  const auto [interface_name, member] = split_member(what.method);
  const auto found = interfaces_.find(interface_name);
  if (found == interfaces_.end()) {
    return to.fail(
        service_error("InterfaceNotFound", {{"interface", std::string(interface_name)}}));
  }
  const interface_description& interface = found->second.interface;
  const auto method = interface.methods.find(member);
  if (method == interface.methods.end()) {
    return to.fail(service_error("MethodNotFound", {{"method", what.method}}));
  }
  if (const auto wrong = check(interface, method->second.inputs, what.parameters)) {
    return to.fail(invalid_parameter(wrong->where, wrong->where + ": " + wrong->expected));
  }
  found->second.handle(
      {std::string(member), std::move(what.parameters), what.more, what.oneway, from}, to);
}

void service::get_info(const reply& to) const {
  boost::json::array names;
  for (const auto& [name, unused] : interfaces_) {
    names.emplace_back(name);
  }
  to.finish({{"vendor", info_.vendor},
             {"product", info_.product},
             {"version", info_.version},
             {"url", info_.url},
             {"interfaces", std::move(names)}});
}

void service::get_interface_description(const checked_call& what, const reply& to) const {
  const auto& name = what.parameters.at("interface").as_string();
  const auto found = interfaces_.find(std::string_view(name));
  if (found == interfaces_.end()) {
    return to.fail(service_error("InterfaceNotFound", {{"interface", name}}));
  }
  to.finish({{"description", found->second.interface.text}});
}

}  // namespace terrane::ipc::varlink

#include "ipc/terranectl/context.hpp"

#include <boost/json/serialize.hpp>

#include "ipc/control/types.hpp"
#include "ipc/terranectl/words.hpp"

namespace terrane::ipc::ctl {

std::string method_name(std::string_view member) {
  return "io.terrane.Control." + std::string(member);
}

std::optional<varlink::client> context::connect(int& code) const {
  auto made = varlink::client::connect(socket_);
  if (!made) {
    code = report(made.error());
    return std::nullopt;
  }
  return std::move(*made);
}

std::optional<boost::json::object> context::call(std::string_view member,
                                                 const boost::json::object& parameters,
                                                 int& code) const {
  auto client = connect(code);
  if (!client) {
    return std::nullopt;
  }
  auto reply = client->call(method_name(member), parameters);
  if (!reply) {
    code = report(reply.error());
    return std::nullopt;
  }
  return std::move(*reply);
}

std::optional<std::string> context::full_device(const std::string& text, int& code) const {
  const auto object = call("Devices", {}, code);
  const auto reply = object ? understand<devices_reply>(*object, code) : std::nullopt;
  if (!reply) {
    return std::nullopt;
  }
  std::vector<std::string> names;
  for (const device_info& one : reply->devices) {
    names.push_back(one.name);
  }
  return resolve_device(text, names);
}

void context::print_json(const boost::json::object& object) const {
  out() << boost::json::serialize(object) << std::endl;
}

void context::print(const table& what) const {
  what.print(out(), around_.columns, around_.colours ? "\033[1m" : "",
             around_.colours ? "\033[0m" : "");
}

std::string context::paint(colour how, std::string_view text) const {
  if (!around_.colours) {
    return std::string(text);
  }
  const char* start = "";
  switch (how) {
    case colour::title:
      start = "\033[1m";
      break;
    case colour::good:
      start = "\033[32m";
      break;
    case colour::bad:
      start = "\033[31m";
      break;
    case colour::dim:
      start = "\033[2m";
      break;
  }
  return start + std::string(text) + "\033[0m";
}

int context::fail(std::string_view message, exit_code code) const {
  err() << "terranectl: " << printable(message) << "\n";
  return code;
}

int context::report(const error& what) const {
  switch (what.code) {
    case error_code::no_daemon:
      return fail(what.message +
                      ". Is it running (systemctl status terraned)? Another socket can be named "
                      "with --socket or TERRANE_SOCKET",
                  exit_no_daemon);
    case error_code::no_permission:
      return fail(what.message +
                  ". Its folder must let you in; an administrator can add you to the group terrane "
                  "with: usermod -aG terrane USER (then log in again)");
    case error_code::disconnected:
      return fail(what.message +
                  ": it was stopped or killed, or what it sent was read too slowly; systemctl "
                  "status terraned and journalctl -u terraned say which");
    default:
      return fail(what.message);
  }
}

int context::report(const varlink::call_failure& what) const {
  if (!what.refused) {
    return report(what.what);
  }
  if (json_) {
    print_json({{"error", what.refused->name}, {"parameters", what.refused->parameters}});
  }
  const int code = fail(what.what.message);
  const auto* diagnostics = what.refused->parameters.if_contains("diagnostics");
  if (diagnostics != nullptr && diagnostics->is_array()) {
    for (const auto& one : diagnostics->get_array()) {
      if (const auto read =
              from_json<diagnostic>(one.is_object() ? one.get_object() : boost::json::object())) {
        err() << printable(place_text(read->file, read->line, read->column)) << ": "
              << printable(read->message) << "\n";
      }
    }
  }
  return code;
}

}  // namespace terrane::ipc::ctl

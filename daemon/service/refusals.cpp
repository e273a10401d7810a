#include "daemon/service/refusals.hpp"

#include <cstdint>

namespace terrane::daemon {

ipc::refusal refusal_of(const error& e) {
  switch (e.code) {
    case error_code::no_room:
      return ipc::refuse::no_room(e.where, static_cast<std::int64_t>(e.needed),
                                  static_cast<std::int64_t>(e.available));
    case error_code::too_long:
      return ipc::refuse::context_exceeded(static_cast<std::int64_t>(e.needed),
                                           static_cast<std::int64_t>(e.available));
    case error_code::cancelled:
      return ipc::refuse::cancelled("the move");
    case error_code::not_finite:
      return ipc::refuse::not_finite(e.where);
    case error_code::conflict:
      return ipc::refuse::busy(to_string(e));
    default:
      return ipc::refuse::failed(to_string(e));
  }
}

ipc::diagnostic to_protocol(const policies::diagnostic& d) {
  ipc::diagnostic out;
  out.file = d.where.file;
  out.line = d.where.line;
  out.column = d.where.column;
  out.severity = d.level == policies::severity::error ? ipc::diagnostic_severity::error
                                                      : ipc::diagnostic_severity::warning;
  out.message = d.message;
  return out;
}

std::vector<ipc::diagnostic> to_protocol(const std::vector<policies::diagnostic>& all) {
  std::vector<ipc::diagnostic> out;
  for (const policies::diagnostic& d : all) out.push_back(to_protocol(d));
  return out;
}

}  // namespace terrane::daemon

#include "daemon/service/refusals.hpp"

#include <cstdint>

namespace terrane::daemon {

ipc::refusal refusal_of(const error& e) {
  switch (e.code) {
    case error_code::no_room:
      if (e.needed == 0) return ipc::refuse::busy(to_string(e));  // sessions, not bytes
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

}  // namespace terrane::daemon

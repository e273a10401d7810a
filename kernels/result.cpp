#include "kernels/result.hpp"

namespace terrane {

const char* to_string(error_code code) {
  switch (code) {
    case error_code::invalid_input:
      return "invalid_input";
    case error_code::unsupported:
      return "unsupported";
    case error_code::not_found:
      return "not_found";
    case error_code::too_long:
      return "too_long";
    case error_code::no_room:
      return "no_room";
    case error_code::conflict:
      return "conflict";
    case error_code::cancelled:
      return "cancelled";
    case error_code::device_fault:
      return "device_fault";
    case error_code::contract:
      return "contract";
    case error_code::not_finite:
      return "not_finite";
    case error_code::io:
      return "io";
  }
  return "unknown";
}

std::string to_string(const error& e) {
  return e.where.empty() ? e.message : e.where + ": " + e.message;
}

}  // namespace terrane

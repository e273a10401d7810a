// How kernels/ and engine/ report what may fail. Errors are values: a code that a program can act
// on, a sentence for the administrator who reads it at night, and where it happened (a file, a
// device, a field). Programmer errors are assertions instead. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace terrane {

enum class error_code {
  invalid_input,  // the caller's data is wrong: a file, a prompt, a name
  unsupported,    // well formed, but not something this build or device can do
  not_found,      // no such file, device, part or session
  no_room,        // a budget or an allocation does not suffice; needed and available are bytes
  too_long,       // more tokens than the context holds; needed and available are tokens
  conflict,       // the state does not allow it now (a move in progress, a stale revision)
  cancelled,      // given up on request
  device_fault,   // a device failed or is lost
  contract,       // a device does not compute what the numeric contract says
  not_finite,     // logits or activations are not finite
  io,             // the operating system refused
};

// The name of a code as it appears in logs and over the control protocol.
const char* to_string(error_code code);

struct error {
  error_code code = error_code::invalid_input;
  std::string message;                      // what is wrong, with values, and what would be right
  std::string where;                        // file, device or field; may be empty
  std::uint64_t needed = 0, available = 0;  // of no_room and too_long
};

// "where: message", or the message alone.
std::string to_string(const error& e);

template <class T>
using result = tl::expected<T, error>;

inline tl::unexpected<error> fail(error_code code, std::string message, std::string where = {}) {
  return tl::unexpected<error>(error{code, std::move(message), std::move(where)});
}

// The same with the numbers: what was needed and what there is.
inline tl::unexpected<error> fail_short(error_code code, std::uint64_t needed,
                                        std::uint64_t available, std::string message,
                                        std::string where) {
  return tl::unexpected<error>(
      error{code, std::move(message), std::move(where), needed, available});
}

}  // namespace terrane

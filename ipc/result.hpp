// How ipc/ reports what may fail: a code that a program can act on and a sentence for people. The
// named errors that travel over the protocol are something else (control/errors.hpp). Plain
// values; any thread.
#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace terrane::ipc {

enum class error_code {
  invalid_text,   // an interface description or a message that does not parse
  in_use,         // another daemon serves this socket
  no_daemon,      // nothing listens there
  no_permission,  // the operating system refuses
  disconnected,   // the other side went away in the middle
  given_up,       // the caller ended the call
  protocol,       // the other side does not speak Varlink, or too large a message
  refused,        // the other side answered with a named error
  io,             // anything else from the operating system
};

struct error {
  error_code code = error_code::io;
  std::string message;  // what, where, why, what to do
};

template <class T>
using result = tl::expected<T, error>;

inline tl::unexpected<error> fail(error_code code, std::string message) {
  return tl::unexpected<error>(error{code, std::move(message)});
}

}  // namespace terrane::ipc

// A Varlink client: one connection, one call at a time, blocking. For programs that have nothing
// else to do meanwhile (terranectl, tests, examples). One thread at a time. Errors are values; a
// broken pipe is not a signal.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json/object.hpp>
#include <tl/expected.hpp>

#include "ipc/result.hpp"
#include "ipc/varlink/framing.hpp"
#include "ipc/varlink/message.hpp"
#include "ipc/varlink/reply.hpp"

namespace terrane::ipc::varlink {

// Why a call did not end well: the server's named error, or what broke on the way.
struct call_failure {
  error what;                          // the message is for people in both cases
  std::optional<named_error> refused;  // the server's answer
};

template <class T>
using call_result = tl::expected<T, call_failure>;

class client {
 public:
  // Errors: no_daemon (nothing is at the path, or nobody listens), no_permission, io.
  static result<client> connect(const std::string& path);

  client(client&& other) noexcept;
  client& operator=(client&& other) noexcept;
  ~client();

  // One call, one reply.
  call_result<boost::json::object> call(std::string_view method,
                                        const boost::json::object& parameters);

  // A call with `more`: `each` gets every reply, the last one with `continues` false. When it
  // returns false, the connection is closed, which is how a client ends a stream early.
  using each_reply = std::function<bool(const boost::json::object& parameters, bool continues)>;
  call_result<void> stream(std::string_view method, const boost::json::object& parameters,
                           const each_reply& each);

  // While waiting for a reply, also runs `when_readable` each time `descriptor` can be read (a
  // signalfd, a terminal). It may not use this client; when it returns false, the call ends
  // (given_up).
  void watch(int descriptor, std::function<bool()> when_readable);

 private:
  explicit client(int descriptor);

  call_result<void> send(const varlink::call& what);
  call_result<response> receive();
  call_result<void> wait();
  void close() noexcept;

  int descriptor_ = -1;
  int watched_ = -1;
  std::function<bool()> when_readable_;
  message_splitter splitter_;
};

}  // namespace terrane::ipc::varlink

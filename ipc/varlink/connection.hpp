// One client of the server: reads its calls one after the other, hands them to the service, and
// writes the replies. All of it runs on the server's thread; only the wake-up of a reply comes from
// others. It lives as long as its coroutines do.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "ipc/varlink/framing.hpp"
#include "ipc/varlink/limits.hpp"
#include "ipc/varlink/reply_state.hpp"
#include "ipc/varlink/service.hpp"

namespace terrane::ipc::varlink {

// What clients are told when it is the server, not a handler, that ends their call.
struct server_errors {
  named_error abandoned;             // a handler dropped its handle without an answer
  named_error too_large;             // a reply over the message limit
  named_error shutting_down;         // the server stops
  named_error too_many_connections;  // of this user, or of all
};

class connection : public std::enable_shared_from_this<connection> {
 public:
  using socket_type = boost::asio::local::stream_protocol::socket;

  // `service`, `limits` and `errors` outlive the connection; they are the server's.
  connection(socket_type socket, peer from, const varlink::service& service,
             const varlink::limits& limits, const server_errors& errors);
  ~connection();

  // Serves until the client leaves or is sent away; then runs `when_closed`.
  void start(std::function<void()> when_closed);
  // Cancels the running call with "shutting down"; closes when that is written.
  void shut_down();
  // Closes at once.
  void close();

  const peer& from() const { return from_; }

 private:
  template <class T>
  using awaitable = boost::asio::awaitable<T>;

  awaitable<void> serve();
  awaitable<void> watch_for_hang_up();
  awaitable<std::optional<std::string>> next_message();
  awaitable<bool> answer(call what);
  awaitable<bool> pass_on(std::shared_ptr<reply_state> state);
  awaitable<bool> write(std::string_view bytes);

  std::shared_ptr<reply_state> begin(const call& what);
  void hand_over(call what, const std::shared_ptr<reply_state>& state);
  void set_deadline(std::chrono::milliseconds limit);
  void clear_deadline();

  socket_type socket_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer signal_;  // never expires: cancelled to say that replies wait
  const peer from_;
  const varlink::service& service_;
  const varlink::limits& limits_;
  const server_errors& errors_;

  message_splitter splitter_;
  std::array<char, 16 * 1024> chunk_;
  std::shared_ptr<reply_state> running_;
  bool running_oneway_ = false;
  bool hung_up_ = false;
  bool stopping_ = false;
};

}  // namespace terrane::ipc::varlink

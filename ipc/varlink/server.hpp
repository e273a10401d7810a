// A Varlink server on a Unix stream socket. Everything happens on the one thread that runs the
// io_context; the service, and the io_context itself, outlive the server. Handlers answer from any
// thread (reply.hpp).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "ipc/varlink/connection.hpp"
#include "ipc/varlink/listen_socket.hpp"

namespace terrane::ipc::varlink {

class server {
 public:
  server(boost::asio::io_context& context, const varlink::service& service, varlink::limits limits,
         server_errors errors);

  // Accepts clients from now on. Before the io_context runs, or on its thread.
  result<void> listen(listen_socket socket);

  // Accepts no more, ends running calls with the error `shutting_down`, and closes each connection
  // when that is written, or after `limits.linger`. Then the io_context has no more work from here.
  // On the io_context's thread.
  void stop();

  std::size_t connections() const { return connections_.size(); }

 private:
  boost::asio::awaitable<void> accept_clients();
  void admit(connection::socket_type socket);
  void send_away(connection::socket_type& socket);
  void forget(const std::shared_ptr<connection>& who);

  boost::asio::io_context& context_;
  const varlink::service& service_;
  const varlink::limits limits_;
  const server_errors errors_;

  std::unique_ptr<listen_socket> socket_;
  boost::asio::local::stream_protocol::acceptor acceptor_;
  boost::asio::steady_timer pause_;   // after a failed accept
  boost::asio::steady_timer linger_;  // at a stop
  std::set<std::shared_ptr<connection>> connections_;
  std::map<uid_t, std::size_t> of_user_;
};

}  // namespace terrane::ipc::varlink

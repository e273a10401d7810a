#include "ipc/varlink/server.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fcntl.h>
#include <sys/socket.h>

namespace terrane::ipc::varlink {
namespace {

namespace asio = boost::asio;
constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

// With no descriptors left, accept fails until somebody closes one.
constexpr std::chrono::milliseconds pause_after_failed_accept{100};

}  // namespace

server::server(asio::io_context& context, const varlink::service& service, varlink::limits limits,
               server_errors errors)
    : context_(context),
      service_(service),
      limits_(limits),
      errors_(std::move(errors)),
      acceptor_(context),
      pause_(context),
      linger_(context) {}

result<void> server::listen(listen_socket socket) {
  // The acceptor closes its descriptor, and so does the listen_socket: each gets its own.
  const int descriptor = fcntl(socket.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) {
    return fail(error_code::io, std::string("cannot listen: ") + std::strerror(errno));
  }
  boost::system::error_code wrong;
  acceptor_.assign(asio::local::stream_protocol(), descriptor, wrong);
  if (wrong) {
    ::close(descriptor);
    return fail(error_code::io, "cannot listen: " + wrong.message());
  }
  socket_ = std::make_unique<listen_socket>(std::move(socket));
  asio::co_spawn(
      context_, [this] { return accept_clients(); }, asio::detached);
  return {};
}

asio::awaitable<void> server::accept_clients() {
  for (;;) {
    auto [wrong, socket] = co_await acceptor_.async_accept(as_result);
    if (!acceptor_.is_open()) {
      co_return;
    }
    if (!wrong) {
      admit(std::move(socket));
    } else if (wrong != asio::error::connection_aborted) {
      pause_.expires_after(pause_after_failed_accept);
      co_await pause_.async_wait(as_result);
    }
  }
}

void server::admit(connection::socket_type socket) {
  auto from = peer_of(socket.native_handle());
  if (!from) {
    return;  // gone already
  }
  std::size_t& of_user = of_user_[from->uid];
  if (of_user >= limits_.connections_per_user || connections_.size() >= limits_.connections) {
    return send_away(socket);
  }
  ++of_user;
  auto made =
      std::make_shared<connection>(std::move(socket), std::move(*from), service_, limits_, errors_);
  connections_.insert(made);
  made->start([this, weak = std::weak_ptr(made)] {
    if (auto who = weak.lock()) {
      forget(who);
    }
  });
}

// The error waits in the client's buffer as the answer to its first call. A new socket has room for
// it, and if not, the client learns by the close.
void server::send_away(connection::socket_type& socket) {
  const std::string text = write_error(errors_.too_many_connections);
  [[maybe_unused]] const ssize_t sent =
      ::send(socket.native_handle(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void server::forget(const std::shared_ptr<connection>& who) {
  const auto count = of_user_.find(who->from().uid);
  if (--count->second == 0) {
    of_user_.erase(count);
  }
  connections_.erase(who);
  if (!acceptor_.is_open() && connections_.empty()) {
    linger_.cancel();
  }
}

void server::stop() {
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  socket_.reset();
  const auto still_there = connections_;  // closing one changes the set
  for (const auto& who : still_there) {
    who->shut_down();
  }
  if (still_there.empty()) {
    return;
  }
  linger_.expires_after(limits_.linger);
  linger_.async_wait([this](boost::system::error_code cancelled) {
    const auto left = cancelled ? std::set<std::shared_ptr<connection>>() : connections_;
    for (const auto& who : left) {
      who->close();
    }
  });
}

}  // namespace terrane::ipc::varlink

#include "ipc/varlink/connection.hpp"

#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <poll.h>

namespace terrane::ipc::varlink {
namespace {

namespace asio = boost::asio;
constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

}  // namespace

connection::connection(socket_type socket, peer from, const varlink::service& service,
                       const varlink::limits& limits, const server_errors& errors)
    : socket_(std::move(socket)),
      deadline_(socket_.get_executor()),
      signal_(socket_.get_executor(), asio::steady_timer::time_point::max()),
      from_(std::move(from)),
      service_(service),
      limits_(limits),
      errors_(errors),
      splitter_(limits.message_bytes) {}

connection::~connection() {
  if (running_) {
    running_->detach();
  }
}

void connection::start(std::function<void()> when_closed) {
  auto self = shared_from_this();
  asio::co_spawn(
      socket_.get_executor(), [self] { return self->watch_for_hang_up(); }, asio::detached);
  asio::co_spawn(
      socket_.get_executor(), [self] { return self->serve(); },
      [self, when_closed = std::move(when_closed)](const std::exception_ptr&) {
        self->close();
        when_closed();
      });
}

void connection::shut_down() {
  stopping_ = true;
  if (running_ && !running_oneway_) {
    running_->cancel_with(errors_.shutting_down);
  } else {
    close();
  }
}

void connection::close() {
  if (running_) {
    running_->cancel();
  }
  deadline_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
}

connection::awaitable<void> connection::serve() {
  while (auto text = co_await next_message()) {
    auto parsed = parse_call(*text, limits_.nesting);
    if (!parsed) {
      const std::string answer = write_error(invalid_parameter("message", parsed.error().message));
      co_await write(answer);
      co_return;
    }
    if (!co_await answer(std::move(*parsed))) {
      co_return;
    }
  }
}

// A client that only closes its sending side still waits for replies; one that is gone hangs up,
// which ends what it had asked for at once, even while nothing is being written to it.
connection::awaitable<void> connection::watch_for_hang_up() {
  while (true) {
    auto [wrong] = co_await socket_.async_wait(socket_type::wait_error, as_result);
    if (wrong) {
      co_return;  // closed on this side
    }
    // Asio may end a wait for what happened to another socket, closed just before this one was
    // accepted; so what counts is what this one says.
    pollfd state{socket_.native_handle(), POLLPRI, 0};
    if (poll(&state, 1, 0) == 0) {
      continue;
    }
    if ((state.revents & (POLLHUP | POLLERR)) == 0) {
      close();  // out-of-band data, which Varlink does not have
      co_return;
    }
    hung_up_ = true;
    if (running_ && !running_oneway_) {
      running_->cancel();
    }
    co_return;
  }
}

// Reads only between calls, so a client that sends ahead waits in the kernel's buffer, not ours.
connection::awaitable<std::optional<std::string>> connection::next_message() {
  set_deadline(limits_.idle);
  while (!stopping_) {
    if (auto message = splitter_.next()) {
      clear_deadline();
      co_return message;
    }
    if (splitter_.oversized()) {
      const std::string answer = write_error(invalid_parameter(
          "message", "a message has at most " + std::to_string(limits_.message_bytes) + " bytes"));
      co_await write(answer);
      break;
    }
    auto [wrong, read] = co_await socket_.async_read_some(asio::buffer(chunk_), as_result);
    if (wrong) {
      break;
    }
    splitter_.feed({chunk_.data(), read});
  }
  clear_deadline();
  co_return std::nullopt;
}

connection::awaitable<bool> connection::answer(call what) {
  if (hung_up_ && !what.oneway) {
    co_return true;  // nobody waits; a oneway call behind it still counts
  }
  running_oneway_ = what.oneway;
  running_ = begin(what);
  hand_over(std::move(what), running_);
  const bool written = co_await pass_on(running_);
  running_->cancel();
  running_->detach();
  running_.reset();
  co_return written && !stopping_;
}

std::shared_ptr<reply_state> connection::begin(const call& what) {
  reply_options options;
  options.streaming = what.more;
  options.oneway = what.oneway;
  options.queued_bytes = limits_.queued_bytes;
  options.message_bytes = limits_.message_bytes;
  options.abandoned = errors_.abandoned;
  options.too_large = errors_.too_large;
  auto wake = [executor = socket_.get_executor(), weak = weak_from_this()] {
    asio::post(executor, [weak] {
      if (auto self = weak.lock()) {
        self->signal_.cancel();
      }
    });
  };
  return std::make_shared<reply_state>(std::move(options), std::move(wake));
}

void connection::hand_over(call what, const std::shared_ptr<reply_state>& state) {
  const reply to(state);
  try {
    service_.call(std::move(what), from_, to);
  } catch (const boost::system::system_error& thrown) {
    // Its what() names sources of the library, which are nobody's business.
    to.fail({errors_.abandoned.name, {{"message", thrown.code().message()}}});
  } catch (const std::exception& thrown) {
    to.fail({errors_.abandoned.name, {{"message", thrown.what()}}});
  }
}

// Writes what the handler answers until it has finished. False when the client is gone.
connection::awaitable<bool> connection::pass_on(std::shared_ptr<reply_state> state) {
  for (;;) {
    const reply_state::batch batch = state->take();
    if (!batch.bytes.empty()) {
      const bool written = co_await write(batch.bytes);
      if (!written) {
        co_return false;
      }
    }
    if (batch.last) {
      co_return true;
    }
    if (batch.bytes.empty()) {
      co_await signal_.async_wait(as_result);
    }
  }
}

connection::awaitable<bool> connection::write(std::string_view bytes) {
  while (!bytes.empty()) {
    set_deadline(limits_.write_stall);
    auto [wrong, written] =
        co_await socket_.async_write_some(asio::buffer(bytes.data(), bytes.size()), as_result);
    clear_deadline();
    if (wrong) {
      co_return false;
    }
    bytes.remove_prefix(written);
  }
  co_return true;
}

// At the deadline the socket is closed, which ends the operation that was waiting.
void connection::set_deadline(std::chrono::milliseconds limit) {
  deadline_.expires_after(limit);
  deadline_.async_wait([weak = weak_from_this()](boost::system::error_code wrong) {
    auto self = weak.lock();
    if (!wrong && self && self->deadline_.expiry() <= asio::steady_timer::clock_type::now()) {
      self->close();
    }
  });
}

void connection::clear_deadline() { deadline_.expires_at(asio::steady_timer::time_point::max()); }

}  // namespace terrane::ipc::varlink

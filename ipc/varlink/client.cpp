#include "ipc/varlink/client.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace terrane::ipc::varlink {
namespace {

// Of a reply. A server may send more than it takes.
constexpr std::size_t longest_reply_bytes = 16 * 1024 * 1024;
constexpr std::size_t deepest_reply = 64;

tl::unexpected<call_failure> broken(error_code code, std::string message) {
  return tl::unexpected(call_failure{{code, std::move(message)}, std::nullopt});
}

tl::unexpected<call_failure> went_away() {
  return broken(error_code::disconnected,
                "the daemon closed the connection before its answer was whole");
}

call_failure refusal_of(const response& answer) {
  std::string message = *answer.error;
  if (const auto* text = answer.parameters.if_contains("message"); text && text->is_string()) {
    message.assign(text->get_string().begin(), text->get_string().end());
  }
  return {{error_code::refused, std::move(message)}, named_error{*answer.error, answer.parameters}};
}

tl::unexpected<error> connect_fault(const std::string& path, int why) {
  switch (why) {
    case ENOENT:
      return fail(error_code::no_daemon, "no daemon: there is no socket " + path);
    case ECONNREFUSED:
      return fail(error_code::no_daemon, "no daemon: nobody listens at " + path);
    case EACCES:
    case EPERM:
      return fail(error_code::no_permission, "you may not reach the socket " + path);
    default:
      return fail(error_code::io, "cannot connect to " + path + ": " + std::strerror(why));
  }
}

}  // namespace

client::client(int descriptor) : descriptor_(descriptor), splitter_(longest_reply_bytes) {}

result<client> client::connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return fail(error_code::io, "not a possible path of a socket: \"" + path + "\"");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  client made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (made.descriptor_ < 0 ||
      ::connect(made.descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address)) {
    return connect_fault(path, errno);
  }
  return made;
}

client::client(client&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      watched_(std::exchange(other.watched_, -1)),
      when_readable_(std::move(other.when_readable_)),
      splitter_(std::move(other.splitter_)) {}

client& client::operator=(client&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
    watched_ = std::exchange(other.watched_, -1);
    when_readable_ = std::move(other.when_readable_);
    splitter_ = std::move(other.splitter_);
  }
  return *this;
}

client::~client() { close(); }

void client::close() noexcept {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  descriptor_ = -1;
}

void client::watch(int descriptor, std::function<bool()> when_readable) {
  watched_ = descriptor;
  when_readable_ = std::move(when_readable);
}

call_result<boost::json::object> client::call(std::string_view method,
                                              const boost::json::object& parameters) {
  varlink::call what;
  what.method = method;
  what.parameters = parameters;
  if (auto sent = send(what); !sent) {
    return tl::unexpected(sent.error());
  }
  auto answer = receive();
  if (!answer) {
    return tl::unexpected(answer.error());
  }
  if (answer->error) {
    return tl::unexpected(refusal_of(*answer));
  }
  return std::move(answer->parameters);
}

call_result<void> client::stream(std::string_view method, const boost::json::object& parameters,
                                 const each_reply& each) {
  varlink::call what;
  what.method = method;
  what.parameters = parameters;
  what.more = true;
  if (auto sent = send(what); !sent) {
    return sent;
  }
  for (;;) {
    auto answer = receive();
    if (!answer) {
      return tl::unexpected(answer.error());
    }
    if (answer->error) {
      return tl::unexpected(refusal_of(*answer));
    }
    const bool go_on = each(answer->parameters, answer->continues);
    if (!answer->continues) {
      return {};
    }
    if (!go_on) {
      close();
      return {};
    }
  }
}

call_result<void> client::send(const varlink::call& what) {
  const std::string bytes = write_call(what);
  // JSON is UTF-8. Said here, where the text is known, and not by the byte of a message.
  if (!parse_call(std::string_view(bytes).substr(0, bytes.size() - 1), deepest_reply)) {
    return broken(error_code::invalid_text,
                  "the text is not UTF-8; convert it first, for instance with iconv");
  }
  std::string_view left = bytes;
  while (!left.empty()) {
    const ssize_t sent = ::send(descriptor_, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      left.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return {};  // it may have said why before it closed: receive() tells
    } else if (errno != EINTR) {
      return broken(error_code::io, std::string("cannot send: ") + std::strerror(errno));
    }
  }
  return {};
}

call_result<response> client::receive() {
  std::array<char, 16 * 1024> chunk;
  for (;;) {
    if (auto text = splitter_.next()) {
      auto answer = parse_response(*text, deepest_reply);
      if (!answer) {
        return broken(error_code::protocol,
                      "what answers is not a Varlink service: " + answer.error().message);
      }
      return std::move(*answer);
    }
    if (splitter_.oversized()) {
      return broken(error_code::protocol, "the reply is longer than any reply may be");
    }
    if (auto ready = wait(); !ready) {
      return tl::unexpected(ready.error());
    }
    const ssize_t read = ::recv(descriptor_, chunk.data(), chunk.size(), 0);
    if (read > 0) {
      splitter_.feed({chunk.data(), static_cast<std::size_t>(read)});
    } else if (read == 0 || errno == ECONNRESET) {
      return went_away();
    } else if (errno != EINTR) {
      return broken(error_code::io, std::string("cannot receive: ") + std::strerror(errno));
    }
  }
}

// Until the connection can be read.
call_result<void> client::wait() {
  for (;;) {
    std::array<pollfd, 2> both{pollfd{descriptor_, POLLIN, 0}, pollfd{watched_, POLLIN, 0}};
    if (poll(both.data(), both.size(), -1) < 0) {
      if (errno != EINTR) {
        return broken(error_code::io, std::string("poll: ") + std::strerror(errno));
      }
      continue;
    }
    if (both[1].revents != 0 && !when_readable_()) {
      close();
      return broken(error_code::given_up, "the call was given up");
    }
    if (both[0].revents != 0) {
      return {};
    }
  }
}

}  // namespace terrane::ipc::varlink

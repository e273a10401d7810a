#include "tests/ipc/fixture.hpp"

#include <cerrno>
#include <cstring>

#include <boost/json/parse.hpp>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace terrane::ipc {

own_folder::own_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "terrane-XXXXXX").string();
  folder_ = mkdtemp(name.data());
}
own_folder::~own_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

raw_client::raw_client(const std::string& path)
    : descriptor_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval patience{10, 0};
  setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  connected_ =
      ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}
raw_client::~raw_client() { close(); }

void raw_client::close() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  descriptor_ = -1;
}

bool raw_client::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool raw_client::send_message(std::string_view text) const {
  return send(std::string(text) + '\0');
}

void raw_client::finish_sending() const { ::shutdown(descriptor_, SHUT_WR); }

boost::json::value raw_client::receive() {
  for (;;) {
    if (const auto end = buffer_.find('\0'); end != std::string::npos) {
      const std::string text = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return boost::json::parse(text);
    }
    char chunk[4096];
    const ssize_t read = ::recv(descriptor_, chunk, sizeof chunk, 0);
    if (read <= 0) {
      EXPECT_TRUE(read == 0 || errno == ECONNRESET) << "no reply: " << std::strerror(errno);
      return nullptr;
    }
    buffer_.append(chunk, static_cast<std::size_t>(read));
  }
}

bool raw_client::ended() { return receive().is_null() && buffer_.empty(); }

void control_test::start() {
  server = std::make_unique<control_server>(service, events, options);
  auto socket = varlink::listen_socket::at_path(path);
  ASSERT_TRUE(socket) << socket.error().message;
  const auto started = server->start(std::move(*socket));
  ASSERT_TRUE(started) << started.error().message;
}

std::string call_text(std::string_view member, std::string_view parameters,
                      std::string_view more_keys) {
  std::string text = "{\"method\":\"io.terrane.Control." + std::string(member) +
                     "\",\"parameters\":" + std::string(parameters);
  if (!more_keys.empty()) {
    text += "," + std::string(more_keys);
  }
  return text + "}";
}

std::string error_of(const boost::json::value& reply) {
  const auto* object = reply.if_object();
  const auto* name = object ? object->if_contains("error") : nullptr;
  return name ? std::string(name->as_string()) : std::string();
}

}  // namespace terrane::ipc

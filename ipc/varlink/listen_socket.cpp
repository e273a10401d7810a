#include "ipc/varlink/listen_socket.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace terrane::ipc::varlink {
namespace {

tl::unexpected<error> system_fault(const std::string& what) {
  return fail(error_code::io, what + ": " + std::strerror(errno));
}

// The process that holds a lock, as it wrote itself there; for a message only.
std::string holder_of(int lock_descriptor) {
  char text[32] = {};
  const ssize_t length = pread(lock_descriptor, text, sizeof text - 1, 0);
  const long pid = length > 0 ? std::strtol(text, nullptr, 10) : 0;
  return pid > 0 ? "process " + std::to_string(pid) : "another process";
}

bool same_file(int descriptor, const std::string& path) {
  struct stat by_descriptor {};
  struct stat by_path {};
  return fstat(descriptor, &by_descriptor) == 0 && lstat(path.c_str(), &by_path) == 0 &&
         by_descriptor.st_dev == by_path.st_dev && by_descriptor.st_ino == by_path.st_ino;
}

// Takes the lock of a socket. A holder removes the file before it lets go, so a lock on a file that
// is no longer at the path is worth nothing, and we try again.
result<int> take_lock(const std::string& socket_path) {
  const std::string path = socket_path + ".lock";
  for (;;) {
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0) {
      return system_fault("cannot make " + path +
                          " (does its directory exist, may we write there?)");
    }
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      std::string message = socket_path + " is served by ";
      message += holder_of(descriptor);
      message += " already; stop that daemon or choose another socket";
      ::close(descriptor);
      return fail(error_code::in_use, std::move(message));
    }
    if (same_file(descriptor, path)) {
      const std::string text = std::to_string(getpid()) + "\n";
      if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, text.data(), text.size(), 0) < 0) {
        ::close(descriptor);
        return system_fault("cannot write " + path);
      }
      return descriptor;
    }
    ::close(descriptor);
  }
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

int new_socket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

// Removes a socket that nobody answers at. We hold the lock, so no other Terrane is at it;
// something else might be, hence the probe.
result<void> remove_stale(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT ? result<void>() : system_fault(path);
  }
  if (!S_ISSOCK(found.st_mode)) {
    return fail(error_code::io, path +
                                    " exists and is not a socket; it is left alone. Remove it or "
                                    "choose another socket");
  }
  const int probe = new_socket();
  if (probe < 0) {
    return system_fault("socket");
  }
  const sockaddr_un address = address_of(path);
  const bool connected =
      connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const int why = errno;
  ::close(probe);
  if (connected || why == EAGAIN) {  // EAGAIN: somebody listens, with a full backlog
    return fail(error_code::in_use, path +
                                        " is served by another process already; stop it or "
                                        "choose another socket");
  }
  if (why != ECONNREFUSED && why != ENOENT) {
    errno = why;
    return system_fault("cannot tell whether " + path + " is in use");
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return system_fault("cannot remove the stale socket " + path);
  }
  return {};
}

bool option_is(int descriptor, int option, int wanted) {
  int value = 0;
  socklen_t length = sizeof value;
  return getsockopt(descriptor, SOL_SOCKET, option, &value, &length) == 0 && value == wanted;
}

}  // namespace

result<listen_socket> listen_socket::at_path(const std::string& path) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
    return fail(error_code::io,
                "the socket's path has " + std::to_string(path.size()) + " bytes; 1 to " +
                    std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " are possible: " + path);
  }
  listen_socket made;
  made.name_ = path;
  auto lock = take_lock(path);
  if (!lock) {
    return tl::unexpected(lock.error());
  }
  made.lock_descriptor_ = *lock;
  if (auto removed = remove_stale(path); !removed) {
    return tl::unexpected(removed.error());
  }
  made.descriptor_ = new_socket();
  const sockaddr_un address = address_of(path);
  if (made.descriptor_ < 0 ||
      bind(made.descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return system_fault("cannot bind " + path);
  }
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) {
    return system_fault(path + " vanished");
  }
  made.made_on_ = found.st_dev;
  made.made_inode_ = found.st_ino;
  if (chmod(path.c_str(), 0666) != 0 || listen(made.descriptor_, SOMAXCONN) != 0) {
    return system_fault("cannot listen at " + path);
  }
  return made;
}

result<listen_socket> listen_socket::from_descriptor(int descriptor) {
  if (!option_is(descriptor, SO_DOMAIN, AF_UNIX) || !option_is(descriptor, SO_TYPE, SOCK_STREAM) ||
      !option_is(descriptor, SO_ACCEPTCONN, 1)) {
    return fail(error_code::io, "descriptor " + std::to_string(descriptor) +
                                    " is not a listening Unix stream socket; the socket unit needs "
                                    "ListenStream= with a path");
  }
  listen_socket passed;
  passed.descriptor_ = descriptor;
  passed.name_ = "(passed in)";
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return passed;
}

listen_socket::listen_socket(listen_socket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      lock_descriptor_(std::exchange(other.lock_descriptor_, -1)),
      made_on_(other.made_on_),
      made_inode_(std::exchange(other.made_inode_, 0)),
      name_(std::move(other.name_)) {}

listen_socket& listen_socket::operator=(listen_socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
    lock_descriptor_ = std::exchange(other.lock_descriptor_, -1);
    made_on_ = other.made_on_;
    made_inode_ = std::exchange(other.made_inode_, 0);
    name_ = std::move(other.name_);
  }
  return *this;
}

listen_socket::~listen_socket() { close(); }

// The path goes before the socket, and the lock last: whoever gets the lock finds nothing stale.
void listen_socket::close() noexcept {
  struct stat found {};
  if (made_inode_ != 0 && lstat(name_.c_str(), &found) == 0 && found.st_dev == made_on_ &&
      found.st_ino == made_inode_) {
    unlink(name_.c_str());
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  if (lock_descriptor_ >= 0) {
    unlink((name_ + ".lock").c_str());
    ::close(lock_descriptor_);
  }
  descriptor_ = lock_descriptor_ = -1;
  made_inode_ = 0;
}

}  // namespace terrane::ipc::varlink

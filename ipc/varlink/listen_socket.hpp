// A listening Unix stream socket: one that we bind to a path, or one that systemd passes in. At a
// path, a lock file beside it (PATH.lock, held with flock as long as we serve) makes taking over
// free of races: who holds the lock may remove a stale socket; a second daemon is refused and told
// so. The destructor closes, and removes the path and the lock only if we made them. Move-only; one
// thread at a time.
#pragma once

#include <string>

#include <sys/types.h>

#include "ipc/result.hpp"

namespace terrane::ipc::varlink {

class listen_socket {
 public:
  // Binds and listens, mode 0666: who may do what is decided by peer credentials. The directory
  // must exist. Errors: in_use (another process holds the lock, or answers at the path), io.
  static result<listen_socket> at_path(const std::string& path);

  // Takes over a socket that listens already, e.g. number 3 when LISTEN_FDS is 1. Errors: io, when
  // it is not a listening Unix stream socket.
  static result<listen_socket> from_descriptor(int descriptor);

  listen_socket(listen_socket&& other) noexcept;
  listen_socket& operator=(listen_socket&& other) noexcept;
  ~listen_socket();

  int descriptor() const { return descriptor_; }
  // The path, or "(passed in)".
  const std::string& name() const { return name_; }

 private:
  listen_socket() = default;
  void close() noexcept;

  int descriptor_ = -1;
  int lock_descriptor_ = -1;
  // The file that bind made, to remove that one and no other; 0 when there is none.
  dev_t made_on_ = 0;
  ino_t made_inode_ = 0;
  std::string name_;
};

}  // namespace terrane::ipc::varlink

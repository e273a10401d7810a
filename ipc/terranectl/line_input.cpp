#include "ipc/terranectl/line_input.hpp"

#include <array>
#include <cerrno>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace terrane::ipc::ctl {

line_input::line_input(int descriptor) : descriptor_(descriptor) {
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, &before_);
  signals_ = signalfd(-1, &interrupt, SFD_CLOEXEC | SFD_NONBLOCK);
}

line_input::~line_input() {
  take_interrupt();
  ::close(signals_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void line_input::take_interrupt() {
  signalfd_siginfo info;
  while (::read(signals_, &info, sizeof info) > 0) {
  }
}

line_input::outcome line_input::next(std::string& line) {
  for (;;) {
    const std::size_t end = buffer_.find('\n');
    if (end != std::string::npos || (ended_ && !buffer_.empty())) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end == std::string::npos ? end : end + 1);
      return outcome::line;
    }
    if (ended_) {
      return outcome::end;
    }
    std::array<pollfd, 2> both{pollfd{descriptor_, POLLIN, 0}, pollfd{signals_, POLLIN, 0}};
    if (poll(both.data(), both.size(), -1) < 0 && errno != EINTR) {
      return outcome::end;
    }
    if (both[1].revents != 0) {
      take_interrupt();
      return outcome::interrupted;
    }
    if (both[0].revents != 0) {
      std::array<char, 4096> chunk;
      const ssize_t read = ::read(descriptor_, chunk.data(), chunk.size());
      ended_ = read == 0 || (read < 0 && errno != EINTR && errno != EAGAIN);
      buffer_.append(chunk.data(), read > 0 ? static_cast<std::size_t>(read) : 0);
    }
  }
}

}  // namespace terrane::ipc::ctl

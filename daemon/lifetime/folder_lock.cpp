#include "daemon/lifetime/folder_lock.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace terrane::daemon {

namespace {

namespace fs = std::filesystem;

constexpr const char* lock_name = ".terraned.lock";

// Who holds it has written its process number there.
std::string holder(int file) {
  std::array<char, 16> text = {};
  const ssize_t n = pread(file, text.data(), text.size() - 1, 0);
  const long number = n > 0 ? std::strtol(text.data(), nullptr, 10) : 0;
  return number > 0 ? " (process " + std::to_string(number) + ")" : "";
}

}  // namespace

folder_locks::~folder_locks() {
  for (int file : files_) close(file);
}

std::string folder_locks::take(const fs::path& folder, const std::string& what) {
  std::error_code fault;
  fs::create_directories(folder, fault);
  const fs::path real = fs::weakly_canonical(folder, fault);
  if (fault) return "";
  if (std::ranges::find(folders_, real) != folders_.end()) return "";
  const int file = open((real / lock_name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  if (file < 0) return "";
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    const bool held = errno == EWOULDBLOCK;
    const std::string by = holder(file);
    close(file);
    if (!held) return "";  // a file system without locks
    return what + ": " + folder.string() + " is used by another terraned" + by +
           "; give each its own, or stop the other";
  }
  const std::string number = std::to_string(getpid()) + "\n";
  if (ftruncate(file, 0) == 0) (void)!pwrite(file, number.data(), number.size(), 0);
  files_.push_back(file);
  folders_.push_back(real);
  return "";
}

}  // namespace terrane::daemon

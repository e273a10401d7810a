#include "daemon/process/folder_lock.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace terrane::daemon {

namespace {

namespace fs = std::filesystem;

constexpr const char* lock_name = ".terraned.lock";
constexpr int most_tries = 16;

// Who holds it has written its process number there.
std::string holder(int file) {
  std::array<char, 16> text = {};
  const ssize_t n = pread(file, text.data(), text.size() - 1, 0);
  const long number = n > 0 ? std::strtol(text.data(), nullptr, 10) : 0;
  return number > 0 ? " (process " + std::to_string(number) + ")" : "";
}

// Whether the folder's lock is the file that is open, and not one that was made since.
bool is_there(const fs::path& folder, int file) {
  struct stat opened = {};
  struct stat named = {};
  return fstat(file, &opened) == 0 && stat((folder / lock_name).c_str(), &named) == 0 &&
         named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

}  // namespace

folder_locks::wait_call folder_locks::for_two_seconds() {
  using clock = std::chrono::steady_clock;
  return [until = clock::now() + std::chrono::seconds(2)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return clock::now() < until;
  };
}

folder_locks::~folder_locks() {
  for (const held& h : held_) close(h.file);
}

std::string folder_locks::take(const fs::path& folder, const wait_call& wait) {
  while (true) {
    std::string refused = keep(folder);
    if (refused.empty() || !wait()) return refused;
  }
}

folder_locks::attempt folder_locks::try_lock(const fs::path& real) const {
  const int file = open((real / lock_name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  if (file < 0) return {};
  if (opened_) opened_();
  if (flock(file, LOCK_EX | LOCK_NB) == 0) {
    // Removed since it was opened, it keeps nobody away.
    if (is_there(real, file)) return {outcome::locked, file};
    close(file);
    return {outcome::removed};
  }
  const bool taken = errno == EWOULDBLOCK;
  const std::string by = holder(file);
  close(file);
  if (!taken) return {};  // a file system without locks
  return {outcome::taken, -1, by};
}

std::string folder_locks::keep(const fs::path& folder) {
  const std::lock_guard lock(guard_);
  std::error_code fault;
  fs::create_directories(folder, fault);
  const fs::path real = fs::weakly_canonical(folder, fault);
  if (fault) return "";
  const auto here = std::ranges::find(held_, real, &held::real);
  if (here != held_.end()) {
    if (is_there(real, here->file)) return "";
    close(here->file);
    held_.erase(here);
  }
  attempt tried;
  for (int tries = 0; tries < most_tries; tries++) {
    fs::create_directories(real, fault);  // it may have gone with its lock
    tried = try_lock(real);
    if (tried.of != outcome::removed) break;
  }
  if (tried.of == outcome::taken)
    return folder.string() + " is used by another terraned" + tried.by +
           "; give each its own, or stop the other";
  if (tried.of == outcome::removed)
    return "the lock of " + folder.string() + " (" + lock_name +
           ") is removed again and again; end what does so";
  if (tried.of == outcome::impossible) return "";
  const int file = tried.file;
  const std::string number = std::to_string(getpid()) + "\n";
  if (ftruncate(file, 0) == 0) (void)!pwrite(file, number.data(), number.size(), 0);
  held_.push_back({real, file});
  return "";
}

}  // namespace terrane::daemon

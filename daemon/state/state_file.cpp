#include "daemon/state/state_file.hpp"

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "daemon/journal/log.hpp"
#include "daemon/process/left_behind.hpp"

namespace terrane::daemon {

namespace {

namespace fs = std::filesystem;

// No state is as large.
constexpr std::size_t most_bytes = 64U << 20;

std::string failed(const std::string& what, const fs::path& path, int error) {
  return "state: cannot " + what + " " + path.string() + ": " + std::strerror(error);
}

bool write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return fsync(file) == 0;
}

}  // namespace

// What the writing thread uses; it lives as long as that does.
struct state_file::shared {
  fs::path path;
  write_call by;
  std::mutex guard;
  std::condition_variable changed;
  std::optional<std::string> waiting;
  std::uint64_t put = 0, done = 0;  // counted: what was put, and what became of it is known
  std::string trouble;
  bool closed = false;  // nothing is to be written
  bool ending = false, ended = false;

  void work() {
    std::unique_lock lock(guard);
    while (true) {
      changed.wait(lock, [&] { return ending || waiting; });
      if (!waiting) break;
      const std::string text = std::move(*waiting);
      waiting.reset();
      const std::uint64_t number = put;
      lock.unlock();
      std::string fault = by(path, text);
      lock.lock();
      trouble = std::move(fault);
      done = number;
      changed.notify_all();
    }
    ended = true;
    changed.notify_all();
  }
};

state_file::state_file(fs::path path, write_call by, std::chrono::milliseconds longest_end)
    : shared_(std::make_shared<shared>()), longest_end_(longest_end) {
  shared_->path = std::move(path);
  shared_->by = std::move(by);
  std::thread([s = shared_] { s->work(); }).detach();
}

state_file::~state_file() {
  std::unique_lock lock(shared_->guard);
  shared_->ending = true;
  shared_->changed.notify_all();
  if (shared_->changed.wait_for(lock, longest_end_, [&] { return shared_->ended; })) return;
  threads_left_behind()++;
  log(log_level::warning, "state: the disk of " + shared_->path.string() +
                              " does not answer; the newest state is not kept");
}

state_file::found state_file::read() const {
  const fs::path& path = shared_->path;
  std::error_code fault;
  const fs::file_status is = fs::status(path, fault);
  if (is.type() == fs::file_type::not_found) {
    const fs::path target = fs::read_symlink(path, fault);
    if (fault) return {};  // there is nothing
    return {std::nullopt, "it is a link to " + target.string() + ", which is not there"};
  }
  // What is no file might never end, and an open of it might never return.
  if (is.type() != fs::file_type::regular)
    return {std::nullopt, fault ? fault.message() : "it is not a regular file"};
  const std::uintmax_t bytes = fs::file_size(path, fault);
  if (fault) return {std::nullopt, fault.message()};
  if (bytes > most_bytes)
    return {std::nullopt, "it has " + std::to_string(bytes) + " bytes, which no state has"};
  std::string text(bytes, '\0');
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad() || (in.fail() && !in.eof()))
    return {std::nullopt, errno == 0 ? "reading failed" : std::strerror(errno)};
  text.resize(static_cast<std::size_t>(in.gcount()));
  return {std::move(text), ""};
}

std::string state_file::leave_aside(const std::string& end) {
  const fs::path aside = shared_->path.string() + end;
  std::error_code fault;
  fs::rename(shared_->path, aside, fault);
  if (!fault) return aside.string();
  const std::lock_guard lock(shared_->guard);
  shared_->closed = true;
  shared_->trouble = failed("move aside", shared_->path, fault.value()) +
                     "; it stays as it is, and nothing is kept over a restart";
  return "";
}

std::uint64_t state_file::put(std::string text) {
  const std::lock_guard lock(shared_->guard);
  if (shared_->closed) return shared_->put;
  shared_->waiting = std::move(text);
  shared_->changed.notify_all();
  return ++shared_->put;
}

std::string state_file::wait(std::uint64_t number, std::chrono::milliseconds patience) {
  std::unique_lock lock(shared_->guard);
  if (!shared_->changed.wait_for(lock, patience, [&] { return shared_->done >= number; }))
    return "state: the disk of " + shared_->path.string() + " does not answer";
  return shared_->trouble;
}

std::string state_file::trouble() const {
  const std::lock_guard lock(shared_->guard);
  return shared_->trouble;
}

const fs::path& state_file::path() const { return shared_->path; }

fs::path state_file::written(const fs::path& path) {
  std::error_code fault;
  fs::path behind = fs::canonical(path, fault);
  return fault ? path : behind;
}

state_file::write_call state_file::under(std::shared_ptr<folder_locks> locks) {
  return [locks = std::move(locks)](const fs::path& path, const std::string& text) {
    const fs::path real = written(path);
    for (const fs::path& folder : {path.parent_path(), real.parent_path()})
      if (const std::string refused = locks->keep(folder); !refused.empty())
        return "state: " + refused;
    return write(real, text);  // and not where a link leads by then
  };
}

std::string state_file::write(const fs::path& wanted, const std::string& text) {
  std::error_code fault;
  const fs::path path = written(wanted);
  fs::create_directories(path.parent_path(), fault);
  if (fault) return failed("make", path.parent_path(), fault.value());
  const fs::path beside = path.string() + ".new";
  const int file = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (file < 0) return failed("create", beside, errno);
  const bool good = write_all(file, text);
  const int error = errno;
  close(file);
  if (!good) return failed("write", beside, error);
  fs::rename(beside, path, fault);
  return fault ? failed("replace", path, fault.value()) : "";
}

}  // namespace terrane::daemon

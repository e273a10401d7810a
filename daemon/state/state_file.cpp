#include "daemon/state/state_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <unistd.h>

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

state_file::state_file(fs::path path) : path_(std::move(path)), thread_([this] { work(); }) {}

state_file::~state_file() {
  {
    std::lock_guard lock(guard_);
    ending_ = true;
  }
  filled_.notify_one();
  thread_.join();
}

std::optional<std::string> state_file::read() {
  std::error_code fault;
  if (!fs::exists(path_, fault)) return std::nullopt;
  // What is no file might never end, and an open of it might never return.
  const bool is_file = fs::is_regular_file(path_, fault);
  const std::uintmax_t bytes = is_file ? fs::file_size(path_, fault) : 0;
  std::string text(is_file && !fault && bytes <= most_bytes ? bytes : 0, '\0');
  std::ifstream in;
  if (is_file) in.open(path_, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (fault || !in.is_open() || in.bad() || bytes > most_bytes) {
    std::lock_guard lock(guard_);
    trouble_ = "state: cannot read " + path_.string();
    return std::nullopt;
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

std::string state_file::leave_aside() {
  const fs::path aside = path_.string() + ".left-aside";
  std::error_code fault;
  fs::rename(path_, aside, fault);
  return fault ? "" : aside.string();
}

void state_file::put(std::string text) {
  {
    std::lock_guard lock(guard_);
    waiting_ = std::move(text);
  }
  filled_.notify_one();
}

std::string state_file::trouble() const {
  std::lock_guard lock(guard_);
  return trouble_;
}

void state_file::work() {
  while (true) {
    std::string text;
    {
      std::unique_lock lock(guard_);
      filled_.wait(lock, [&] { return ending_ || waiting_; });
      if (!waiting_) return;
      text = std::move(*waiting_);
      waiting_.reset();
    }
    std::string trouble = write(text);
    std::lock_guard lock(guard_);
    trouble_ = std::move(trouble);
  }
}

std::string state_file::write(const std::string& text) const {
  std::error_code fault;
  fs::create_directories(path_.parent_path(), fault);
  if (fault) return failed("make", path_.parent_path(), fault.value());
  const fs::path beside = path_.string() + ".new";
  const int file = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (file < 0) return failed("create", beside, errno);
  const bool good = write_all(file, text);
  const int error = errno;
  close(file);
  if (!good) return failed("write", beside, error);
  fs::rename(beside, path_, fault);
  return fault ? failed("replace", path_, fault.value()) : "";
}

}  // namespace terrane::daemon

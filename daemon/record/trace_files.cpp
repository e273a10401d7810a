#include "daemon/record/trace_files.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/journal/log.hpp"
#include "daemon/process/left_behind.hpp"

namespace terrane::daemon {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view name_begin = "trace-", name_end = ".jsonl";
// What may wait for a disk before it counts as one that hangs.
constexpr std::uint64_t most_waiting_bytes = 32ULL << 20;

std::optional<std::uint64_t> number_of(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name.size() <= name_begin.size() + name_end.size() || !name.starts_with(name_begin) ||
      !name.ends_with(name_end))
    return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = name.data() + name.size() - name_end.size();
  const auto [stop, wrong] = std::from_chars(name.data() + name_begin.size(), end, number);
  return wrong == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

std::string name_of(std::uint64_t number) {
  std::string digits = std::to_string(number);
  if (digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');
  return std::string(name_begin) + digits + std::string(name_end);
}

// The recordings in a folder, oldest first.
std::vector<std::uint64_t> numbers_in(const fs::path& folder, std::error_code& fault) {
  std::vector<std::uint64_t> numbers;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault))
    if (const auto number = number_of(at->path())) numbers.push_back(*number);
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace

// The thread's own, and what it is handed; lives as long as the thread does.
class trace_files::writer {
 public:
  writer(record_settings settings, write_call write)
      : settings_(std::move(settings)), write_(write ? std::move(write) : write_call(::write)) {}
  ~writer() { close_file(); }

  void begin(std::string text) {
    std::lock_guard lock(guard_);
    progress_ = {};
    waiting_bytes_ += text.size();
    waiting_.push_back({true, std::move(text)});
    changed_.notify_all();
  }

  void add(std::string line) {
    std::lock_guard lock(guard_);
    // A line that has no line before it is of no use.
    if (progress_.of == outcome::failed || progress_.of == outcome::removed) return;
    if (waiting_bytes_ + line.size() > most_waiting_bytes) {
      progress_ = {outcome::failed,
                   "the disk of " + settings_.folder.string() + " does not keep up"};
      // The thread may be held up in the piece it took; what waits is given up.
      waiting_.clear();
      waiting_bytes_ = 0;
      return;
    }
    waiting_bytes_ += line.size();
    waiting_.push_back({false, std::move(line)});
    changed_.notify_all();
  }

  progress look() const {
    std::lock_guard lock(guard_);
    return progress_;
  }

  void work() {
    std::unique_lock lock(guard_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) break;
      const piece next = std::move(waiting_.front());
      waiting_.pop_front();
      waiting_bytes_ -= next.text.size();
      lock.unlock();
      put(next);
      lock.lock();
    }
    ended_ = true;
    changed_.notify_all();
  }

  // False where the thread has not come to its end in time.
  bool end(std::chrono::milliseconds patience) {
    std::unique_lock lock(guard_);
    ending_ = true;
    changed_.notify_all();
    if (changed_.wait_for(lock, patience, [&] { return ended_; })) return true;
    waiting_.clear();  // nothing more is begun
    return false;
  }

 private:
  struct piece {
    bool begins = false;
    std::string text;
  };

  void put(const piece& p) {
    if (p.begins) open_next();
    if (file_ < 0) return;
    for (std::size_t done = 0; done < p.text.size();) {
      const ssize_t n = write_(file_, p.text.data() + done, p.text.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return fail("cannot write " + path_.string(), n < 0 ? errno : EIO);
      done += static_cast<std::size_t>(n);
    }
    whole_bytes_ += static_cast<off_t>(p.text.size());
    if (!is_there()) {
      close_file();
      return stop({outcome::removed, path_.string() + " was removed"});
    }
    std::lock_guard lock(guard_);
    if (progress_.of == outcome::waiting) progress_.of = outcome::written;
  }

  // Whether the path still names the file that is open: else it was removed, or its folder was, and
  // what is written would go when it is closed.
  bool is_there() const {
    struct stat opened = {};
    struct stat named = {};
    if (fstat(file_, &opened) != 0) return true;  // nothing is known of it
    return stat(path_.c_str(), &named) == 0 && named.st_ino == opened.st_ino &&
           named.st_dev == opened.st_dev;
  }

  void open_next() {
    close_file();
    std::error_code fault;
    fs::create_directories(settings_.folder, fault);
    if (fault) return fail("cannot make " + settings_.folder.string(), fault.value());
    if (std::string why = settings_.refused ? settings_.refused() : ""; !why.empty())
      return stop({outcome::failed, std::move(why)});
    const std::vector<std::uint64_t> there = numbers_in(settings_.folder, fault);
    if (fault) return fail("cannot read " + settings_.folder.string(), fault.value());
    const std::size_t kept = settings_.files - 1;
    for (std::size_t i = 0; i + kept < there.size(); i++) {
      fs::remove(settings_.folder / name_of(there[i]), fault);
      if (fault)
        return fail("cannot remove " + (settings_.folder / name_of(there[i])).string(),
                    fault.value());
    }
    path_ = settings_.folder / name_of(there.empty() ? 1 : there.back() + 1);
    whole_bytes_ = 0;
    file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0640);
    if (file_ < 0) fail("cannot create " + path_.string(), errno);
  }

  void fail(const std::string& what, int error) {
    // A line of which a part is there would look as if the daemon had been killed.
    const bool whole = file_ < 0 || ftruncate(file_, whole_bytes_) == 0;
    // Empty files would push out those that hold something.
    if (file_ >= 0 && whole_bytes_ == 0) (void)unlink(path_.c_str());
    close_file();
    stop({outcome::failed,
          what + ": " + std::strerror(error) + (whole ? "" : "; its last line is cut")});
  }

  void stop(progress why) {
    std::lock_guard lock(guard_);
    // A file that was begun since has not failed.
    for (const piece& p : waiting_)
      if (p.begins) return;
    progress_ = std::move(why);
  }

  void close_file() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }

  const record_settings settings_;
  const write_call write_;

  mutable std::mutex guard_;
  std::condition_variable changed_;
  std::deque<piece> waiting_;
  std::uint64_t waiting_bytes_ = 0;
  progress progress_;
  bool ending_ = false, ended_ = false;

  // Of the thread.
  int file_ = -1;
  fs::path path_;
  off_t whole_bytes_ = 0;  // of whole lines
};

trace_files::trace_files(record_settings settings, write_call write,
                         std::chrono::milliseconds longest_end)
    : writer_(std::make_shared<writer>(std::move(settings), std::move(write))),
      longest_end_(longest_end) {
  std::thread([w = writer_] { w->work(); }).detach();
}

trace_files::~trace_files() {
  if (writer_->end(longest_end_)) return;
  threads_left_behind()++;
  log(log_level::warning, "record: the disk does not answer; the recording's end is not kept");
}

void trace_files::begin(std::string text) { writer_->begin(std::move(text)); }
void trace_files::add(std::string line) { writer_->add(std::move(line)); }
trace_files::progress trace_files::look() const { return writer_->look(); }

}  // namespace terrane::daemon

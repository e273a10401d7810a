// The files of a recording, written on a thread of their own, so that a slow, full or hanging disk
// never holds up who records. Files are called trace-00000001.jsonl and so on; a new one has the
// next number, and the oldest go so that there are never more than asked for. Other files in the
// folder are left alone. Each line is one write: a process that is killed leaves at most its last
// line cut. After a write that fails the file is cut back to its whole lines.
//
// begin(), add() and look() are called from one thread. The destructor writes what it was given,
// and gives up a disk that hangs.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <sys/types.h>

namespace terrane::daemon {

struct record_settings {
  std::filesystem::path folder;            // made if need be; empty: nothing is recorded
  std::uint64_t file_bytes = 16ULL << 20;  // the next file begins once one is as large
  std::uint32_t files = 8;                 // kept, with the one that is being written
  // Asked before each file is begun, on the writing thread: why it must not be, such as another
  // daemon that writes there. None: it may.
  std::function<std::string()> refused{};
};

class trace_files {
 public:
  // As write(2); tests put a disk that is full in its place.
  using write_call = std::function<ssize_t(int file, const char* bytes, std::size_t count)>;

  // removed: the file, or its folder, is not there any more.
  enum class outcome { waiting, written, failed, removed };
  struct progress {
    outcome of = outcome::waiting;  // of what was handed over since begin()
    std::string why;                // failed, removed: a clause with the path
  };

  // `longest_end`: how long the destructor waits for the disk.
  explicit trace_files(record_settings settings, write_call write = {},
                       std::chrono::milliseconds longest_end = std::chrono::seconds(5));
  ~trace_files();
  trace_files(const trace_files&) = delete;
  trace_files& operator=(const trace_files&) = delete;

  // What is added from now on goes into a new file that begins with `text`.
  void begin(std::string text);
  void add(std::string line);
  progress look() const;

 private:
  class writer;
  std::shared_ptr<writer> writer_;
  std::chrono::milliseconds longest_end_;
};

}  // namespace terrane::daemon

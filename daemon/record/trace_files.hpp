// The files of a recording, written on a thread of their own, so that a slow, full or hanging disk
// never holds up who records. Files are called trace-00000001.jsonl and so on; a new one has the
// next number, and the oldest go so that there are never more than asked for. Other files in the
// folder are left alone. Each line is one write: a process that is killed leaves at most its last
// line cut. After a write that fails the file is cut back to its whole lines.
//
// begin(), add() and progress() are called from one thread. The destructor writes what it was
// given.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include <sys/types.h>

namespace terrane::daemon {

struct record_settings {
  std::filesystem::path folder;            // made if need be; empty: nothing is recorded
  std::uint64_t file_bytes = 16ULL << 20;  // the next file begins once one is as large
  std::uint32_t files = 8;                 // kept, with the one that is being written
};

class trace_files {
 public:
  // As write(2); tests put a disk that is full in its place.
  using write_call = std::function<ssize_t(int file, const char* bytes, std::size_t count)>;

  enum class outcome { waiting, written, failed };
  struct progress {
    outcome of = outcome::waiting;  // of what was handed over since begin()
    std::string why;                // failed: a clause with the path
  };

  explicit trace_files(record_settings settings, write_call write = {});
  ~trace_files();

  // What is added from now on goes into a new file that begins with `text`.
  void begin(std::string text);
  void add(std::string line);
  progress look() const;

 private:
  struct piece {
    bool begins = false;
    std::string text;
  };

  void work();
  void put(const piece& p);
  void open_next();
  void fail(const std::string& what, int error);
  void close_file();

  const record_settings settings_;
  const write_call write_;

  mutable std::mutex guard_;
  std::condition_variable filled_;
  std::deque<piece> waiting_;
  std::uint64_t waiting_bytes_ = 0;
  progress progress_;
  bool ending_ = false;

  // Of the thread.
  int file_ = -1;
  std::filesystem::path path_;
  off_t whole_bytes_ = 0;  // of whole lines
  std::thread thread_;
};

}  // namespace terrane::daemon

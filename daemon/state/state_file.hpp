// The file that the kept state lies in. Written on a thread of its own, the newest text only,
// beside it and then renamed, so that a daemon that ends at any moment leaves a whole file. Who
// writes waits only if it asks to, and only so long; a disk that hangs keeps nobody from ending.
// Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/process/folder_lock.hpp"

namespace terrane::daemon {

class state_file {
 public:
  // Puts the text into the file; says what is wrong, nothing if it is there. Tests put a disk that
  // hangs in its place.
  using write_call =
      std::function<std::string(const std::filesystem::path& path, const std::string& text)>;
  static std::string write(const std::filesystem::path& path, const std::string& text);
  // The file that is written for a path: where that is a link, what it leads to.
  static std::filesystem::path written(const std::filesystem::path& path);
  // Writes as long as the folder of what is written is this daemon's, and the path's as well.
  static write_call under(std::shared_ptr<folder_locks> locks);

  // `longest_end`: how long the destructor waits for what was put last.
  explicit state_file(std::filesystem::path path, write_call by = write,
                      std::chrono::milliseconds longest_end = std::chrono::seconds(5));
  ~state_file();
  state_file(const state_file&) = delete;
  state_file& operator=(const state_file&) = delete;

  // What lies there; nothing when there is no file. One that cannot be read fails with why.
  struct found {
    std::optional<std::string> text;
    std::string trouble;
  };
  found read() const;
  // Out of the way, so that it is not overwritten, under its name with `end`; returns which. Empty:
  // it stays, and from now on nothing is written.
  std::string leave_aside(const std::string& end);
  // Returns its number, for wait().
  std::uint64_t put(std::string text);
  // Returns when that, or something newer, lies on the disk. What is wrong otherwise: it could not
  // be written, or not within `patience`.
  std::string wait(std::uint64_t number, std::chrono::milliseconds patience);
  // Why the last writing failed; empty when it did not.
  std::string trouble() const;
  const std::filesystem::path& path() const;

 private:
  struct shared;
  std::shared_ptr<shared> shared_;
  std::chrono::milliseconds longest_end_;
};

}  // namespace terrane::daemon

// The file that the kept state lies in. Written on a thread of its own, the newest text only,
// beside it and then renamed, so that a daemon that ends at any moment leaves a whole file. Who
// writes is never held up and never fails. put() and trouble() from any thread.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace terrane::daemon {

class state_file {
 public:
  explicit state_file(std::filesystem::path path);
  ~state_file();  // writes what was put last

  // What lies there; nothing when there is no file. One that cannot be read is a trouble.
  std::optional<std::string> read();
  // Out of the way, so that it is not overwritten; returns under which name. Empty: it stays.
  std::string leave_aside();
  void put(std::string text);
  // Why the last writing or reading failed; empty when it did not.
  std::string trouble() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  void work();
  std::string write(const std::string& text) const;  // what is wrong

  const std::filesystem::path path_;
  mutable std::mutex guard_;
  std::condition_variable filled_;
  std::optional<std::string> waiting_;
  std::string trouble_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace terrane::daemon

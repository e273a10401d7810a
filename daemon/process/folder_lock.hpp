// Folders that one daemon alone may write to: its state's, its recording's. A lock is a file in the
// folder that the process holds; it ends with the process, however that ends. Where the folder (or
// the lock's file) is removed while it is held, keep() takes the one that stands there now, or says
// that another daemon was quicker. Any thread.
#pragma once

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace terrane::daemon {

class folder_locks {
 public:
  // Waits a moment, false once it was long enough. Tests put in its place what happens meanwhile.
  using wait_call = std::function<bool()>;
  // A daemon that was killed holds its locks until the kernel has taken it down: two seconds are
  // enough for that.
  static wait_call for_two_seconds();

  // `opened` is called between the opening of a lock's file and its locking: tests remove it then.
  explicit folder_locks(std::function<void()> opened = {}) : opened_(std::move(opened)) {}
  ~folder_locks();
  folder_locks(const folder_locks&) = delete;
  folder_locks& operator=(const folder_locks&) = delete;

  // Takes a folder, which is made if need be; the same one may be taken again. Returns why it
  // cannot be had: "FOLDER is used by another terraned (process 12); ...". A folder that cannot be
  // written is nobody's, and no fault here.
  std::string take(const std::filesystem::path& folder, const wait_call& wait = for_two_seconds());
  // Before something is written to a folder that was taken: why it must not be, or nothing. Does
  // not wait.
  std::string keep(const std::filesystem::path& folder);

 private:
  struct held {
    std::filesystem::path real;  // the folder, without links
    int file = -1;
  };
  // The folder's lock, made if need be and locked; how that went.
  enum class outcome { locked, taken, removed, impossible };
  struct attempt {
    outcome of = outcome::impossible;
    int file = -1;        // locked
    std::string by = {};  // taken: who has it
  };
  attempt try_lock(const std::filesystem::path& real) const;

  std::function<void()> opened_;
  std::mutex guard_;
  std::vector<held> held_;
};

}  // namespace terrane::daemon

// Folders that one daemon alone may write to: its state's, its recording's. A lock ends with the
// process, however that ends.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace terrane::daemon {

class folder_locks {
 public:
  folder_locks() = default;
  ~folder_locks();
  folder_locks(const folder_locks&) = delete;
  folder_locks& operator=(const folder_locks&) = delete;

  // Takes a folder, which is made if need be; the same one may be taken again. Returns why it
  // cannot be had: "... is used by another terraned (process 12)". A folder that cannot be written
  // is nobody's, and no fault here.
  std::string take(const std::filesystem::path& folder, const std::string& what);

 private:
  std::vector<int> files_;
  std::vector<std::filesystem::path> folders_;
};

}  // namespace terrane::daemon

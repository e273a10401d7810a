// Names of users by number, from a local file of users (/etc/passwd). Directory services are not
// asked: a call to one may take seconds, and the control loop waits for nobody. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace terrane::daemon {

class user_names {
 public:
  explicit user_names(std::filesystem::path file = "/etc/passwd") : file_(std::move(file)) {}

  // The user's name, or the number as text where the file has none. The file is read once for each
  // number.
  const std::string& name_of(std::int64_t uid);

 private:
  std::filesystem::path file_;
  std::map<std::int64_t, std::string> known_;
};

}  // namespace terrane::daemon

#include "daemon/telemetry/user_names.hpp"

#include <fstream>

namespace terrane::daemon {

namespace {

// The name in a line "name:password:uid:..." of that user; empty in every other line.
std::string name_in(const std::string& line, const std::string& uid) {
  const std::size_t name_end = line.find(':');
  if (name_end == std::string::npos || name_end == 0) return {};
  const std::size_t password_end = line.find(':', name_end + 1);
  if (password_end == std::string::npos) return {};
  const std::string_view rest = std::string_view(line).substr(password_end + 1);
  return rest.starts_with(uid + ":") ? line.substr(0, name_end) : std::string();
}

}  // namespace

const std::string& user_names::name_of(std::int64_t uid) {
  const auto known = known_.find(uid);
  if (known != known_.end()) return known->second;
  const std::string number = std::to_string(uid);
  std::string name = number;
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);) {
    const std::string found = name_in(line, number);
    if (found.empty()) continue;
    name = found;
    break;
  }
  return known_.emplace(uid, std::move(name)).first->second;
}

}  // namespace terrane::daemon

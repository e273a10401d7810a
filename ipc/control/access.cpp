#include "ipc/control/access.hpp"

#include <cerrno>
#include <vector>

#include <grp.h>

namespace terrane::ipc {

access_level level_of(const varlink::peer& who, const level_rules& rules) {
  if (who.uid == 0 || who.uid == rules.daemon_uid) {
    return access_level::admin;
  }
  if (rules.admin_group && who.in_group(*rules.admin_group)) {
    return access_level::admin;
  }
  if (rules.operate_group && who.in_group(*rules.operate_group)) {
    return access_level::operate;
  }
  return access_level::observe;
}

std::optional<gid_t> group_named(const std::string& name) {
  std::vector<char> buffer(4096);
  for (;;) {
    group entry{};
    group* found = nullptr;
    const int wrong = getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (wrong == ERANGE && buffer.size() < 16 * 1024 * 1024) {
      buffer.resize(buffer.size() * 2);  // a group with many members
      continue;
    }
    return wrong == 0 && found != nullptr ? std::optional(entry.gr_gid) : std::nullopt;
  }
}

}  // namespace terrane::ipc

// Who may do what: a peer's level, from its user and groups. Plain values and functions; any
// thread.
#pragma once

#include <optional>
#include <string>

#include "ipc/control/types.hpp"
#include "ipc/varlink/peer.hpp"

namespace terrane::ipc {

struct level_rules {
  std::optional<gid_t> operate_group;  // empty: the system has no such group
  std::optional<gid_t> admin_group;
  uid_t daemon_uid = 0;
};

// Root and the daemon's own user: admin. Then by group; everybody else: observe.
access_level level_of(const varlink::peer& who, const level_rules& rules);

// The number of a group, asked of the system.
std::optional<gid_t> group_named(const std::string& name);

}  // namespace terrane::ipc

// Who is at the other end of a Unix socket, as the kernel recorded when it connected (SO_PEERCRED,
// SO_PEERGROUPS). Plain values; any thread.
#pragma once

#include <vector>

#include <sys/types.h>

#include "ipc/result.hpp"

namespace terrane::ipc::varlink {

struct peer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
  std::vector<gid_t> groups;  // supplementary

  bool in_group(gid_t group) const;
};

result<peer> peer_of(int descriptor);

}  // namespace terrane::ipc::varlink

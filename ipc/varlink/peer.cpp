#include "ipc/varlink/peer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>

namespace terrane::ipc::varlink {

bool peer::in_group(gid_t group) const {
  return gid == group || std::find(groups.begin(), groups.end(), group) != groups.end();
}

result<peer> peer_of(int descriptor) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return fail(error_code::io, std::string("SO_PEERCRED: ") + std::strerror(errno));
  }
  peer who{credentials.uid, credentials.gid, credentials.pid, {}};

  // The kernel says ERANGE and the length it needs when there are more.
  who.groups.resize(64);
  for (;;) {
    length = static_cast<socklen_t>(who.groups.size() * sizeof(gid_t));
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERGROUPS, who.groups.data(), &length) == 0) {
      who.groups.resize(length / sizeof(gid_t));
      return who;
    }
    if (errno != ERANGE || length <= who.groups.size() * sizeof(gid_t)) {
      return fail(error_code::io, std::string("SO_PEERGROUPS: ") + std::strerror(errno));
    }
    who.groups.resize(length / sizeof(gid_t));
  }
}

}  // namespace terrane::ipc::varlink

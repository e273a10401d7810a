#include "engine/device/paths.hpp"

namespace terrane::engine {

const char* to_string(copy_way way) {
  switch (way) {
    case copy_way::peer:
      return "peer";
    case copy_way::shared:
      return "shared";
    case copy_way::memory:
      return "memory";
    case copy_way::host:
      return "host";
    case copy_way::staged:
      return "staged";
  }
  return "unknown";
}

namespace {

copy_way way_through_the_host(const device& from, const device& to) {
  const bool begins = from.info().host_memory, ends = to.info().host_memory;
  if (begins && ends) return copy_way::memory;
  return begins || ends ? copy_way::host : copy_way::staged;
}

}  // namespace

std::vector<copy_path> find_paths(std::span<device* const> devices) {
  std::vector<copy_path> out;
  for (std::uint32_t a = 0; a < devices.size(); a++)
    for (std::uint32_t b = 0; b < devices.size(); b++) {
      if (a == b) continue;
      device &from = *devices[a], &to = *devices[b];
      const bool alike = from.info().kind == to.info().kind,
                 one_card = !from.info().card.empty() && from.info().card == to.info().card;
      copy_path path{a, b, one_card ? copy_way::shared : copy_way::peer, ""};
      if (const std::string& why = to.no_direct_path(from); !why.empty()) {
        path.way = way_through_the_host(from, to);
        if ((alike || one_card) && path.way == copy_way::staged) path.no_direct = why;
      }
      out.push_back(std::move(path));
    }
  return out;
}

}  // namespace terrane::engine

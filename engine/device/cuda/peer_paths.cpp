#include "engine/device/cuda/peer_paths.hpp"

#include <vector>

namespace terrane::engine::cuda {

const std::string& peer_paths::no_path(const card_parts& from) {
  return known_.ask(from.whole.info().name, [&]() -> result<void> {
    if (result<void> ok = check_access(from); !ok) return ok;
    return probe_path(from.whole, here_.whole, [&](const copy_range& r) {
      return copy(from, {&r, 1});
    });
  });
}

result<void> peer_paths::check_access(const card_parts& from) const {
  const physical_device &here = here_.card.physical(), &there = from.card.physical();
  int reachable = 1;
  if (here.handle != there.handle && here_.card.functions().cuDeviceCanAccessPeer(
                                         &reachable, here.handle, there.handle) != CUDA_SUCCESS)
    reachable = 0;
  if (reachable != 0) return {};
  return fail(error_code::unsupported, "the driver has no peer access between these cards",
              there.info.name);
}

result<void> peer_paths::copy(const card_parts& from, std::span<const copy_range> ranges) {
  result<void> ok = from.card.enter();
  std::vector<card_range> copied;
  copied.reserve(ranges.size());
  for (const copy_range& r : ranges) {
    if (ok) ok = from.pool.let_in(r.from->address(), here_.card.physical());
    copied.push_back({r.from->address() + r.from_offset, r.to->address() + r.to_offset, r.bytes});
  }
  return ok ? copier_.copy(from.card, copied) : ok;
}

}  // namespace terrane::engine::cuda

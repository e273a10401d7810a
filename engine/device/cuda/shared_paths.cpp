#include "engine/device/cuda/shared_paths.hpp"

#include <vector>

namespace terrane::engine::cuda {

const std::string& shared_paths::no_path(device& other) {
  return known_.ask(other.info().name, [&]() -> result<void> {
    if (result<void> ok = check_card(other); !ok) return ok;
    result<void> ok = probe_path(other, here_, [&](const copy_range& r) {
      return copy(other, here_, {&r, 1});
    });
    if (!ok) return ok;
    return probe_path(here_, other, [&](const copy_range& r) {
      return copy(here_, other, {&r, 1});
    });
  });
}

result<void> shared_paths::check_card(device& other) const {
  const auto* exporter = dynamic_cast<exports_memory*>(&other);
  std::string why;
  if (exporter == nullptr)
    why = "its driver exports no memory";
  else if (other.info().card.empty() || other.info().card != here_.info().card)
    why = "it is another card";
  else
    why = exporter->no_export();
  if (why.empty()) return {};
  return fail(error_code::unsupported, why, other.info().name);
}

result<std::uint64_t> shared_paths::address_of(device& owner, const device_memory& of) {
  if (&owner == &here_) return of.address();
  return dynamic_cast<exports_memory&>(owner).address_elsewhere(
      of, [this](int descriptor, std::uint64_t bytes) { return foreign_.map(descriptor, bytes); });
}

result<void> shared_paths::copy(device& from, device& to, std::span<const copy_range> ranges) {
  std::vector<card_range> copied;
  copied.reserve(ranges.size());
  for (const copy_range& r : ranges) {
    result<std::uint64_t> source = address_of(from, *r.from);
    if (!source) return tl::unexpected<error>(source.error());
    result<std::uint64_t> target = address_of(to, *r.to);
    if (!target) return tl::unexpected<error>(target.error());
    copied.push_back({*source + r.from_offset, *target + r.to_offset, r.bytes});
  }
  return copier_.copy(card_, copied);
}

}  // namespace terrane::engine::cuda

#include "policies/placement/pools.hpp"

#include <algorithm>
#include <map>

namespace terrane::policies::placement {
namespace {

std::uint64_t bytes_of_card(const std::vector<memory_source>& devices, const pool& of) {
  std::uint64_t known = 0, budget = 0;
  for (std::uint32_t d : of.devices) {
    const memory_source& from = devices[d];
    budget = std::max(budget, from.budget_bytes);
    if (from.card_bytes != 0 && (known == 0 || from.card_bytes < known)) known = from.card_bytes;
  }
  return std::max(known, budget);
}

}  // namespace

std::vector<pool> make_pools(const std::vector<memory_source>& devices, std::uint64_t host_bytes) {
  pool host{"the host's memory", {}, host_bytes};
  std::map<std::string, pool> cards;
  for (std::uint32_t d = 0; d < devices.size(); ++d) {
    const memory_source& from = devices[d];
    if (from.host_memory) {
      host.devices.push_back(d);
    } else if (!from.card.empty()) {
      pool& card = cards[from.card];
      card.name = "the memory of card " + from.card;
      card.devices.push_back(d);
    }
  }
  std::vector<pool> out;
  if (host_bytes != 0 && host.devices.size() > 1) out.push_back(std::move(host));
  for (auto& [name, card] : cards) {
    if (card.devices.size() < 2) continue;
    card.budget_bytes = bytes_of_card(devices, card);
    out.push_back(std::move(card));
  }
  return out;
}

}  // namespace terrane::policies::placement

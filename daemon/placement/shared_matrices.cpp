#include "daemon/placement/shared_matrices.hpp"

#include <map>

namespace terrane::daemon {

std::vector<shared_matrix> shared_matrices(const engine::model& of) {
  std::map<std::uint32_t, int> readers;
  for (const engine::model_part& p : of.parts())
    for (std::uint32_t b : p.blocks) readers[b]++;
  std::map<std::uint32_t, std::int32_t> numbers;
  for (const auto& [block, count] : readers)
    if (count > 1) numbers.emplace(block, static_cast<std::int32_t>(numbers.size()));
  std::vector<shared_matrix> out(of.parts().size());
  for (engine::part_index p = 0; p < out.size(); p++)
    for (std::uint32_t b : of.parts()[p].blocks)
      if (const auto found = numbers.find(b); found != numbers.end())
        out[p] = {found->second, of.blocks()[b].bytes};
  return out;
}

}  // namespace terrane::daemon

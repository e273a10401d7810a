#include "engine/device/compile_all.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

namespace terrane::engine {

result<void> compile_all(device& on, std::span<const kernels::program> programs) {
  std::vector<result<void>> outcomes(programs.size());
  std::atomic<std::size_t> next{0};
  auto work = [&] {
    for (std::size_t k = next++; k < programs.size(); k = next++) {
      if (auto made = on.compile(programs[k]); !made)
        outcomes[k] = tl::unexpected<error>(made.error());
    }
  };
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> others(std::min(cores, programs.size()) - (programs.empty() ? 0 : 1));
  for (std::thread& t : others) t = std::thread(work);
  work();
  for (std::thread& t : others) t.join();
  for (const result<void>& outcome : outcomes)
    if (!outcome) return outcome;
  return {};
}

}  // namespace terrane::engine

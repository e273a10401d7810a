// What workers fetch into their caches while they wait: of the next phase that reads matrices, each
// the first rows of its share. Norms and other small phases leave most of them idle, and memory
// with them. Workers are told when a phase that they share is opened, so before the first of these
// in a list nothing is fetched.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/device/cpu/worker_pool.hpp"
#include "engine/device/device.hpp"

namespace terrane::engine {

// Half of this processor's second cache, in bytes; something small where it does not say.
std::size_t fetched_at_most();

class fetch_plan {
 public:
  fetch_plan() = default;
  // Sets `next` of a list's phases, which were made of `dispatches`; the plan has to live as long.
  fetch_plan(std::span<cpu_phase> phases, std::span<const dispatch> dispatches, unsigned threads,
             std::size_t most_bytes);

 private:
  std::vector<fetch_ahead> fetches_;  // by phase with matrices, from the last one, and worker
};

}  // namespace terrane::engine

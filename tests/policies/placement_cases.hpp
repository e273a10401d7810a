// Requests for tests of the planner: models and machines made by numbers, and the best placement
// found by trying every one.
#pragma once

#include <cstdint>
#include <optional>
#include <random>

#include "policies/placement/prediction.hpp"
#include "policies/placement/request.hpp"

namespace terrane::policies::tests {

// What a random request is like.
struct case_shape {
  std::uint32_t parts = 7, devices = 3;
  bool alike = false;      // layers of two sizes, as models have them
  double tightness = 0.8;  // share of all room that is needed, about
  double crossing = 0.05;  // of a token's time, about, for one crossing
  bool wishes = false;     // pins, exclusions, limits
  bool shared = false;     // the first and the last part share a matrix
};

placement::request random_request(std::mt19937_64& random, const case_shape& shape);

// A transformer: embedding, layers of attention with KV and feed-forward, head.
placement::request transformer(std::uint32_t layers, std::uint64_t attention_bytes,
                               std::uint64_t feed_forward_bytes, std::uint64_t kv_page_bytes);
// Adds a device that reads `bytes_per_s`; times follow from the parts' bytes. All parts first.
std::uint32_t add_device(placement::request& r, const std::string& name, std::uint64_t budget_bytes,
                         double bytes_per_s);

// The least time of a token over all legal placements, by trying every one; nothing when none is
// legal. Only ranks up to `rank` are used.
std::optional<double> least_token_s(const placement::request& r, std::uint32_t rank = ~0U);

}  // namespace terrane::policies::tests

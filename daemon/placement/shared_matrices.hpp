// Which parts of a model read one matrix: a head that has none of its own reads the embedding's. A
// device has such a matrix once, from the first of these parts until the last. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/model.hpp"

namespace terrane::daemon {

struct shared_matrix {
  std::int32_t number = -1;  // of the matrix, counted from 0; -1: the part shares none
  std::uint64_t bytes = 0;   // of the part's weights
};

// By part. Of several that a part shares, the last.
std::vector<shared_matrix> shared_matrices(const engine::model& of);

}  // namespace terrane::daemon

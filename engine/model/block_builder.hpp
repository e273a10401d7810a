// Collects the tensors of weight blocks while an architecture reads a file: finds each by name,
// checks its shape and format, and lays it out. The first fault is kept and returned by finish().
// Not thread safe; used while a model opens.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "engine/model/model.hpp"

namespace terrane::engine {

class block_builder {
 public:
  explicit block_builder(const gguf::file& file) : file_(file) {}

  // Begins a block; tensors that follow belong to it. Returns its index.
  std::uint32_t begin(std::string name);
  // A matrix of n rows by k columns.
  void matrix(const std::string& tensor, std::uint64_t n, std::uint64_t k);
  // A vector of n elements, kept as f32.
  void vector(const std::string& tensor, std::uint64_t n);
  // A tensor of the file that is read some other way.
  void take(const std::string& tensor) { taken_.insert(tensor); }

  bool has(const std::string& tensor) const { return file_.find(tensor) != nullptr; }

  // The blocks; or the first fault; or a tensor of the file that nothing asked for.
  result<std::vector<weight_block>> finish();

 private:
  void add(const std::string& tensor, std::uint64_t n, std::uint64_t k, bool is_matrix);
  void fault(error e);

  const gguf::file& file_;
  std::vector<weight_block> blocks_;
  std::unordered_set<std::string> taken_;
  std::optional<error> fault_;
};

// The head with its blocks: the last norm, and the matrix output.weight; or, where the file has
// none, the embedding's (tied).
model_part head_part(block_builder& b, const model_config& c, std::uint32_t embedding);

}  // namespace terrane::engine

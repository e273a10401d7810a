// A model as the engine knows it: its dimensions, its parts, and which tensors of the file each
// part needs. Opening checks every tensor against the shape that the architecture expects and reads
// no weights. Immutable once open; any thread.
//
// A part is the unit of placement: "embedding", "layer.N.attn" (with its KV cache), "layer.N.ffn",
// "head". Weights come in blocks, the unit of loading and of copying: a part's own tensors are one
// block; a matrix that two parts share (tied embeddings) is a block of its own, so that a device
// with both holds it once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/file.hpp"
#include "kernels/formats/format.hpp"
#include "kernels/ops/ops.hpp"

namespace terrane::engine {

enum class part_kind : std::uint8_t { embedding, attention, feed_forward, head };

using part_index = std::uint32_t;

struct model_part {
  std::string name;
  part_kind kind = part_kind::embedding;
  std::uint32_t layer = 0;            // of attention and feed_forward
  std::vector<std::uint32_t> blocks;  // indices into model::blocks
};

// A tensor within a block, in the form the kernels read: packed matrices, or f32 vectors.
struct block_tensor {
  const gguf::tensor* source = nullptr;
  const kernels::weight_format* format = nullptr;  // of a matrix; null for a vector
  std::uint64_t n = 0;                             // rows of a matrix; elements of a vector
  std::uint64_t k = 0;                             // columns of a matrix; 1 for a vector
  std::uint64_t offset = 0;                        // bytes in the block
  std::uint64_t bytes = 0;
};

struct weight_block {
  std::string name;
  std::vector<block_tensor> tensors;  // in the order the architecture names them
  std::uint64_t bytes = 0;
};

struct rope_settings {
  float theta = 10000.0F;
  float linear_factor = 1.0F;  // positions are divided by it
  std::vector<float> factors;  // one a frequency, which it divides; empty: none
  std::uint32_t rotated = 0;   // elements of a head that turn
  kernels::rope_pairs pairs = kernels::rope_pairs::adjacent;
};

// What may differ from layer to layer.
struct layer_settings {
  std::uint32_t window = 0;  // keys a query sees, itself included; 0: all
  std::uint32_t rope = 0;    // index into model_config::ropes
};

struct model_config {
  std::string architecture;
  std::string name;          // as the file says, may be empty
  std::string quantization;  // format with the most bytes, for people
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t feed_forward = 0;
  std::uint32_t vocabulary = 0;
  std::uint32_t context_tokens = 0;  // what the model was trained for
  float norm_epsilon = 0;
  float embedding_scale = 1;           // a row of the embedding is multiplied by it
  kernels::attention_shape attention;  // of every layer, its window aside
  std::vector<rope_settings> ropes;    // the kinds of rotary positions that layers have
  std::vector<layer_settings> by_layer;

  kernels::attention_shape attention_of(std::uint32_t layer) const {
    kernels::attention_shape shape = attention;
    shape.window = by_layer[layer].window;
    return shape;
  }
  const rope_settings& rope_of(std::uint32_t layer) const { return ropes[by_layer[layer].rope]; }
};

struct architecture;
class part_recorder;

// Which phases of a part: an attention part is recorded in two halves, up to its queries and what
// comes after attention, which is the same for every architecture and reaches pages on other
// devices. Other parts have only a first half.
enum class part_half { first, second };

class model {
 public:
  static result<std::unique_ptr<const model>> open(const std::filesystem::path& path);

  const gguf::file& file() const { return file_; }
  const model_config& config() const { return config_; }
  const std::vector<model_part>& parts() const { return parts_; }
  const std::vector<weight_block>& blocks() const { return blocks_; }
  std::optional<part_index> find_part(std::string_view name) const;
  // Bytes of a part's weights on a device that holds no other part.
  std::uint64_t part_bytes(part_index part) const;
  // The attention part of a layer.
  part_index attention_part(std::uint32_t layer) const { return 1 + 2 * layer; }
  std::uint64_t weight_bytes() const;  // of every block once
  // Writes the phases of a part: the architecture's graph.
  void record(part_recorder& r, const model_part& part, part_half half) const;

 private:
  model(gguf::file file, const architecture& kind) : file_(std::move(file)), kind_(kind) {}

  gguf::file file_;
  const architecture& kind_;
  model_config config_;
  std::vector<model_part> parts_;
  std::vector<weight_block> blocks_;
};

}  // namespace terrane::engine

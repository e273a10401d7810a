// What a synthetic model consists of: its shape, the metadata it carries and the tensors to fill.
// Plain data, made by pure functions; synth.cpp writes it. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/ggml_type.hpp"
#include "engine/gguf/writer.hpp"
#include "kernels/result.hpp"
#include "tests/bench/synth_blocks.hpp"

namespace terrane::bench {

struct model_shape {
  std::string_view name;
  std::string_view pre_tokenizer;
  std::uint32_t layers;
  std::uint32_t hidden;
  std::uint32_t feed_forward;
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint32_t head_size;
  std::uint32_t vocabulary;
  std::uint32_t context;
  bool tied;  // the head is the embedding
  float rope_theta;
  double rope_factor;  // of llama3 scaling; 0: none
  std::string_view architecture = "llama";
  std::uint32_t window = 0;   // gemma3: keys that a local layer sees
  std::uint32_t pattern = 0;  // gemma3: the last of so many layers is global
};

struct planned_tensor {
  std::string name;
  engine::gguf::ggml_type type;
  std::array<std::uint64_t, 2> shape;  // columns (K), rows; one row for a vector
  weight_distribution weights;
  std::vector<float> values;  // given outright when not empty
};

std::span<const model_shape> known_shapes();
result<model_shape> shape_named(std::string_view name);
std::span<const std::string_view> known_quants();

// All tensors in the order of the file. Fails on an unknown quantisation.
result<std::vector<planned_tensor>> plan_tensors(const model_shape& shape, std::string_view quant);

// The model's keys, tokenizer included.
void put_metadata(engine::gguf::writer& to, const model_shape& shape, std::string_view quant,
                  std::uint64_t seed);

}  // namespace terrane::bench

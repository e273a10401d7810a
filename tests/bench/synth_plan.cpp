#include "tests/bench/synth_plan.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/bench/synth_vocabulary.hpp"

namespace terrane::bench {
namespace {

using engine::gguf::ggml_type;

constexpr auto shapes = std::to_array<model_shape>({
    {.name = "llama-3.2-1b",
     .pre_tokenizer = "llama-bpe",
     .layers = 16,
     .hidden = 2048,
     .feed_forward = 8192,
     .heads = 32,
     .kv_heads = 8,
     .head_size = 64,
     .vocabulary = 128256,
     .context = 131072,
     .tied = true,
     .rope_theta = 500000.0F,
     .rope_factor = 32.0},
    {.name = "llama-3.2-3b",
     .pre_tokenizer = "llama-bpe",
     .layers = 28,
     .hidden = 3072,
     .feed_forward = 8192,
     .heads = 24,
     .kv_heads = 8,
     .head_size = 128,
     .vocabulary = 128256,
     .context = 131072,
     .tied = true,
     .rope_theta = 500000.0F,
     .rope_factor = 32.0},
    {.name = "llama-3.1-8b",
     .pre_tokenizer = "llama-bpe",
     .layers = 32,
     .hidden = 4096,
     .feed_forward = 14336,
     .heads = 32,
     .kv_heads = 8,
     .head_size = 128,
     .vocabulary = 128256,
     .context = 131072,
     .tied = false,
     .rope_theta = 500000.0F,
     .rope_factor = 8.0},
    {.name = "smollm2-135m",
     .pre_tokenizer = "smollm",
     .layers = 30,
     .hidden = 576,
     .feed_forward = 1536,
     .heads = 9,
     .kv_heads = 3,
     .head_size = 64,
     .vocabulary = 49152,
     .context = 8192,
     .tied = true,
     .rope_theta = 100000.0F,
     .rope_factor = 0.0},
    {.name = "tiny",
     .pre_tokenizer = "smollm",
     .layers = 3,
     .hidden = 576,
     .feed_forward = 1504,
     .heads = 9,
     .kv_heads = 3,
     .head_size = 64,
     .vocabulary = 515,
     .context = 4096,
     .tied = true,
     .rope_theta = 100000.0F,
     .rope_factor = 0.0},
    {.name = "tiny-k",
     .pre_tokenizer = "llama-bpe",
     .layers = 2,
     .hidden = 512,
     .feed_forward = 1280,
     .heads = 8,
     .kv_heads = 2,
     .head_size = 64,
     .vocabulary = 517,
     .context = 16384,
     .tied = false,
     .rope_theta = 500000.0F,
     .rope_factor = 32.0},
    {.name = "tiny-gemma3",
     .pre_tokenizer = "smollm",
     .layers = 3,
     .hidden = 256,
     .feed_forward = 768,
     .heads = 4,
     .kv_heads = 1,
     .head_size = 128,
     .vocabulary = 515,
     .context = 4096,
     .tied = true,
     .rope_theta = 1000000.0F,
     .rope_factor = 0.0,
     .architecture = "gemma3",
     .window = 100,
     .pattern = 2},
});

struct quantisation {
  std::string_view name;
  ggml_type type;
  bool mixed;               // some matrices get Q6_K instead
  std::uint32_t file_type;  // general.file_type
};

constexpr auto quantisations = std::to_array<quantisation>({
    {"F32", ggml_type::f32, false, 0},
    {"F16", ggml_type::f16, false, 1},
    {"BF16", ggml_type::bf16, false, 32},
    {"Q4_0", ggml_type::q4_0, false, 2},
    {"Q4_1", ggml_type::q4_1, false, 3},
    {"Q5_0", ggml_type::q5_0, false, 8},
    {"Q5_1", ggml_type::q5_1, false, 9},
    {"Q8_0", ggml_type::q8_0, false, 7},
    {"Q2_K", ggml_type::q2_k, false, 10},
    {"Q3_K", ggml_type::q3_k, false, 11},
    {"Q4_K", ggml_type::q4_k, false, 14},
    {"Q4_K_M", ggml_type::q4_k, true, 15},
    {"Q5_K", ggml_type::q5_k, false, 16},
    {"Q6_K", ggml_type::q6_k, false, 18},
    {"IQ4_NL", ggml_type::iq4_nl, false, 25},
    {"IQ4_XS", ggml_type::iq4_xs, false, 30},
    {"MXFP4", ggml_type::mxfp4, false, 38},
});

const quantisation* find_quant(std::string_view name) {
  const auto* found = std::ranges::find(quantisations, name, &quantisation::name);
  return found == quantisations.end() ? nullptr : found;
}

template <class Range>
std::string joined(const Range& names) {
  std::string out;
  for (const auto& item : names) {
    out += (out.empty() ? "" : ", ") + std::string(item.name);
  }
  return out;
}

// What llama.cpp uses for rows that are not made of whole blocks of 256.
ggml_type fitting(ggml_type type, std::uint64_t columns) {
  if (columns % engine::gguf::describe(type).block_elements == 0) {
    return type;
  }
  switch (type) {
    case ggml_type::q2_k:
    case ggml_type::q3_k:
      return ggml_type::q4_0;
    case ggml_type::iq4_xs:
      return ggml_type::iq4_nl;
    case ggml_type::q4_k:
      return ggml_type::q5_0;
    case ggml_type::q5_k:
      return ggml_type::q5_1;
    default:
      return ggml_type::q8_0;
  }
}

// llama.cpp's choice for the first and last eighth of the layers and every third between: there a
// mix gives attn_v and ffn_down more bits.
bool gets_more_bits(std::uint32_t layer, std::uint32_t layers) {
  const std::uint32_t eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

class planner {
 public:
  planner(const model_shape& shape, const quantisation& quant) : shape_(shape), quant_(quant) {}

  std::vector<planned_tensor> plan() {
    const model_shape& s = shape_;
    const ggml_type head_type = quant_.mixed ? ggml_type::q6_k : quant_.type;
    matrix("token_embd.weight", s.tied ? head_type : quant_.type, s.hidden, s.vocabulary);
    if (s.rope_factor > 0.0) {
      add_rope_factors();
    }
    for (std::uint32_t i = 0; i < s.layers; ++i) {
      add_layer(i);
    }
    norm("output_norm.weight");
    if (!s.tied) {
      matrix("output.weight", head_type, s.hidden, s.vocabulary);
    }
    return std::move(out_);
  }

 private:
  void add_layer(std::uint32_t i) {
    const model_shape& s = shape_;
    const std::string at = "blk." + std::to_string(i) + ".";
    const std::uint64_t q_rows = std::uint64_t{s.heads} * s.head_size;
    const std::uint64_t kv_rows = std::uint64_t{s.kv_heads} * s.head_size;
    const ggml_type more =
        quant_.mixed && gets_more_bits(i, s.layers) ? ggml_type::q6_k : quant_.type;
    const bool gemma = s.architecture == "gemma3";
    norm(at + "attn_norm.weight");
    matrix(at + "attn_q.weight", quant_.type, s.hidden, q_rows);
    matrix(at + "attn_k.weight", quant_.type, s.hidden, kv_rows);
    matrix(at + "attn_v.weight", more, s.hidden, kv_rows);
    if (gemma) {
      norm(at + "attn_q_norm.weight", s.head_size);
      norm(at + "attn_k_norm.weight", s.head_size);
    }
    matrix(at + "attn_output.weight", quant_.type, q_rows, s.hidden);
    if (gemma) {
      norm(at + "post_attention_norm.weight");
    }
    norm(at + "ffn_norm.weight");
    matrix(at + "ffn_gate.weight", quant_.type, s.hidden, s.feed_forward);
    matrix(at + "ffn_up.weight", quant_.type, s.hidden, s.feed_forward);
    matrix(at + "ffn_down.weight", more, s.feed_forward, s.hidden);
    if (gemma) {
      norm(at + "post_ffw_norm.weight");
    }
  }

  void matrix(std::string name, ggml_type type, std::uint64_t columns, std::uint64_t rows) {
    out_.push_back({.name = std::move(name),
                    .type = fitting(type, columns),
                    .shape = {columns, rows},
                    .weights = {0.0, 1.0 / std::sqrt(static_cast<double>(columns))},
                    .values = {}});
  }

  void norm(std::string name) { norm(std::move(name), shape_.hidden); }

  void norm(std::string name, std::uint64_t elements) {
    out_.push_back({.name = std::move(name),
                    .type = ggml_type::f32,
                    .shape = {elements, 1},
                    .weights = {1.0, 0.1},
                    .values = {}});
  }

  // The llama3 rule: each frequency is divided by a factor that goes from 1 for wavelengths below
  // context/high to `factor` above context/low. (Meta's Llama 3.1 reference code.)
  void add_rope_factors() {
    constexpr double low = 1.0;
    constexpr double high = 4.0;
    constexpr double context = 8192.0;
    const std::uint32_t pairs = shape_.head_size / 2;
    // theta^(1/pairs) by square roots, which round alike everywhere; pow() may not.
    double step = shape_.rope_theta;
    for (std::uint32_t p = pairs; p > 1; p /= 2) {
      step = std::sqrt(step);
    }
    std::vector<float> factors;
    double inverse_frequency = 1.0;
    for (std::uint32_t i = 0; i < pairs; ++i, inverse_frequency *= step) {
      const double turns = context / (2.0 * std::numbers::pi * inverse_frequency);
      const double smooth = std::clamp((turns - low) / (high - low), 0.0, 1.0);
      factors.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / shape_.rope_factor + smooth)));
    }
    out_.push_back({.name = "rope_freqs.weight",
                    .type = ggml_type::f32,
                    .shape = {pairs, 1},
                    .weights = {},
                    .values = std::move(factors)});
  }

  const model_shape& shape_;
  const quantisation& quant_;
  std::vector<planned_tensor> out_;
};

void put_vocabulary(engine::gguf::writer& to, const model_shape& shape) {
  const auto vocabulary = make_vocabulary(shape.vocabulary);
  to.put("tokenizer.ggml.model", "gpt2");
  to.put("tokenizer.ggml.pre", shape.pre_tokenizer);
  to.put_array("tokenizer.ggml.tokens", std::span<const std::string>(vocabulary.tokens));
  to.put_array("tokenizer.ggml.token_type", std::span<const std::int32_t>(vocabulary.token_types));
  to.put_array("tokenizer.ggml.merges", std::span<const std::string>(vocabulary.merges));
  to.put("tokenizer.ggml.bos_token_id", vocabulary.begin_of_text);
  to.put("tokenizer.ggml.eos_token_id", vocabulary.end_of_text);
  to.put("tokenizer.ggml.eot_token_id", vocabulary.end_of_turn);
  to.put("tokenizer.ggml.add_bos_token", shape.pre_tokenizer == "llama-bpe");
  to.put("tokenizer.chat_template", chat_ml_template);
}

}  // namespace

std::span<const model_shape> known_shapes() { return shapes; }

result<model_shape> shape_named(std::string_view name) {
  const auto* found = std::ranges::find(shapes, name, &model_shape::name);
  if (found == shapes.end()) {
    return fail(error_code::invalid_input,
                "no shape is named '" + std::string(name) + "'; known are " + joined(shapes));
  }
  return *found;
}

std::span<const std::string_view> known_quants() {
  static const auto names = [] {
    std::array<std::string_view, quantisations.size()> out;
    std::ranges::transform(quantisations, out.begin(), &quantisation::name);
    return out;
  }();
  return names;
}

result<std::vector<planned_tensor>> plan_tensors(const model_shape& shape, std::string_view quant) {
  const auto* found = find_quant(quant);
  if (found == nullptr) {
    return fail(error_code::invalid_input, "no quantisation is named '" + std::string(quant) +
                                               "'; known are " + joined(quantisations));
  }
  return planner(shape, *found).plan();
}

void put_metadata(engine::gguf::writer& to, const model_shape& shape, std::string_view quant,
                  std::uint64_t seed) {
  const auto* found = find_quant(quant);
  to.put("general.architecture", shape.architecture);
  to.put("general.type", "model");
  to.put("general.name", "Random weights, shape " + std::string(shape.name) + ", " +
                             std::string(quant) + ", seed " + std::to_string(seed));
  to.put("general.file_type", found->file_type);
  to.put("general.quantization_version", std::uint32_t{2});
  const std::string at = std::string(shape.architecture) + ".";
  to.put(at + "block_count", shape.layers);
  to.put(at + "context_length", shape.context);
  to.put(at + "embedding_length", shape.hidden);
  to.put(at + "feed_forward_length", shape.feed_forward);
  to.put(at + "attention.head_count", shape.heads);
  to.put(at + "attention.head_count_kv", shape.kv_heads);
  to.put(at + "attention.key_length", shape.head_size);
  to.put(at + "attention.value_length", shape.head_size);
  to.put(at + "attention.layer_norm_rms_epsilon", 1e-5F);
  to.put(at + "rope.freq_base", shape.rope_theta);
  to.put(at + "rope.dimension_count", shape.head_size);
  to.put(at + "vocab_size", shape.vocabulary);
  if (shape.window != 0) {
    to.put(at + "attention.sliding_window", shape.window);
    to.put(at + "attention.sliding_window_pattern", shape.pattern);
  }
  put_vocabulary(to, shape);
}

}  // namespace terrane::bench

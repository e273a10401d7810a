// The Llama family: RMSNorm, attention with grouped queries and rotary positions, SwiGLU. Metadata
// keys and tensor names are those of the GGUF specification for general.architecture = llama.
#include <cmath>

#include "engine/model/block_builder.hpp"
#include "engine/model/model.hpp"
#include "engine/model/part_recorder.hpp"

namespace terrane::engine {

namespace {

constexpr std::uint32_t max_layers = 1024;
constexpr std::uint32_t max_hidden = 1U << 20;
constexpr std::uint32_t max_head_size = 256;

// Reads integers and reals of "llama.*" and keeps the first fault.
class settings {
 public:
  explicit settings(const gguf::file& file) : file_(file) {}

  std::uint32_t integer(const std::string& key, std::uint32_t least, std::uint32_t most) {
    return checked(key, file_.meta().integer<std::uint32_t>("llama." + key), least, most);
  }
  std::uint32_t integer_or(const std::string& key, std::uint32_t otherwise, std::uint32_t least,
                           std::uint32_t most) {
    return checked(key, file_.meta().integer_or<std::uint32_t>("llama." + key, otherwise), least,
                   most);
  }
  float real_or(const std::string& key, float otherwise, float least, float most) {
    result<float> v = file_.meta().real_or("llama." + key, otherwise);
    if (!v) return fault(v.error()), otherwise;
    if (!(*v >= least && *v <= most)) {
      fault({error_code::invalid_input,
             std::to_string(*v) + " is not between " + std::to_string(least) + " and " +
                 std::to_string(most),
             where(key)});
    }
    return *v;
  }
  void require(bool condition, const std::string& key, const std::string& message) {
    if (!condition) fault({error_code::unsupported, message, where(key)});
  }
  void fault(error e) {
    if (!first_) first_ = std::move(e);
  }
  const std::optional<error>& first_fault() const { return first_; }
  std::string where(const std::string& key) const { return file_.meta().path() + ", llama." + key; }

 private:
  std::uint32_t checked(const std::string& key, const result<std::uint32_t>& v, std::uint32_t least,
                        std::uint32_t most) {
    if (!v) return fault(v.error()), least;
    if (*v < least || *v > most) {
      fault({error_code::invalid_input,
             std::to_string(*v) + " is not between " + std::to_string(least) + " and " +
                 std::to_string(most),
             where(key)});
      return least;
    }
    return *v;
  }

  const gguf::file& file_;
  std::optional<error> first_;
};

void read_rope(const gguf::file& file, settings& s, std::uint32_t head_size, rope_settings& rope) {
  rope.theta = s.real_or("rope.freq_base", 10000.0F, 1.0F, 1e12F);
  rope.rotated = s.integer_or("rope.dimension_count", head_size, 2, head_size);
  s.require(rope.rotated % 2 == 0, "rope.dimension_count",
            "an odd number of elements cannot turn in pairs");
  result<std::string_view> scaling = file.meta().text_or("llama.rope.scaling.type", "none");
  if (!scaling) return s.fault(scaling.error());
  if (*scaling == "linear") {
    rope.linear_factor = s.real_or("rope.scaling.factor", 1.0F, 1e-3F, 1e6F);
  } else {
    s.require(
        *scaling == "none" || *scaling == "llama3", "rope.scaling.type",
        "\"" + std::string(*scaling) + "\" is not supported; supported are none, linear, llama3");
  }
  if (const gguf::tensor* factors = file.find("rope_freqs.weight")) {
    if (factors->type != gguf::ggml_type::f32 || factors->elements() != rope.rotated / 2) {
      return s.fault({error_code::invalid_input,
                      "expected " + std::to_string(rope.rotated / 2) + " factors of F32, found " +
                          std::to_string(factors->elements()) + " of " +
                          std::string(gguf::to_string(factors->type)),
                      file.meta().path() + ", tensor rope_freqs.weight"});
    }
    rope.factors.resize(rope.rotated / 2);
    result<void> ok = file.read(*factors, std::as_writable_bytes(std::span(rope.factors)));
    if (!ok) return s.fault(ok.error());
    for (float f : rope.factors) {
      if (!(f >= 1e-3F && f <= 1e6F)) {
        return s.fault({error_code::invalid_input,
                        "factor " + std::to_string(f) + " is not between 0.001 and 1e6",
                        file.meta().path() + ", tensor rope_freqs.weight"});
      }
    }
  }
}

result<model_config> read_config(const gguf::file& file) {
  settings s(file);
  model_config c;
  c.architecture = "llama";
  result<std::string_view> name = file.meta().text_or("general.name", "");
  if (name) c.name = std::string(*name);
  c.layers = s.integer("block_count", 1, max_layers);
  c.hidden = s.integer("embedding_length", 32, max_hidden);
  c.feed_forward = s.integer("feed_forward_length", 32, max_hidden * 4);
  c.context_tokens = s.integer("context_length", 1, 1U << 24);
  c.norm_epsilon = s.real_or("attention.layer_norm_rms_epsilon", 1e-5F, 1e-12F, 1.0F);
  s.require(c.hidden % 32 == 0, "embedding_length",
            std::to_string(c.hidden) + " is not a multiple of 32");
  s.require(c.feed_forward % 32 == 0, "feed_forward_length",
            std::to_string(c.feed_forward) + " is not a multiple of 32");
  s.require(file.meta().integer_or<std::uint32_t>("llama.expert_count", 0).value_or(1) == 0,
            "expert_count", "mixtures of experts are not supported");
  kernels::attention_shape& a = c.attention;
  a.heads = s.integer("attention.head_count", 1, 4096);
  a.kv_heads = s.integer_or("attention.head_count_kv", a.heads, 1, a.heads);
  a.head_size =
      s.integer_or("attention.key_length", std::max(32U, c.hidden / a.heads), 32, max_head_size);
  s.require(s.integer_or("attention.value_length", a.head_size, 32, max_head_size) == a.head_size,
            "attention.value_length", "keys and values of different length are not supported");
  s.require(
      a.heads % a.kv_heads == 0, "attention.head_count_kv",
      std::to_string(a.heads) + " heads do not share " + std::to_string(a.kv_heads) + " evenly");
  s.require(a.head_size % 32 == 0, "attention.key_length",
            std::to_string(a.head_size) + " is not a multiple of 32");
  a.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(a.head_size)));
  read_rope(file, s, a.head_size, c.rope);
  result<const gguf::tensor*> embedding = file.require("token_embd.weight");
  if (!embedding) return tl::unexpected<error>(embedding.error());
  s.require((*embedding)->rows() <= (1U << 24), "vocab_size",
            "more than 16,777,216 tokens are not supported");
  c.vocabulary = static_cast<std::uint32_t>((*embedding)->rows());
  if (s.first_fault()) return tl::unexpected<error>(*s.first_fault());
  return c;
}

}  // namespace

result<architecture_layout> read_llama(const gguf::file& file) {
  result<model_config> config = read_config(file);
  if (!config) return tl::unexpected<error>(config.error());
  const model_config& c = *config;
  const std::uint64_t q = std::uint64_t{c.attention.heads} * c.attention.head_size;
  const std::uint64_t kv = std::uint64_t{c.attention.kv_heads} * c.attention.head_size;

  architecture_layout out;
  block_builder b(file);
  const std::uint32_t embedding = b.begin("token_embd");
  b.matrix("token_embd.weight", c.vocabulary, c.hidden);
  out.parts.push_back({"embedding", part_kind::embedding, 0, {embedding}});
  for (std::uint32_t l = 0; l < c.layers; l++) {
    const std::string blk = "blk." + std::to_string(l) + ".", layer = "layer." + std::to_string(l);
    out.parts.push_back({layer + ".attn", part_kind::attention, l, {b.begin(layer + ".attn")}});
    b.vector(blk + "attn_norm.weight", c.hidden);
    b.matrix(blk + "attn_q.weight", q, c.hidden);
    b.matrix(blk + "attn_k.weight", kv, c.hidden);
    b.matrix(blk + "attn_v.weight", kv, c.hidden);
    b.matrix(blk + "attn_output.weight", c.hidden, q);
    out.parts.push_back({layer + ".ffn", part_kind::feed_forward, l, {b.begin(layer + ".ffn")}});
    b.vector(blk + "ffn_norm.weight", c.hidden);
    b.matrix(blk + "ffn_gate.weight", c.feed_forward, c.hidden);
    b.matrix(blk + "ffn_up.weight", c.feed_forward, c.hidden);
    b.matrix(blk + "ffn_down.weight", c.hidden, c.feed_forward);
  }
  const std::uint32_t norm = b.begin("output_norm");
  b.vector("output_norm.weight", c.hidden);
  std::uint32_t output = embedding;  // tied: the head reads the embedding matrix
  if (file.find("output.weight") != nullptr) {
    output = b.begin("output");
    b.matrix("output.weight", c.vocabulary, c.hidden);
  }
  out.parts.push_back({"head", part_kind::head, 0, {norm, output}});
  b.take("rope_freqs.weight");
  result<std::vector<weight_block>> blocks = b.finish();
  if (!blocks) return tl::unexpected<error>(blocks.error());
  out.blocks = std::move(*blocks);
  out.config = std::move(*config);
  return out;
}

namespace {

// Tensors of a part, as read_llama lays them out.
using place = part_recorder::tensor_place;
constexpr place norm{0, 0};
constexpr place attn_q{0, 1}, attn_k{0, 2}, attn_v{0, 3}, attn_output{0, 4};
constexpr place ffn_gate{0, 1}, ffn_up{0, 2}, ffn_down{0, 3};
constexpr place output{1, 0};

void record_attention(part_recorder& r, const model_part& part, part_half half) {
  const workspace& w = r.where();
  const workspace::areas& at = w.at();
  if (half == part_half::first) {
    r.normalise(at.hidden, r.size().rows, norm, {attn_q, attn_k, attn_v});
    r.multiply({attn_q, attn_k, attn_v}, at.qkv, w.qkv_stride(), r.size().rows, false);
    r.rotate_and_store_kv(part.layer);
    r.attend_here(part.layer);
    return;
  }
  r.combine();
  r.activate(kernels::activation_source::plain, at.attended, w.attended_stride(), 0, {attn_output});
  r.multiply({attn_output}, at.hidden, w.hidden_stride(), r.size().rows, true);
}

void record_feed_forward(part_recorder& r) {
  const workspace& w = r.where();
  const workspace::areas& at = w.at();
  r.normalise(at.hidden, r.size().rows, norm, {ffn_gate, ffn_up});
  r.multiply({ffn_gate, ffn_up}, at.gate_up, w.gate_up_stride(), r.size().rows, false);
  r.activate(kernels::activation_source::swiglu, at.gate_up, w.gate_up_stride(),
             w.gate_up_stride() / 2, {ffn_down});
  r.multiply({ffn_down}, at.hidden, w.hidden_stride(), r.size().rows, true);
}

void record_head(part_recorder& r) {
  const workspace& w = r.where();
  r.select_rows();
  r.normalise(w.at().selected, r.size().logits, norm, {output});
  r.multiply({output}, w.at().logits, w.logits_stride(), r.size().logits, false);
}

}  // namespace

void record_llama(part_recorder& r, const model_part& part, part_half half) {
  switch (part.kind) {
    case part_kind::embedding:
      return r.embed({0, 0});
    case part_kind::attention:
      return record_attention(r, part, half);
    case part_kind::feed_forward:
      return record_feed_forward(r);
    case part_kind::head:
      return record_head(r);
  }
}

}  // namespace terrane::engine

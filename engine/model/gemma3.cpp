// Gemma 3, the models of text alone: norms before and after attention and feed-forward, norms of
// each head of q and k, GeGLU, embeddings times sqrt(hidden), and layers of two kinds: most see a
// window of the last keys and turn with a short base, every sixth sees all with a long one.
// Metadata keys and tensor names are those of the GGUF files that llama.cpp's converter writes; the
// numbers (what is scaled, and where) follow its gemma3 graph.
#include <cmath>

#include "engine/model/architecture.hpp"
#include "engine/model/block_builder.hpp"
#include "engine/model/part_recorder.hpp"
#include "engine/model/settings.hpp"

namespace terrane::engine {

namespace {

// Indices into model_config::ropes.
constexpr std::uint32_t global_rope = 0, local_rope = 1;

// The kinds of layers, where the file does not list them: the last of every six sees everything.
constexpr std::uint32_t usual_pattern = 6;

// Which layers see only a window.
std::vector<bool> read_local_layers(settings& s, std::uint32_t layers) {
  const std::string key = "attention.sliding_window_pattern";
  if (s.file().meta().is_array(s.full_key(key))) {
    result<std::vector<bool>> listed = s.file().meta().booleans(s.full_key(key));
    if (!listed) return s.fault(listed.error()), std::vector<bool>(layers);
    s.require(
        listed->size() >= layers, key,
        std::to_string(listed->size()) + " entries for " + std::to_string(layers) + " layers");
    listed->resize(layers);
    return std::move(*listed);
  }
  const std::uint32_t every = s.integer_or(key, usual_pattern, 1, 1U << 16);
  std::vector<bool> local;
  for (std::uint32_t l = 0; l < layers; l++) local.push_back(l % every + 1 < every);
  return local;
}

void read_windows(settings& s, model_config& c) {
  const std::uint32_t window = s.integer_or("attention.sliding_window", 0, 0, 1U << 24);
  if (window == 0) return;
  rope_settings local;
  local.theta = s.real_or("rope.freq_base_swa", 10000.0F, 1.0F, 1e12F);
  local.rotated = c.ropes[global_rope].rotated;
  local.pairs = c.ropes[global_rope].pairs;
  c.ropes.push_back(local);
  const std::vector<bool> is_local = read_local_layers(s, c.layers);
  for (std::uint32_t l = 0; l < c.layers; l++)
    if (is_local[l]) c.by_layer[l] = {window, local_rope};
}

result<model_config> read_config(const gguf::file& file) {
  settings s(file, "gemma3");
  model_config c = read_dimensions(s, 1e-6F);
  c.ropes = {read_rope(s, c.attention.head_size, kernels::rope_pairs::halves)};
  read_windows(s, c);
  c.embedding_scale = std::sqrt(static_cast<float>(c.hidden));
  // The 27B model alone, which is known by its number of layers, scales by its hidden size.
  if (c.layers == 62)
    c.attention.scale = 1.0F / std::sqrt(static_cast<float>(c.hidden / c.attention.heads));
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"})
    s.require(s.real_or(cap, 0.0F, 0.0F, 1e9F) == 0.0F, cap,
              "soft caps on logits are not supported");
  if (s.first_fault()) return tl::unexpected<error>(*s.first_fault());
  return c;
}

result<architecture_layout> read(const gguf::file& file) {
  result<model_config> config = read_config(file);
  if (!config) return tl::unexpected<error>(config.error());
  const model_config& c = *config;
  const std::uint64_t size = c.attention.head_size, q = c.attention.heads * size,
                      kv = c.attention.kv_heads * size;
  architecture_layout out;
  block_builder b(file);
  const std::uint32_t embedding = b.begin("embedding");
  b.matrix("token_embd.weight", c.vocabulary, c.hidden);
  out.parts.push_back({"embedding", part_kind::embedding, 0, {embedding}});
  for (std::uint32_t l = 0; l < c.layers; l++) {
    const std::string blk = "blk." + std::to_string(l) + ".", layer = "layer." + std::to_string(l);
    out.parts.push_back({layer + ".attn", part_kind::attention, l, {b.begin(layer + ".attn")}});
    b.vector(blk + "attn_norm.weight", c.hidden);
    b.matrix(blk + "attn_q.weight", q, c.hidden);
    b.matrix(blk + "attn_k.weight", kv, c.hidden);
    b.matrix(blk + "attn_v.weight", kv, c.hidden);
    b.vector(blk + "attn_q_norm.weight", size);
    b.vector(blk + "attn_k_norm.weight", size);
    b.matrix(blk + "attn_output.weight", c.hidden, q);
    b.vector(blk + "post_attention_norm.weight", c.hidden);
    out.parts.push_back({layer + ".ffn", part_kind::feed_forward, l, {b.begin(layer + ".ffn")}});
    b.vector(blk + "ffn_norm.weight", c.hidden);
    b.matrix(blk + "ffn_gate.weight", c.feed_forward, c.hidden);
    b.matrix(blk + "ffn_up.weight", c.feed_forward, c.hidden);
    b.matrix(blk + "ffn_down.weight", c.hidden, c.feed_forward);
    b.vector(blk + "post_ffw_norm.weight", c.hidden);
  }
  out.parts.push_back(head_part(b, c, embedding));
  result<std::vector<weight_block>> blocks = b.finish();
  if (!blocks) return tl::unexpected<error>(blocks.error());
  out.blocks = std::move(*blocks);
  out.config = std::move(*config);
  return out;
}

// Tensors of a part, as read() lays them out.
using place = part_recorder::tensor_place;
constexpr place norm{0, 0};
constexpr place attn_q{0, 1}, attn_k{0, 2}, attn_v{0, 3}, attn_q_norm{0, 4}, attn_k_norm{0, 5},
    attn_output{0, 6}, post_attention_norm{0, 7};
constexpr place ffn_gate{0, 1}, ffn_up{0, 2}, ffn_down{0, 3}, post_ffw_norm{0, 4};

void record_attention(part_recorder& r, const model_part& part, part_half half) {
  const workspace& w = r.where();
  const workspace::areas& at = w.at();
  if (half == part_half::first) {
    r.normalise(at.hidden, r.size().rows, norm, {attn_q, attn_k, attn_v});
    r.multiply({attn_q, attn_k, attn_v}, at.qkv, w.qkv_stride());
    r.rotate_and_store_kv(part.layer, part_recorder::head_norms{attn_q_norm, attn_k_norm});
    r.attention_is_read_by(attn_output);
    return;
  }
  r.round_attended();
  r.multiply({attn_output}, at.branch, w.hidden_stride());
  r.add_normalised(at.branch, post_attention_norm);
}

void record_feed_forward(part_recorder& r) {
  const workspace& w = r.where();
  const workspace::areas& at = w.at();
  r.normalise(at.hidden, r.size().rows, norm, {ffn_gate, ffn_up});
  r.multiply({ffn_gate, ffn_up}, at.gate_up, w.gate_up_stride());
  r.activate(kernels::activation_source::geglu, at.gate_up, w.gate_up_stride(),
             w.gate_up_stride() / 2, {ffn_down});
  r.multiply({ffn_down}, at.branch, w.hidden_stride());
  r.add_normalised(at.branch, post_ffw_norm);
}

void record(part_recorder& r, const model_part& part, part_half half) {
  switch (part.kind) {
    case part_kind::embedding:
      return r.embed({0, 0});
    case part_kind::attention:
      return record_attention(r, part, half);
    case part_kind::feed_forward:
      return record_feed_forward(r);
    case part_kind::head:
      return r.give_logits();
  }
}

}  // namespace

const architecture gemma3 = {"gemma3", read, record};

}  // namespace terrane::engine

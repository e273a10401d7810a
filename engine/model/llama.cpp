// The Llama family: RMSNorm, attention with grouped queries and rotary positions, SwiGLU. Metadata
// keys and tensor names are those of the GGUF specification for general.architecture = llama.
#include "engine/model/architecture.hpp"
#include "engine/model/block_builder.hpp"
#include "engine/model/part_recorder.hpp"
#include "engine/model/settings.hpp"

namespace terrane::engine {

namespace {

result<model_config> read_config(const gguf::file& file) {
  settings s(file, "llama");
  model_config c = read_dimensions(s, 1e-5F);
  c.ropes = {read_rope(s, c.attention.head_size, kernels::rope_pairs::adjacent)};
  if (s.first_fault()) return tl::unexpected<error>(*s.first_fault());
  return c;
}

result<architecture_layout> read(const gguf::file& file) {
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
  out.parts.push_back(head_part(b, c, embedding));
  b.take("rope_freqs.weight");
  result<std::vector<weight_block>> blocks = b.finish();
  if (!blocks) return tl::unexpected<error>(blocks.error());
  out.blocks = std::move(*blocks);
  out.config = std::move(*config);
  return out;
}

// Tensors of a part, as read() lays them out.
using place = part_recorder::tensor_place;
constexpr place norm{0, 0};
constexpr place attn_q{0, 1}, attn_k{0, 2}, attn_v{0, 3}, attn_output{0, 4};
constexpr place ffn_gate{0, 1}, ffn_up{0, 2}, ffn_down{0, 3};

void record_attention(part_recorder& r, const model_part& part, part_half half) {
  const workspace& w = r.where();
  const workspace::areas& at = w.at();
  if (half == part_half::first) {
    r.normalise(at.hidden, r.size().rows, norm, {attn_q, attn_k, attn_v});
    r.multiply({attn_q, attn_k, attn_v}, at.qkv, w.qkv_stride());
    r.rotate_and_store_kv(part.layer);
    r.attention_is_read_by(attn_output);
    return;
  }
  r.round_attended();
  r.add_product(attn_output);
}

void record_feed_forward(part_recorder& r) {
  const workspace& w = r.where();
  const workspace::areas& at = w.at();
  r.normalise(at.hidden, r.size().rows, norm, {ffn_gate, ffn_up});
  r.multiply({ffn_gate, ffn_up}, at.gate_up, w.gate_up_stride());
  r.activate(kernels::activation_source::swiglu, at.gate_up, w.gate_up_stride(),
             w.gate_up_stride() / 2, {ffn_down});
  r.add_product(ffn_down);
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

const architecture llama = {"llama", read, record};

}  // namespace terrane::engine

#include "engine/model/settings.hpp"

#include <algorithm>
#include <cmath>

namespace terrane::engine {

namespace {

constexpr std::uint32_t max_layers = 1024;
constexpr std::uint32_t max_hidden = 1U << 20;
constexpr std::uint32_t max_head_size = 256;
constexpr std::uint32_t max_context = 1U << 24;

template <class T>
error out_of_bounds(T value, T least, T most, std::string where) {
  return {error_code::invalid_input,
          std::to_string(value) + " is not between " + std::to_string(least) + " and " +
              std::to_string(most),
          std::move(where)};
}

void read_attention(settings& s, std::uint32_t hidden, kernels::attention_shape& a) {
  a.heads = s.integer("attention.head_count", 1, 4096);
  a.kv_heads = s.integer_or("attention.head_count_kv", a.heads, 1, a.heads);
  a.head_size =
      s.integer_or("attention.key_length", std::max(32U, hidden / a.heads), 32, max_head_size);
  s.require(s.integer_or("attention.value_length", a.head_size, 32, max_head_size) == a.head_size,
            "attention.value_length", "keys and values of different length are not supported");
  s.require(
      a.heads % a.kv_heads == 0, "attention.head_count_kv",
      std::to_string(a.heads) + " heads do not share " + std::to_string(a.kv_heads) + " evenly");
  s.require(a.head_size % 32 == 0, "attention.key_length",
            std::to_string(a.head_size) + " is not a multiple of 32");
  a.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(a.head_size)));
}

void read_factors(settings& s, rope_settings& rope) {
  const gguf::tensor* factors = s.file().find("rope_freqs.weight");
  if (factors == nullptr) return;
  const std::string where = s.file().meta().path() + ", tensor rope_freqs.weight";
  if (factors->type != gguf::ggml_type::f32 || factors->elements() != rope.rotated / 2) {
    return s.fault({error_code::invalid_input,
                    "expected " + std::to_string(rope.rotated / 2) + " factors of F32, found " +
                        std::to_string(factors->elements()) + " of " +
                        std::string(gguf::to_string(factors->type)),
                    where});
  }
  rope.factors.resize(rope.rotated / 2);
  result<void> ok = s.file().read(*factors, std::as_writable_bytes(std::span(rope.factors)));
  if (!ok) return s.fault(ok.error());
  for (float f : rope.factors)
    if (!(f >= 1e-3F && f <= 1e6F)) {
      return s.fault({error_code::invalid_input,
                      "factor " + std::to_string(f) + " is not between 0.001 and 1e6", where});
    }
}

}  // namespace

std::uint32_t settings::integer(const std::string& key, std::uint32_t least, std::uint32_t most) {
  return checked(key, file_.meta().integer<std::uint32_t>(full_key(key)), least, most);
}

std::uint32_t settings::integer_or(const std::string& key, std::uint32_t otherwise,
                                   std::uint32_t least, std::uint32_t most) {
  return checked(key, file_.meta().integer_or<std::uint32_t>(full_key(key), otherwise), least,
                 most);
}

std::uint32_t settings::checked(const std::string& key, const result<std::uint32_t>& v,
                                std::uint32_t least, std::uint32_t most) {
  if (!v) return fault(v.error()), least;
  if (*v < least || *v > most) return fault(out_of_bounds(*v, least, most, where(key))), least;
  return *v;
}

float settings::real_or(const std::string& key, float otherwise, float least, float most) {
  const result<float> v = file_.meta().real_or(full_key(key), otherwise);
  if (!v) return fault(v.error()), otherwise;
  if (!(*v >= least && *v <= most)) fault(out_of_bounds(*v, least, most, where(key)));
  return *v;
}

std::string settings::text_or(const std::string& key, const std::string& otherwise) {
  const result<std::string_view> v = file_.meta().text_or(full_key(key), otherwise);
  if (!v) return fault(v.error()), otherwise;
  return std::string(*v);
}

void settings::require(bool condition, const std::string& key, const std::string& message) {
  if (!condition) fault({error_code::unsupported, message, where(key)});
}

void settings::fault(error e) {
  if (!first_) first_ = std::move(e);
}

std::string settings::where(const std::string& key) const {
  return file_.meta().path() + ", " + full_key(key);
}

model_config read_dimensions(settings& s, float epsilon) {
  model_config c;
  c.architecture = s.architecture();
  result<std::string_view> name = s.file().meta().text_or("general.name", "");
  if (name) c.name = std::string(*name);
  c.layers = s.integer("block_count", 1, max_layers);
  c.hidden = s.integer("embedding_length", 32, max_hidden);
  c.feed_forward = s.integer("feed_forward_length", 32, max_hidden * 4);
  c.context_tokens = s.integer("context_length", 1, max_context);
  c.norm_epsilon = s.real_or("attention.layer_norm_rms_epsilon", epsilon, 1e-12F, 1.0F);
  s.require(c.hidden % 32 == 0, "embedding_length",
            std::to_string(c.hidden) + " is not a multiple of 32");
  s.require(c.feed_forward % 32 == 0, "feed_forward_length",
            std::to_string(c.feed_forward) + " is not a multiple of 32");
  s.require(
      s.file().meta().integer_or<std::uint32_t>(s.full_key("expert_count"), 0).value_or(1) == 0,
      "expert_count", "mixtures of experts are not supported");
  read_attention(s, c.hidden, c.attention);
  c.by_layer.resize(c.layers);
  result<const gguf::tensor*> embedding = s.file().require("token_embd.weight");
  if (!embedding) {
    s.fault(embedding.error());
    return c;
  }
  s.require((*embedding)->rows() <= (1U << 24), "vocab_size",
            "more than 16,777,216 tokens are not supported");
  c.vocabulary = static_cast<std::uint32_t>((*embedding)->rows());
  return c;
}

rope_settings read_rope(settings& s, std::uint32_t head_size, kernels::rope_pairs pairs) {
  rope_settings rope;
  rope.pairs = pairs;
  rope.theta = s.real_or("rope.freq_base", 10000.0F, 1.0F, 1e12F);
  rope.rotated = s.integer_or("rope.dimension_count", head_size, 2, head_size);
  s.require(rope.rotated % 2 == 0, "rope.dimension_count",
            "an odd number of elements cannot turn in pairs");
  // As llama.cpp does, a factor without a type is taken for a linear one.
  const bool has_factor = s.file().meta().has(s.full_key("rope.scaling.factor"));
  const std::string scaling = s.text_or("rope.scaling.type", has_factor ? "linear" : "none");
  if (scaling == "linear") {
    rope.linear_factor = s.real_or("rope.scaling.factor", 1.0F, 1e-3F, 1e6F);
  } else {
    s.require(scaling == "none" || scaling == "llama3", "rope.scaling.type",
              "\"" + scaling + "\" is not supported; supported are none, linear, llama3");
  }
  read_factors(s, rope);
  return rope;
}

}  // namespace terrane::engine

#include "engine/model/block_builder.hpp"

namespace terrane::engine {

namespace {

std::string shape_text(std::uint64_t n, std::uint64_t k, bool is_matrix) {
  return is_matrix ? std::to_string(k) + " x " + std::to_string(n) : std::to_string(n);
}

std::string shape_text(const gguf::tensor& t) {
  std::string s = std::to_string(t.shape[0]);
  for (std::uint32_t d = 1; d < t.dimensions; d++) s += " x " + std::to_string(t.shape[d]);
  return s;
}

constexpr std::uint64_t tensor_alignment = 256;

}  // namespace

std::uint32_t block_builder::begin(std::string name) {
  blocks_.push_back({std::move(name), {}, 0});
  return static_cast<std::uint32_t>(blocks_.size() - 1);
}

void block_builder::fault(error e) {
  if (!fault_) fault_ = std::move(e);
}

void block_builder::matrix(const std::string& tensor, std::uint64_t n, std::uint64_t k) {
  add(tensor, n, k, true);
}

void block_builder::vector(const std::string& tensor, std::uint64_t n) { add(tensor, n, 1, false); }

void block_builder::add(const std::string& name, std::uint64_t n, std::uint64_t k, bool is_matrix) {
  result<const gguf::tensor*> found = file_.require(name);
  if (!found) return fault(found.error());
  const gguf::tensor& t = **found;
  const std::string where = file_.paths()[t.split] + ", tensor " + name;
  const bool fits = is_matrix ? t.shape[0] == k && t.rows() == n && t.dimensions <= 2
                              : t.elements() == n && t.rows() == 1;
  if (!fits) {
    return fault({error_code::invalid_input,
                  "its shape is " + shape_text(t) + ", the architecture expects " +
                      shape_text(n, k, is_matrix),
                  where});
  }
  block_tensor made{&t, nullptr, n, k, 0, n * 4};
  if (is_matrix) {
    made.format = kernels::find_weight_format(static_cast<std::uint32_t>(t.type));
    if (made.format == nullptr) {
      return fault({error_code::unsupported,
                    "format " + std::string(gguf::to_string(t.type)) +
                        " is not supported; supported are " + kernels::weight_format_names(),
                    where});
    }
    if (k % 32 != 0 || k % made.format->block_elements != 0) {
      return fault({error_code::unsupported,
                    "rows of " + std::to_string(k) + " elements are not a multiple of " +
                        std::to_string(std::max<std::uint64_t>(32, made.format->block_elements)),
                    where});
    }
    made.bytes = kernels::packed_bytes(*made.format, n, k);
  } else if (t.type != gguf::ggml_type::f32) {
    return fault(
        {error_code::unsupported,
         "a vector of format " + std::string(gguf::to_string(t.type)) + "; only F32 is supported",
         where});
  }
  weight_block& block = blocks_.back();
  made.offset = (block.bytes + tensor_alignment - 1) / tensor_alignment * tensor_alignment;
  block.bytes = made.offset + made.bytes;
  block.tensors.push_back(made);
  taken_.insert(name);
}

result<std::vector<weight_block>> block_builder::finish() {
  if (fault_) return tl::unexpected<error>(*fault_);
  for (const gguf::tensor& t : file_.tensors()) {
    if (taken_.contains(t.name)) continue;
    return fail(error_code::unsupported, "the architecture has no tensor of this name",
                file_.paths()[t.split] + ", tensor " + t.name);
  }
  return std::move(blocks_);
}

model_part head_part(block_builder& b, const model_config& c, std::uint32_t embedding) {
  const std::uint32_t norm = b.begin("output_norm");
  b.vector("output_norm.weight", c.hidden);
  std::uint32_t output = embedding;
  if (b.has("output.weight")) {
    output = b.begin("output");
    b.matrix("output.weight", c.vocabulary, c.hidden);
  }
  return {"head", part_kind::head, 0, {norm, output}};
}

}  // namespace terrane::engine

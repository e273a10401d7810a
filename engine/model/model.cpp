#include "engine/model/model.hpp"

#include <algorithm>
#include <map>

#include "engine/model/architecture.hpp"

namespace terrane::engine {

namespace {

std::string main_format(const std::vector<weight_block>& blocks) {
  std::map<std::string, std::uint64_t> bytes;
  for (const weight_block& b : blocks)
    for (const block_tensor& t : b.tensors)
      if (t.format != nullptr) bytes[t.format->name] += t.bytes;
  auto most = std::max_element(bytes.begin(), bytes.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "" : most->first;
}

}  // namespace

result<std::unique_ptr<const model>> model::open(const std::filesystem::path& path) {
  result<gguf::file> opened = gguf::file::open(path);
  if (!opened) return tl::unexpected<error>(opened.error());
  result<std::string_view> name = opened->meta().text("general.architecture");
  if (!name) return tl::unexpected<error>(name.error());
  const architecture* kind = find_architecture(*name);
  if (kind == nullptr) {
    return fail(error_code::unsupported,
                "architecture \"" + std::string(*name) + "\" is not supported; supported are " +
                    architecture_names(),
                path.string() + ", general.architecture");
  }
  std::unique_ptr<model> m(new model(std::move(*opened), *kind));
  result<architecture_layout> layout = kind->read(m->file_);
  if (!layout) return tl::unexpected<error>(layout.error());
  m->config_ = std::move(layout->config);
  m->parts_ = std::move(layout->parts);
  m->blocks_ = std::move(layout->blocks);
  m->config_.quantization = main_format(m->blocks_);
  return std::unique_ptr<const model>(std::move(m));
}

void model::record(part_recorder& r, const model_part& part, part_half half) const {
  kind_.record(r, part, half);
}

std::optional<part_index> model::find_part(std::string_view name) const {
  for (part_index p = 0; p < parts_.size(); p++)
    if (parts_[p].name == name) return p;
  return std::nullopt;
}

std::uint64_t model::part_bytes(part_index part) const {
  std::uint64_t sum = 0;
  for (std::uint32_t b : parts_[part].blocks) sum += blocks_[b].bytes;
  return sum;
}

std::uint64_t model::weight_bytes() const {
  std::uint64_t sum = 0;
  for (const weight_block& b : blocks_) sum += b.bytes;
  return sum;
}

}  // namespace terrane::engine

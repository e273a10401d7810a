#include "engine/tuning/device_tuning.hpp"

#include <algorithm>
#include <optional>

#include "engine/tuning/layout_fields.hpp"

namespace terrane::engine {

namespace {

// ---- Defaults

// A GPU's warps that share the columns of a matrix. One warp's loads do not fill a multiprocessor,
// and a small matrix has fewer groups of rows than there are multiprocessors: as many warps as
// leave each the same number of segments. Where there are groups enough, or on a CPU, one.
int linear_warps(const device_info& on, std::uint32_t k, kernels::grid groups) {
  constexpr std::uint32_t enough_groups = 4096, most_warps = 16, segment = 256;
  if (on.host_memory || std::uint64_t{groups.x} * groups.y >= enough_groups) return 1;
  const std::uint32_t segments = (k + segment - 1) / segment;
  const std::uint32_t turns = (segments + most_warps - 1) / most_warps;
  return static_cast<int>((segments + turns - 1) / turns);
}

// A GPU's tokens: warps side by side keep activations near, and the more tokens a warp takes, the
// fewer times it unpacks weights; but all multiprocessors must have some. Measured on an H200 (132
// of them), 8B Q4_K_M, 512 rows: 64 tokens instead of 32 take 40 % less where a matrix has 4,096
// rows, 6 % less where it has 28,672.
std::optional<linear_layout> side_by_side(const device_info& on, const kernels::linear_spec& shape,
                                          std::uint32_t rows) {
  constexpr std::uint64_t enough_groups = 1024;
  if (on.kind != device_kind::cuda || rows < few_rows) return {};
  for (std::uint32_t columns : {64U, 32U}) {
    const linear_layout layout{.columns = columns};
    const kernels::linear_spec whole = laid_out(shape, layout, rows);
    const kernels::grid groups = kernels::linear_grid(whole, rows);
    if (whole.columns == columns && std::uint64_t{groups.x} * groups.y >= enough_groups)
      return linear_layout{.columns = columns, .row_warps = 4};
  }
  return {};
}

linear_layout usual_layout(const device_info& on, const kernels::linear_spec& shape,
                           std::uint32_t rows) {
  if (auto layout = side_by_side(on, shape, rows)) return *layout;
  linear_layout usual;
  usual.columns = on.product_columns;
  usual.together = rows >= few_rows ? on.product_blocks : 1;
  const kernels::linear_spec whole = laid_out(shape, usual, rows);
  usual.warps = linear_warps(on, shape.k, kernels::linear_grid(whole, rows));
  return usual;
}

// A CPU converts keys that follow each other, and has few registers. Measured on a Sapphire Rapids
// for one page and K/V head of three query heads: 1081 ns as on a GPU, 717 so. Few rows leave a GPU
// idle unless many warps share a page.
kernels::attention_tuning usual_layout(const device_info& on, const kernels::attention_shape& shape,
                                       std::uint32_t rows) {
  if (on.kind == device_kind::cpu)
    return {.keys = kernels::lane_keys::halves, .dimensions = 4, .values = 4};
  const bool wide = !on.host_memory && rows <= few_rows;
  kernels::attention_tuning usual{.warps = wide ? kernels::attention_warps(shape) : 1};
  if (!wide && !on.host_memory && rows > few_rows) {
    usual.rows = kernels::attention_rows(shape);
    // What NVIDIA's Vulkan compiler makes of more is slower: `speed --tune`, tests/bench/README.md.
    if (on.kind == device_kind::vulkan) usual.rows = std::min(usual.rows, 2U);
  }
  return usual;
}

// A CPU runs the warps of a workgroup in turn on one thread; of few rows the long ones are shared
// by threads, unless each would have to compute their norm. On a GPU, with few rows, as many
// workgroups share one as give each warp one quantisation block; with many as many as keep it busy,
// with equal parts of a row that has no norm.
activation_layout usual_layout(const device_info& on, const kernels::activation_spec& shape,
                               std::uint32_t rows) {
  activation_layout usual;
  usual.warps = on.kind == device_kind::cpu ? 1 : 8;
  constexpr std::uint32_t worth_a_thread = 1024;  // elements, on a CPU
  if (on.kind == device_kind::cpu && rows < few_rows &&
      shape.source != kernels::activation_source::rms_norm)
    usual.parts = std::clamp(shape.k / worth_a_thread, 1U, 8U);
  if (on.host_memory) return usual;
  const std::uint32_t taken =
      (shape.outputs.q8_by_256 ? 256U : 32U) * static_cast<std::uint32_t>(usual.warps);
  const std::uint32_t turns = (shape.k + taken - 1) / taken;
  if (rows <= few_rows) {
    // Of blocks of 256 each workgroup has one, which its warps share.
    usual.parts = shape.outputs.q8_by_256 ? shape.k / 256 : turns;
  } else if (shape.source != kernels::activation_source::rms_norm) {
    constexpr std::uint32_t enough_groups = 2048;
    usual.parts = std::min((enough_groups + rows - 1) / rows, turns);
    while (turns % usual.parts != 0) usual.parts++;
  }
  return usual;
}

// ---- Shapes in words

std::string words_of(const kernels::linear_spec& shape) {
  std::string out = "K " + std::to_string(shape.k);
  const kernels::weight_format* last = nullptr;
  for (const kernels::linear_matrix& m : shape.matrices) {
    out += m.format == last ? " + " : std::string(", ") + m.format->name + " ";
    out += std::to_string(m.n);
    last = m.format;
  }
  return out + (shape.in_parts ? ", in parts" : "") + (shape.add_residual ? ", added" : "");
}

std::string words_of(const kernels::attention_shape& shape) {
  return std::to_string(shape.heads) + " heads of " + std::to_string(shape.head_size) + " on " +
         std::to_string(shape.kv_heads) +
         (shape.window != 0 ? ", window " + std::to_string(shape.window) : "");
}

std::string words_of(const kernels::activation_spec& shape) {
  constexpr const char* sources[] = {"plain", "norm", "silu", "gelu"};
  return std::string(sources[static_cast<std::size_t>(shape.source)]) + ", K " +
         std::to_string(shape.k) + (shape.outputs.q8_by_32 ? ", by 32" : "") +
         (shape.outputs.q8_by_256 ? ", by 256" : "") +
         (shape.outputs.q8_by_256 && shape.in_parts ? " in parts" : "") +
         (shape.outputs.f16 ? ", f16" : "") + (shape.outputs.f32 ? ", f32" : "") +
         (shape.in_pairs ? ", in pairs" : "");
}

}  // namespace

// ---- Layouts

std::string to_text(const kernel_layout& layout) {
  std::string out;
  std::visit(
      [&](const auto& l) {
        each_field(l, [&](const char* name, const auto& value) {
          out += std::string(out.empty() ? "" : ", ") + name + " " + field_text(value);
        });
      },
      layout);
  return out;
}

std::string difference(const kernel_layout& layout, const kernel_layout& base) {
  if (layout.index() != base.index()) return to_text(layout);
  std::string out;
  std::visit(
      [&](const auto& l) {
        using kind = std::decay_t<decltype(l)>;
        std::vector<std::string> before;
        each_field(std::get<kind>(base),
                   [&](const char*, const auto& value) { before.push_back(field_text(value)); });
        auto was = before.begin();
        each_field(l, [&](const char* name, const auto& value) {
          const std::string now = field_text(value);
          if (now != *was) out += std::string(out.empty() ? "" : ", ") + name + " " + now;
          ++was;
        });
      },
      layout);
  return out;
}

kernels::linear_spec laid_out(kernels::linear_spec shape, const linear_layout& layout,
                              std::uint32_t rows) {
  shape.columns = layout.columns;
  while (shape.columns > 8 && rows % shape.columns != 0) shape.columns /= 2;
  shape.columns = std::min(rows, shape.columns);
  shape.together = layout.together;
  shape.warps = layout.warps;
  shape.row_warps = layout.row_warps;
  shape.fetch_ahead = layout.fetch_ahead;
  return shape;
}

kernels::activation_spec laid_out(kernels::activation_spec shape, const activation_layout& layout) {
  shape.warps = layout.warps;
  shape.parts = layout.parts;
  return shape;
}

// Tiles enough for three workgroups on each of an H200's multiprocessors. Of a longer context one
// row of a reply beside a prompt would hold up the step: some 5 us a round of 4 chunks and layer.
bool attends_at_once(const kernels::attention_shape& shape, const device_info& on,
                     std::uint32_t rows, std::uint32_t chunks) {
  constexpr std::uint64_t enough_groups = 396;
  constexpr std::uint32_t most_chunks = 128;
  if (on.kind != device_kind::cuda || chunks > most_chunks) return false;
  if (kernels::whole_attention_rows(shape) == 0) return false;
  const kernels::grid groups = kernels::whole_attention_grid(shape, rows);
  return std::uint64_t{groups.x} * groups.y >= enough_groups;
}

int rope_warps(const kernels::rope_kv_spec& shape, const device_info& on) {
  if (on.host_memory || shape.head_norms) return 1;
  const std::uint32_t heads = shape.shape.heads + 2 * shape.shape.kv_heads;
  for (int warps : {4, 3, 2})
    if (heads % static_cast<std::uint32_t>(warps) == 0) return warps;
  return 1;
}

// ---- Shapes

const char* kernel_name(const kernel_shape& shape) {
  constexpr const char* names[] = {"linear", "attention", "activation"};
  return names[shape.what.index()];
}

std::string class_of(const kernel_shape& shape, const device_info& on) {
  std::string rows = shape.rows < few_rows ? "few rows, " : "many rows, ";
  if (!on.host_memory) rows = std::to_string(shape.rows) + (shape.rows == 1 ? " row, " : " rows, ");
  return rows + std::visit([](const auto& what) { return words_of(what); }, shape.what);
}

std::string tuning_key(const kernel_shape& shape, const device_info& on) {
  return std::string(kernel_name(shape)) + ": " + class_of(shape, on);
}

// ---- A device's tuning

kernel_layout device_tuning::default_layout(const kernel_shape& shape) const {
  return std::visit(
      [&](const auto& what) { return kernel_layout(usual_layout(info_, what, shape.rows)); },
      shape.what);
}

const tuned_kernel* device_tuning::find(const kernel_shape& shape) const {
  if (found_.empty()) return nullptr;
  const auto at = found_.find(tuning_key(shape, info_));
  return at == found_.end() ? nullptr : &at->second;
}

void device_tuning::set(const kernel_shape& shape, tuned_kernel found) {
  found_.insert_or_assign(tuning_key(shape, info_), std::move(found));
}

kernel_layout device_tuning::layout(const kernel_shape& shape) const {
  const tuned_kernel* known = find(shape);
  if (known == nullptr) return default_layout(shape);
  kernel_layout chosen = known->chosen;
  // A file may say what is possible for other shapes only.
  const auto* of = std::get_if<kernels::attention_shape>(&shape.what);
  if (auto* layout = std::get_if<kernels::attention_tuning>(&chosen); layout && of) {
    layout->rows = std::min(layout->rows, kernels::attention_rows(*of));
    if (kernels::attention_warps(*of) == 1) layout->warps = 1;
  }
  return chosen;
}

}  // namespace terrane::engine

#include "engine/tuning/candidates.hpp"

namespace terrane::engine {

namespace {

using layouts = std::vector<kernel_layout>;

layouts varied(const linear_layout& best, std::initializer_list<int> values,
               void (*set)(linear_layout&, int)) {
  layouts out;
  for (int v : values) {
    linear_layout l = best;
    set(l, v);
    out.emplace_back(l);
  }
  return out;
}

// Few rows wait for weights, many for the products.
layouts on_cpu(const linear_layout& best, std::uint32_t rows, int round) {
  if (rows < few_rows) {
    if (round == 0)
      return varied(best, {0, 2048, 8192, 32768},
                    [](linear_layout& l, int v) { l.fetch_ahead = static_cast<std::uint32_t>(v); });
    if (round == 1) return varied(best, {2}, [](linear_layout& l, int v) { l.together = v; });
    return {};
  }
  if (round == 0) {
    layouts out;
    for (const auto& [columns, together] :
         {std::pair{8U, 1}, {8U, 2}, {16U, 1}, {16U, 2}, {16U, 4}}) {
      linear_layout l = best;
      l.columns = columns;
      l.together = together;
      out.emplace_back(l);
    }
    return out;
  }
  if (round == 1)
    return varied(best, {1}, [](linear_layout& l, int) { l.order = group_order::y_first; });
  return {};
}

layouts on_gpu(const linear_layout& best, std::uint32_t rows, int round) {
  const auto set_warps = [](linear_layout& l, int v) { l.warps = v; };
  if (rows >= few_rows && round == 0) {
    layouts out;
    for (std::uint32_t columns : {8U, 16U, 32U, 64U})
      for (int row_warps : {1, 2, 4}) {
        linear_layout l = best;
        l.columns = columns;
        l.warps = 1;
        l.row_warps = row_warps;
        out.emplace_back(l);
      }
    return out;
  }
  if (rows >= few_rows && round == 1 && best.columns <= 16)  // more do not fit shared memory
    return varied(best, {1, 2, 4, 8}, [](linear_layout& l, int v) {
      l.row_warps = 1;
      l.warps = v;
    });
  if (rows < few_rows && round == 0) return varied(best, {1, 2, 4, 8, 16}, set_warps);
  return {};
}

layouts of(const device_info& on, const linear_layout& best, std::uint32_t rows, int round) {
  return on.kind == device_kind::cpu ? on_cpu(best, rows, round) : on_gpu(best, rows, round);
}

layouts of(const device_info& on, const kernels::attention_shape& shape,
           const kernels::attention_tuning& best, int round) {
  using kernels::attention_tuning, kernels::lane_keys;
  const bool cpu = on.kind == device_kind::cpu;
  if (round == 0 && cpu)
    return {attention_tuning{lane_keys::halves, 8, 4, 1},
            attention_tuning{lane_keys::halves, 4, 8, 1},
            attention_tuning{lane_keys::halves, 2, 2, 1},
            attention_tuning{lane_keys::neighbours, 8, 4, 1}};
  if (round == 0 && kernels::attention_warps(shape) > 1)
    return {
        attention_tuning{best.keys, best.dimensions, best.values, 1},
        attention_tuning{best.keys, best.dimensions, best.values, kernels::attention_warps(shape)}};
  if (round <= 1 && !cpu && best.warps == 1) {
    layouts out = {attention_tuning{best.keys, 8, 4, 1}, attention_tuning{best.keys, 16, 8, 1},
                   attention_tuning{best.keys, 32, 4, 1}};
    for (std::uint32_t rows = 2; rows <= kernels::attention_rows(shape); rows *= 2)
      out.emplace_back(attention_tuning{.keys = best.keys, .rows = rows});
    return out;
  }
  return {};
}

// A CPU runs a row's warps in turn: nothing to choose.
layouts of(const device_info& on, const kernels::activation_spec& shape,
           const activation_layout& best, std::uint32_t rows, int round) {
  if (on.kind == device_kind::cpu) return {};
  layouts out;
  if (round == 0) {
    for (int warps : {2, 4, 8}) out.emplace_back(activation_layout{warps, best.parts});
  } else if (round == 1 && rows <= few_rows) {
    for (std::uint32_t parts : {best.parts / 2, best.parts * 2})
      if (parts >= 1 && parts * 32 <= shape.k)
        out.emplace_back(activation_layout{best.warps, parts});
  }
  return out;
}

}  // namespace

std::vector<kernel_layout> candidates(const device_info& on, const kernel_shape& shape,
                                      const kernel_layout& best, int round) {
  if (const auto* linear = std::get_if<linear_layout>(&best))
    return of(on, *linear, shape.rows, round);
  if (const auto* attention = std::get_if<kernels::attention_shape>(&shape.what))
    return of(on, *attention, std::get<kernels::attention_tuning>(best), round);
  return of(on, std::get<kernels::activation_spec>(shape.what), std::get<activation_layout>(best),
            shape.rows, round);
}

}  // namespace terrane::engine

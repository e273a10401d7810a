// The fields of layouts by name: to show, to keep in a file, to compare. Internal to engine/tuning.
#pragma once

#include <string>
#include <type_traits>

#include "engine/tuning/device_tuning.hpp"

namespace terrane::engine {

// f(name, field) for each field of a layout, in order. A name is one word.
template <class Layout, class F>
void each_field(Layout& l, F f) {
  using kind = std::remove_const_t<Layout>;
  if constexpr (std::is_same_v<kind, linear_layout>) {
    f("columns", l.columns);
    f("together", l.together);
    f("warps", l.warps);
    f("fetch_ahead", l.fetch_ahead);
    f("order", l.order);
    f("row_warps", l.row_warps);
  } else if constexpr (std::is_same_v<kind, kernels::attention_tuning>) {
    f("keys", l.keys);
    f("dimensions", l.dimensions);
    f("values", l.values);
    f("warps", l.warps);
    f("rows", l.rows);
  } else {
    f("warps", l.warps);
    f("parts", l.parts);
  }
}

inline std::string field_text(std::uint32_t value) { return std::to_string(value); }
inline std::string field_text(int value) { return std::to_string(value); }
inline std::string field_text(group_order value) {
  return value == group_order::x_first ? "rows_first" : "columns_first";
}
inline std::string field_text(kernels::lane_keys value) {
  return value == kernels::lane_keys::neighbours ? "neighbours" : "halves";
}

}  // namespace terrane::engine

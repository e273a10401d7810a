// Selector chains on plain vectors, without Lua: what each selector of the vocabulary does to a
// list. The Lua lists call these. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/vocabulary/table.hpp"

namespace terrane::policies::lua {

using part_list = std::vector<const part_state*>;
using device_list = std::vector<const device_state*>;
using session_list = std::vector<const session_state*>;
using tenant_list = std::vector<const tenant_state*>;

// The argument of a selector; which of them it has follows from the selector.
struct selector_argument {
  double number = 0;
  std::string name;
};
// The list after the selector. Selectors that give one object leave a list of at most one.
part_list select(const snapshot& now, part_list list, selector s, const selector_argument& a);
device_list select(const snapshot& now, device_list list, selector s, const selector_argument& a);
session_list select(const snapshot& now, session_list list, selector s, const selector_argument& a);
tenant_list select(const snapshot& now, tenant_list list, selector s, const selector_argument& a);

// The room that plans may use on a device, before other policies are asked; -1 when it is not
// known.
double known_room(const snapshot& now, const device_state& d);

}  // namespace terrane::policies::lua

// The rows that lua_words.cpp and lua_library_words.cpp write by hand. Internal to vocabulary/.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "policies/vocabulary/lua_words.hpp"

namespace terrane::policies {

struct lua_row {
  lua_object of;
  std::string_view name;
  member_kind kind;
  std::array<lua_parameter, 4> takes = {};  // those with a name
  std::string_view gives;
  std::string_view says;
  std::string_view example;
};

std::span<const lua_row> lua_library_rows();

}  // namespace terrane::policies

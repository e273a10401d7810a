// string.format: Lua's directives without %p, which prints an address, %a and %q. Widths and
// precisions have at most two digits.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <lua.hpp>

#include "policies/lua/library.hpp"
#include "policies/lua/sandbox_binding.hpp"

namespace terrane::policies::lua {
namespace {

// One directive: "%-08.3f" has flags "-0", width 8, precision 3, conversion 'f'.
struct directive {
  std::string flags;
  int width = 0;
  int precision = -1;  // none given
  char conversion = 0;
};

[[noreturn]] void refuse(lua_State* L, std::string_view text) {
  const std::string shown(text.substr(0, 20));
  luaL_error(L, "invalid directive '%%%s' to 'format': flags, two digits, and one of %s",
             shown.c_str(), "d i u c x X o e E f F g G s %");
  std::abort();  // luaL_error does not return
}

int two_digits(std::string_view text, std::size_t& at) {
  int value = 0;
  for (int i = 0; i < 2 && at < text.size() && text[at] >= '0' && text[at] <= '9'; ++i) {
    value = value * 10 + (text[at++] - '0');
  }
  return value;
}

// Reads the directive that begins after a '%' at `at`, and moves `at` behind it.
directive read_directive(lua_State* L, std::string_view format, std::size_t& at) {
  const std::size_t begin = at;
  directive d;
  while (at < format.size() &&
         std::string_view("-+ #0").find(format[at]) != std::string_view::npos) {
    d.flags += format[at++];
    if (d.flags.size() > 5) refuse(L, format.substr(begin));
  }
  d.width = two_digits(format, at);
  if (at < format.size() && format[at] == '.') {
    ++at;
    d.precision = two_digits(format, at);
  }
  if (at >= format.size()) refuse(L, format.substr(begin));
  d.conversion = format[at++];
  return d;
}

void pad(std::string& text, const directive& d, std::size_t begin) {
  const std::size_t size = text.size() - begin;
  const auto width = static_cast<std::size_t>(d.width);
  if (size >= width) return;
  const bool left = d.flags.find('-') != std::string::npos;
  text.insert(left ? text.size() : begin, width - size, ' ');
}

// The directive for printf, with a length modifier.
std::string specification(const directive& d, const char* modifier) {
  std::string s(1, '%');
  s += d.flags;
  if (d.width > 0) s += std::to_string(d.width);
  if (d.precision >= 0) s.append(1, '.').append(std::to_string(d.precision));
  s += modifier;
  s += d.conversion;
  return s;
}

template <class Value>
void print_number(std::string& out, const std::string& specification, Value value) {
  char text[512];  // 310 digits before the point, 99 after it
  const int size = std::snprintf(text, sizeof text, specification.c_str(), value);
  out.append(text, static_cast<std::size_t>(size));
}

void print_float(std::string& out, const directive& d, double value) {
  if (std::isfinite(value)) return print_number(out, specification(d, ""), value);
  // Their sign and spelling are not left to the C library.
  const std::size_t begin = out.size();
  out += std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  pad(out, d, begin);
}

void print_text(lua_State* L, std::string& out, const directive& d, int argument) {
  push_text(L, argument);
  const std::size_t begin = out.size();
  const std::string_view text = check_text(L, -1);
  check_string_size(L, out.size() + text.size());
  out += text.substr(0, d.precision < 0 ? text.size() : static_cast<std::size_t>(d.precision));
  pad(out, d, begin);
  lua_pop(L, 1);
}

void print_directive(lua_State* L, std::string& out, const directive& d, int argument) {
  switch (d.conversion) {
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      return print_number(out, specification(d, "ll"),
                          static_cast<long long>(luaL_checkinteger(L, argument)));
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return print_float(out, d, luaL_checknumber(L, argument));
    case 'c': {
      const std::size_t begin = out.size();
      out += static_cast<char>(luaL_checkinteger(L, argument));
      return pad(out, d, begin);
    }
    case 's':
      luaL_checkany(L, argument);
      return print_text(L, out, d, argument);
    default:
      refuse(L, std::string_view(&d.conversion, 1));
  }
}

}  // namespace

int string_format(lua_State* L) {
  const std::string_view format = check_text(L, 1);
  std::string out;
  int argument = 1;
  for (std::size_t at = 0; at < format.size();) {
    const std::size_t percent = std::min(format.find('%', at), format.size());
    out += format.substr(at, percent - at);
    at = percent + 1;
    if (percent == format.size()) break;
    if (at < format.size() && format[at] == '%') {
      out += '%';
      ++at;
      continue;
    }
    charge(L, 32);
    print_directive(L, out, read_directive(L, format, at), ++argument);
    check_string_size(L, out.size());
  }
  check_string_size(L, out.size());
  lua_pushlstring(L, out.data(), out.size());
  return 1;
}

}  // namespace terrane::policies::lua

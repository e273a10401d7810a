#include <cmath>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "ipc/varlink/interface.hpp"

namespace terrane::ipc::varlink {
namespace {

namespace json = boost::json;
using kinds = type::kinds;

// The path of a field: "sampling.top_k".
std::string within(std::string path, std::string_view name) {
  if (!path.empty()) {
    path += '.';
  }
  return path.append(name);
}

class checker {
 public:
  explicit checker(const interface_description& interface) : interface_(interface) {}

  std::optional<misfit> fields(const std::vector<field>& expected, const json::object& value,
                               const std::string& where) const {
    for (const field& one : expected) {
      const std::string inner = within(where, one.name);
      const json::value* found = value.if_contains(one.name);
      if (found == nullptr && one.type.kind != kinds::optional) {
        return misfit{inner, "it is missing"};
      }
      if (found != nullptr) {
        if (auto wrong = check_value(one.type, *found, inner)) {
          return wrong;
        }
      }
    }
    return unknown_field(expected, value, where);
  }

 private:
  static std::optional<misfit> unknown_field(const std::vector<field>& expected,
                                             const json::object& value, const std::string& where) {
    for (const auto& entry : value) {
      bool known = false;
      for (const field& one : expected) {
        known = known || one.name == entry.key();
      }
      if (!known) {
        return misfit{within(where, entry.key()), "there is no such parameter"};
      }
    }
    return std::nullopt;
  }

  std::optional<misfit> check_value(const type& expected, const json::value& value,
                                    const std::string& where) const {
    switch (expected.kind) {
      case kinds::boolean:
        return unless(value.is_bool(), where, "it must be true or false");
      case kinds::integer:
        return unless(value.is_int64(), where, "it must be a 64-bit integer");
      case kinds::floating:
        return number(value, where);
      case kinds::string:
        return unless(value.is_string(), where, "it must be a string");
      case kinds::object:
        return unless(value.is_object(), where, "it must be an object");
      case kinds::any:
        return std::nullopt;
      case kinds::enumeration:
        return enumerator(expected, value, where);
      case kinds::structure:
        if (!value.is_object()) {
          return misfit{where, "it must be an object"};
        }
        return fields(expected.fields, value.get_object(), where);
      case kinds::array:
        return array(expected.element.front(), value, where);
      case kinds::map:
        return map(expected.element.front(), value, where);
      case kinds::optional:
        return value.is_null() ? std::nullopt : check_value(expected.element.front(), value, where);
      case kinds::named:
        return check_value(interface_.types.find(expected.name)->second, value, where);
    }
    return std::nullopt;
  }

  static std::optional<misfit> unless(bool fits, const std::string& where, const char* expected) {
    return fits ? std::nullopt : std::optional(misfit{where, expected});
  }
  static std::optional<misfit> number(const json::value& value, const std::string& where) {
    const bool finite = value.is_double() ? std::isfinite(value.get_double()) : value.is_number();
    return unless(finite, where, "it must be a finite number");
  }
  static std::optional<misfit> enumerator(const type& expected, const json::value& value,
                                          const std::string& where) {
    std::string known;
    for (const std::string& name : expected.names) {
      if (value.is_string() && value.get_string() == name) {
        return std::nullopt;
      }
      known += (known.empty() ? "" : ", ") + name;
    }
    return misfit{where, "it must be one of: " + known};
  }
  std::optional<misfit> array(const type& element, const json::value& value,
                              const std::string& where) const {
    if (!value.is_array()) {
      return misfit{where, "it must be an array"};
    }
    std::size_t index = 0;
    for (const json::value& one : value.get_array()) {
      if (auto wrong = check_value(element, one, where + "[" + std::to_string(index++) + "]")) {
        return wrong;
      }
    }
    return std::nullopt;
  }
  std::optional<misfit> map(const type& element, const json::value& value,
                            const std::string& where) const {
    if (!value.is_object()) {
      return misfit{where, "it must be an object"};
    }
    for (const auto& entry : value.get_object()) {
      if (auto wrong =
              check_value(element, entry.value(), where + "[" + std::string(entry.key()) + "]")) {
        return wrong;
      }
    }
    return std::nullopt;
  }

  const interface_description& interface_;
};

}  // namespace

std::optional<misfit> check(const interface_description& interface,
                            const std::vector<field>& fields, const boost::json::object& value) {
  return checker(interface).fields(fields, value, "");
}

}  // namespace terrane::ipc::varlink

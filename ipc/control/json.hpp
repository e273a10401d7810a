// Values of the control protocol to JSON objects and back, by the described members of their types
// (types.hpp): a member's name is the field's name, an empty optional is a field left out, an
// enumerator is a string. No other shapes: integers, floats, booleans, strings, described enums and
// structs, vectors and optionals of these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <boost/describe/enum_from_string.hpp>
#include <boost/describe/enum_to_string.hpp>
#include <boost/describe/members.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <boost/mp11/algorithm.hpp>

namespace terrane::ipc {

template <class T>
using described_members = boost::describe::describe_members<T, boost::describe::mod_public>;

template <class T>
boost::json::object to_json(const T& value);

namespace json_shapes {

template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};
template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::true_type {};

template <class T>
boost::json::value value_to_json(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return boost::json::string(boost::describe::enum_to_string(value, ""));
  } else if constexpr (is_vector<T>::value) {
    boost::json::array array;
    array.reserve(value.size());
    for (const auto& element : value) {
      array.push_back(value_to_json(element));
    }
    return array;
  } else if constexpr (boost::describe::has_describe_members<T>::value) {
    return to_json(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return boost::json::string(value);
  } else {
    static_assert(std::is_same_v<T, std::int64_t> || std::is_same_v<T, double> ||
                  std::is_same_v<T, bool>);
    return value;
  }
}

// Each of these returns false when `from` has another shape than `into`.
template <class T>
bool value_from_json(const boost::json::value& from, T& into);

template <class T>
bool object_from_json(const boost::json::object& from, T& into) {
  bool fits = true;
  boost::mp11::mp_for_each<described_members<T>>([&](auto member) {
    auto& field = into.*member.pointer;
    const boost::json::value* value = from.if_contains(member.name);
    if constexpr (is_optional<std::remove_reference_t<decltype(field)>>::value) {
      if (value != nullptr && !value->is_null()) {
        fits = value_from_json(*value, field.emplace()) && fits;
      }
    } else {
      fits = value != nullptr && value_from_json(*value, field) && fits;
    }
  });
  return fits;
}

template <class T>
bool value_from_json(const boost::json::value& from, T& into) {
  if constexpr (std::is_enum_v<T>) {
    if (!from.is_string()) {
      return false;
    }
    const std::string name(from.get_string());  // up to a NUL in it, it could look known
    return name.find(char{}) == name.npos && boost::describe::enum_from_string(name.c_str(), into);
  } else if constexpr (is_vector<T>::value) {
    if (!from.is_array()) {
      return false;
    }
    for (const auto& element : from.get_array()) {
      if (!value_from_json(element, into.emplace_back())) {
        return false;
      }
    }
    return true;
  } else if constexpr (boost::describe::has_describe_members<T>::value) {
    return from.is_object() && object_from_json(from.get_object(), into);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!from.is_string()) {
      return false;
    }
    into.assign(from.get_string().begin(), from.get_string().end());
    return true;
  } else if constexpr (std::is_same_v<T, bool>) {
    into = from.is_bool() && from.get_bool();
    return from.is_bool();
  } else if constexpr (std::is_same_v<T, double>) {
    boost::json::error_code wrong;
    into = from.to_number<double>(wrong);
    return !wrong;
  } else {
    static_assert(std::is_same_v<T, std::int64_t>);
    into = from.is_int64() ? from.get_int64() : 0;
    return from.is_int64();
  }
}

}  // namespace json_shapes

template <class T>
boost::json::object to_json(const T& value) {
  boost::json::object object;
  boost::mp11::mp_for_each<described_members<T>>([&](auto member) {
    const auto& field = value.*member.pointer;
    if constexpr (json_shapes::is_optional<std::remove_cvref_t<decltype(field)>>::value) {
      if (field) {
        object[member.name] = json_shapes::value_to_json(*field);
      }
    } else {
      object[member.name] = json_shapes::value_to_json(field);
    }
  });
  return object;
}

// The value, or nothing when a field is missing or has another type. Fields that T does not have
// are ignored: a client goes on working with a newer daemon.
template <class T>
std::optional<T> from_json(const boost::json::object& object) {
  T value;
  if (!json_shapes::object_from_json(object, value)) {
    return std::nullopt;
  }
  return value;
}

}  // namespace terrane::ipc

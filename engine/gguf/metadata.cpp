#include "engine/gguf/metadata.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "engine/gguf/text.hpp"

namespace terrane::engine::gguf {
namespace {

constexpr std::array<std::string_view, value_type_count> type_names{
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
constexpr std::array<std::uint64_t, value_type_count> type_bytes{1, 1, 2, 2, 4, 4, 4,
                                                                 1, 8, 0, 8, 8, 8};

bool is_integer(value_type type) {
  switch (type) {
    case value_type::f32:
    case value_type::f64:
    case value_type::boolean:
    case value_type::string:
    case value_type::array:
      return false;
    default:
      return true;
  }
}

bool is_real(value_type type) { return type == value_type::f32 || type == value_type::f64; }

template <class T>
bool holds(value_type type) {
  return std::is_floating_point_v<T> ? is_real(type) : is_integer(type);
}

template <class T>
std::string expected_name() {
  if constexpr (std::is_floating_point_v<T>) {
    return "a float";
  } else {
    return "an integer from " + std::to_string(std::numeric_limits<T>::min()) + " to " +
           std::to_string(std::numeric_limits<T>::max());
  }
}

}  // namespace

std::string_view to_string(value_type type) { return type_names[static_cast<std::size_t>(type)]; }

std::uint64_t value_bytes(value_type type) { return type_bytes[static_cast<std::size_t>(type)]; }

std::string describe(const metadata::entry& of) {
  if (of.type != value_type::array) {
    return std::string(to_string(of.type));
  }
  return "an array of " + std::to_string(of.count) + " " + std::string(to_string(of.element_type));
}

metadata::metadata(std::string path, std::vector<char> bytes, std::vector<entry> entries)
    : path_(std::move(path)), bytes_(std::move(bytes)), entries_(std::move(entries)) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const entry& e = entries_[i];
    by_key_.emplace(e.key, i);
    if (e.type != value_type::array || e.element_type != value_type::string) {
      continue;
    }
    auto& elements = string_arrays_[e.key];
    elements.reserve(e.count);
    std::uint64_t at = e.offset;
    for (std::uint64_t k = 0; k < e.count; ++k) {
      elements.push_back(string_at(at));
      at += sizeof(std::uint64_t) + elements.back().size();
    }
  }
}

bool metadata::is_array(std::string_view key) const {
  const entry* found = find(key);
  return found != nullptr && found->type == value_type::array;
}

const metadata::entry* metadata::find(std::string_view key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &entries_[found->second];
}

result<const metadata::entry*> metadata::require(std::string_view key,
                                                 std::string_view expected) const {
  const entry* found = find(key);
  if (found == nullptr) {
    return fail(error_code::invalid_input,
                "metadata key " + shown(key) + " is missing; expected " + std::string(expected),
                path_);
  }
  return found;
}

tl::unexpected<error> metadata::wrong_type(const entry& found, std::string_view expected) const {
  return fail(error_code::invalid_input,
              "metadata key " + shown(found.key) + " is " + describe(found) + "; expected " +
                  std::string(expected),
              path_);
}

template <class T>
T metadata::load(std::uint64_t offset) const {
  T value;
  std::memcpy(&value, bytes_.data() + offset, sizeof(T));
  return value;
}

std::string_view metadata::string_at(std::uint64_t offset) const {
  return {bytes_.data() + offset + sizeof(std::uint64_t), load<std::uint64_t>(offset)};
}

// Element `index` of an entry whose element type holds<T>().
template <class T>
result<T> metadata::convert(const entry& of, std::uint64_t index) const {
  const std::uint64_t at = of.offset + index * value_bytes(of.element_type);
  const auto narrow = [&](auto value) -> result<T> {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(value);
    } else {
      if (!std::in_range<T>(value)) {
        return fail(error_code::invalid_input,
                    "metadata key " + shown(of.key) + " holds " + std::to_string(value) +
                        "; expected " + expected_name<T>(),
                    path_);
      }
      return static_cast<T>(value);
    }
  };
  if constexpr (std::is_floating_point_v<T>) {
    return of.element_type == value_type::f32 ? narrow(load<float>(at)) : narrow(load<double>(at));
  } else {
    switch (of.element_type) {
      case value_type::u8:
        return narrow(std::uint32_t{load<std::uint8_t>(at)});
      case value_type::i8:
        return narrow(std::int32_t{load<std::int8_t>(at)});
      case value_type::u16:
        return narrow(load<std::uint16_t>(at));
      case value_type::i16:
        return narrow(load<std::int16_t>(at));
      case value_type::u32:
        return narrow(load<std::uint32_t>(at));
      case value_type::i32:
        return narrow(load<std::int32_t>(at));
      case value_type::u64:
        return narrow(load<std::uint64_t>(at));
      default:
        return narrow(load<std::int64_t>(at));
    }
  }
}

result<std::string_view> metadata::text(std::string_view key) const {
  const auto found = require(key, "a string");
  if (!found) {
    return tl::unexpected(found.error());
  }
  const entry& e = **found;
  if (e.type != value_type::string) {
    return wrong_type(e, "a string");
  }
  const std::string_view value = string_at(e.offset);
  if (!is_utf8(value)) {
    return fail(error_code::invalid_input,
                "metadata key " + shown(key) + " is not UTF-8: " + shown(value), path_);
  }
  return value;
}

result<std::span<const std::string_view>> metadata::texts(std::string_view key) const {
  const auto found = require(key, "an array of strings");
  if (!found) {
    return tl::unexpected(found.error());
  }
  const auto elements = string_arrays_.find(key);
  if (elements == string_arrays_.end()) {
    return wrong_type(**found, "an array of strings");
  }
  return std::span<const std::string_view>(elements->second);
}

result<bool> metadata::boolean(std::string_view key) const {
  const auto found = require(key, "a bool");
  if (!found) {
    return tl::unexpected(found.error());
  }
  if ((*found)->type != value_type::boolean) {
    return wrong_type(**found, "a bool");
  }
  return load<std::uint8_t>((*found)->offset) != 0;
}

result<float> metadata::real(std::string_view key) const {
  const auto found = require(key, "a float");
  if (!found) {
    return tl::unexpected(found.error());
  }
  if (!is_real((*found)->type)) {
    return wrong_type(**found, "a float");
  }
  return convert<float>(**found, 0);
}

template <std::integral T>
result<T> metadata::integer(std::string_view key) const {
  const auto found = require(key, expected_name<T>());
  if (!found) {
    return tl::unexpected(found.error());
  }
  if (!is_integer((*found)->type)) {
    return wrong_type(**found, expected_name<T>());
  }
  return convert<T>(**found, 0);
}

template <class T>
result<std::vector<T>> metadata::numbers(std::string_view key) const {
  const std::string expected = "an array, each element " + expected_name<T>();
  const auto found = require(key, expected);
  if (!found) {
    return tl::unexpected(found.error());
  }
  const entry& e = **found;
  if (e.type != value_type::array || !holds<T>(e.element_type)) {
    return wrong_type(e, expected);
  }
  std::vector<T> values;
  values.reserve(e.count);
  for (std::uint64_t i = 0; i < e.count; ++i) {
    const auto value = convert<T>(e, i);
    if (!value) {
      return tl::unexpected(value.error());
    }
    values.push_back(*value);
  }
  return values;
}

result<std::vector<bool>> metadata::booleans(std::string_view key) const {
  const std::string expected = "an array of booleans";
  const auto found = require(key, expected);
  if (!found) {
    return tl::unexpected(found.error());
  }
  const entry& e = **found;
  if (e.type != value_type::array || e.element_type != value_type::boolean) {
    return wrong_type(e, expected);
  }
  std::vector<bool> values;
  for (std::uint64_t i = 0; i < e.count; ++i) {
    values.push_back(load<std::uint8_t>(e.offset + i) != 0);
  }
  return values;
}

result<std::string_view> metadata::text_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? text(key) : result<std::string_view>(fallback);
}

result<bool> metadata::boolean_or(std::string_view key, bool fallback) const {
  return has(key) ? boolean(key) : result<bool>(fallback);
}

result<float> metadata::real_or(std::string_view key, float fallback) const {
  return has(key) ? real(key) : result<float>(fallback);
}

template result<std::uint16_t> metadata::integer(std::string_view) const;
template result<std::uint32_t> metadata::integer(std::string_view) const;
template result<std::int32_t> metadata::integer(std::string_view) const;
template result<std::uint64_t> metadata::integer(std::string_view) const;
template result<std::int64_t> metadata::integer(std::string_view) const;
template result<std::vector<float>> metadata::numbers(std::string_view) const;
template result<std::vector<std::uint32_t>> metadata::numbers(std::string_view) const;
template result<std::vector<std::int32_t>> metadata::numbers(std::string_view) const;
template result<std::vector<std::uint64_t>> metadata::numbers(std::string_view) const;

}  // namespace terrane::engine::gguf

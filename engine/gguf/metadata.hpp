// The keys and values of a GGUF file, looked up by name and type. The bytes are kept as they lie in
// the file, once: strings and arrays of strings are views into them, arrays of numbers are
// converted when asked for. A lookup that fails says file, key, what was expected and what is
// there. Owns its bytes; move-only; views live as long as the object that it was moved to. Constant
// after construction, so any thread may look up.
//
// Integers are taken from any integer type that holds the value, floats from both float types:
// converters differ in the width that they write.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/result.hpp"

namespace terrane::engine::gguf {

// Ids as in the GGUF specification (`gguf_metadata_value_type`).
enum class value_type : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

inline constexpr std::uint32_t value_type_count = 13;

std::string_view to_string(value_type type);

// Bytes of one value in the file; of a string, its length field; 0 for an array.
std::uint64_t value_bytes(value_type type);

class metadata {
 public:
  struct entry {
    std::string_view key;
    value_type type;
    value_type element_type;  // of an array; else equal to type
    std::uint64_t count;      // elements of an array; else 1
    std::uint64_t offset;     // of the value, or of an array's first element, in the file
  };

  metadata() = default;
  // `bytes`: the front of the file `path`. `entries` refer to it and have been checked against it,
  // their keys are distinct (the parser's work; keys are taken from key_at).
  metadata(std::string path, std::vector<char> bytes, std::vector<entry> entries);
  metadata(metadata&&) = default;
  metadata& operator=(metadata&&) = default;

  const std::string& path() const { return path_; }
  std::span<const entry> entries() const { return entries_; }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  bool is_array(std::string_view key) const;

  // A string. It must be UTF-8, so that it may be shown and sent.
  result<std::string_view> text(std::string_view key) const;
  // The elements of an array of strings. They may hold any bytes.
  result<std::span<const std::string_view>> texts(std::string_view key) const;
  result<bool> boolean(std::string_view key) const;
  result<float> real(std::string_view key) const;
  template <std::integral T>
  result<T> integer(std::string_view key) const;
  // The elements of an array of numbers; T is float or an integer type.
  template <class T>
  result<std::vector<T>> numbers(std::string_view key) const;
  result<std::vector<bool>> booleans(std::string_view key) const;  // the elements of an array

  // The same with a value for a missing key. A key of the wrong type is still an error.
  result<std::string_view> text_or(std::string_view key, std::string_view fallback) const;
  result<bool> boolean_or(std::string_view key, bool fallback) const;
  result<float> real_or(std::string_view key, float fallback) const;
  template <std::integral T>
  result<T> integer_or(std::string_view key, T fallback) const {
    return has(key) ? integer<T>(key) : result<T>(fallback);
  }

 private:
  const entry* find(std::string_view key) const;
  result<const entry*> require(std::string_view key, std::string_view expected) const;
  tl::unexpected<error> wrong_type(const entry& found, std::string_view expected) const;
  template <class T>
  T load(std::uint64_t offset) const;
  template <class T>
  result<T> convert(const entry& of, std::uint64_t index) const;
  std::string_view string_at(std::uint64_t offset) const;

  std::string path_;
  std::vector<char> bytes_;
  std::vector<entry> entries_;
  std::unordered_map<std::string_view, std::size_t> by_key_;
  // For each entry that is an array of strings, its elements.
  std::unordered_map<std::string_view, std::vector<std::string_view>> string_arrays_;
};

// "an array of 49152 string", "u32", for messages.
std::string describe(const metadata::entry& of);

}  // namespace terrane::engine::gguf

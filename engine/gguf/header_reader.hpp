// A bounded cursor over the front of a file that nobody vouches for. It reads what is asked for
// and no more than the file has, keeps the bytes (they become the metadata's storage), and
// remembers the first thing that went wrong: after a failure every read gives zero, so a parser
// checks ok() once per item. Memory grows with what was read, never with what a field claims.
// Owned and used by one parser in one thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/result.hpp"

namespace terrane::engine::gguf {

class header_reader {
 public:
  // The most that metadata and tensor descriptions may take. The largest published vocabularies
  // need about 20 MB.
  static constexpr std::uint64_t max_bytes = std::uint64_t{128} << 20;

  // `descriptor` stays the caller's. `path` is for messages.
  header_reader(int descriptor, std::uint64_t file_bytes, std::string path);

  bool ok() const { return !failure_.has_value(); }
  const error& failure() const { return *failure_; }
  void refuse(std::string message, error_code code = error_code::invalid_input);

  // What is being read, for messages: "metadata key 'general.name'".
  void set_context(std::string context);
  // Which element of it, for messages.
  void set_element(std::uint64_t index) { element_ = index; }
  std::string context() const;

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return file_bytes_ - position_; }

  // The next little-endian number. `what` names it in messages.
  template <class T>
  T number(const char* what) {
    T value{};
    if (ensure(sizeof(T), what)) {
      std::memcpy(&value, bytes_.data() + position_, sizeof(T));
      position_ += sizeof(T);
    }
    return value;
  }

  // The next string: a 64-bit length, then the bytes. Valid until the next read.
  std::string_view text(const char* what, std::uint64_t max_length);

  // Refuses unless `count` items of `item_bytes` each can still follow.
  void expect_room(std::uint64_t count, std::uint64_t item_bytes, const char* what);

  // Passes over `count` items of `item_bytes` each.
  void skip(std::uint64_t count, std::uint64_t item_bytes, const char* what);

  // All bytes up to the position, from the start of the file.
  std::vector<char> take_bytes() &&;

 private:
  bool ensure(std::uint64_t bytes, const char* what);
  bool load(std::uint64_t end);

  int descriptor_;
  std::uint64_t file_bytes_;
  std::string path_;
  std::vector<char> bytes_;
  std::uint64_t position_ = 0;
  std::string context_ = "the header";
  std::optional<std::uint64_t> element_;
  std::optional<error> failure_;
};

}  // namespace terrane::engine::gguf

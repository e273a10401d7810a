// Cuts a stream of bytes into Varlink messages: each ends with one NUL. No I/O here, so that tests
// and fuzzers can feed it. One thread at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace terrane::ipc::varlink {

class message_splitter {
 public:
  // `limit_bytes`: of one message, without its NUL.
  explicit message_splitter(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  void feed(std::string_view bytes);

  // The next whole message without its NUL (it may be empty), or nothing: feed more. A message over
  // the limit is never returned; from it on there is nothing more, and `oversized` is true.
  std::optional<std::string> next();

  bool oversized() const { return oversized_; }
  // Whether a message has begun that has not ended.
  bool in_message() const { return taken_ < buffer_.size(); }

 private:
  std::size_t limit_bytes_;
  std::string buffer_;
  std::size_t taken_ = 0;     // bytes of buffer_ that were returned as messages
  std::size_t searched_ = 0;  // bytes of buffer_ known to hold no further NUL
  bool oversized_ = false;
};

}  // namespace terrane::ipc::varlink

#include "engine/gguf/header_reader.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include <unistd.h>

namespace terrane::engine::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little-endian");

header_reader::header_reader(int descriptor, std::uint64_t file_bytes, std::string path)
    : descriptor_(descriptor), file_bytes_(file_bytes), path_(std::move(path)) {}

void header_reader::refuse(std::string message, error_code code) {
  if (ok()) {
    failure_ = error{code, std::move(message), path_};
  }
}

void header_reader::set_context(std::string context) {
  context_ = std::move(context);
  element_.reset();
}

std::string header_reader::context() const {
  return element_ ? context_ + ", element " + std::to_string(*element_) : context_;
}

std::string_view header_reader::text(const char* what, std::uint64_t max_length) {
  const auto length = number<std::uint64_t>(what);
  if (!ok()) {
    return {};
  }
  if (length > max_length && length <= remaining()) {
    refuse(context() + ": " + what + " is " + std::to_string(length) +
           " bytes long, supported are up to " + std::to_string(max_length));
    return {};
  }
  if (!ensure(length, what)) {
    return {};
  }
  const std::string_view found(bytes_.data() + position_, length);
  position_ += length;
  return found;
}

void header_reader::expect_room(std::uint64_t count, std::uint64_t item_bytes, const char* what) {
  if (ok() && count > remaining() / item_bytes) {
    refuse(context() + ": " + what + " claims " + std::to_string(count) + " items of " +
           std::to_string(item_bytes) + " bytes, but the file ends after " +
           std::to_string(remaining()) + " more bytes (truncated or damaged)");
  }
}

void header_reader::skip(std::uint64_t count, std::uint64_t item_bytes, const char* what) {
  expect_room(count, item_bytes, what);
  if (ok() && ensure(count * item_bytes, what)) {
    position_ += count * item_bytes;
  }
}

std::vector<char> header_reader::take_bytes() && {
  bytes_.resize(position_);
  bytes_.shrink_to_fit();
  return std::move(bytes_);
}

bool header_reader::ensure(std::uint64_t bytes, const char* what) {
  if (!ok()) {
    return false;
  }
  if (bytes > remaining()) {
    refuse(context() + ": the file ends inside " + what + ": " + std::to_string(bytes) +
           (bytes == 1 ? " byte" : " bytes") + " expected at offset " + std::to_string(position_) +
           ", the file has " + std::to_string(file_bytes_) + " in all (truncated or damaged)");
    return false;
  }
  const std::uint64_t end = position_ + bytes;
  if (end > max_bytes) {
    refuse(context() + ": " + what + " reaches offset " + std::to_string(end) +
               "; metadata of up to " + std::to_string(max_bytes) + " bytes is supported",
           error_code::unsupported);
    return false;
  }
  return end <= bytes_.size() || load(end);
}

bool header_reader::load(std::uint64_t end) {
  const std::uint64_t ahead = std::max<std::uint64_t>(bytes_.size(), std::uint64_t{64} << 10);
  const std::uint64_t wanted = std::min(file_bytes_, std::min(max_bytes, end + ahead));
  std::uint64_t have = bytes_.size();
  bytes_.resize(wanted);
  while (have < wanted) {
    const auto got =
        ::pread(descriptor_, bytes_.data() + have, wanted - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      refuse(got < 0 ? std::string("cannot be read: ") + std::strerror(errno)
                     : "became shorter while it was read",
             error_code::io);
      return false;
    }
    have += static_cast<std::uint64_t>(got);
  }
  return true;
}

}  // namespace terrane::engine::gguf

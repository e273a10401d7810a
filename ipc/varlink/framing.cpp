#include "ipc/varlink/framing.hpp"

namespace terrane::ipc::varlink {

void message_splitter::feed(std::string_view bytes) {
  if (oversized_) {
    return;
  }
  buffer_.erase(0, taken_);
  searched_ -= taken_;
  taken_ = 0;
  buffer_.append(bytes);
}

std::optional<std::string> message_splitter::next() {
  if (oversized_) {
    return std::nullopt;
  }
  const std::size_t end = buffer_.find('\0', searched_);
  const std::size_t length = (end == std::string::npos ? buffer_.size() : end) - taken_;
  if (length > limit_bytes_) {
    oversized_ = true;
    buffer_.clear();
    taken_ = searched_ = 0;
    return std::nullopt;
  }
  if (end == std::string::npos) {
    searched_ = buffer_.size();
    return std::nullopt;
  }
  std::string message = buffer_.substr(taken_, length);
  taken_ = searched_ = end + 1;
  return message;
}

}  // namespace terrane::ipc::varlink

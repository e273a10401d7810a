// An open file, closed when its owner goes. Move-only; the number may be used from any thread.
#pragma once

#include <utility>

#include <unistd.h>

namespace terrane::engine::gguf {

class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int number) : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }

  int number() const { return number_; }

 private:
  int number_ = -1;
};

}  // namespace terrane::engine::gguf

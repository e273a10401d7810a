// Writes a GGUF file of version 3: metadata and tensor descriptions first, then tensor data in any
// order and from any number of threads, so that a file of many gigabytes needs little memory. It
// is written beside its place as NAME.partial and takes its name only when finish() succeeds; a
// writer that is dropped before leaves nothing.
//
// Order of calls: create, put and add_tensor as often as wanted, begin_data, write, finish. Owns
// the open file; move-only; one thread, except that write() may be called from several at once.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/gguf/descriptor.hpp"
#include "engine/gguf/header.hpp"
#include "kernels/result.hpp"

namespace terrane::engine::gguf {

template <class T>
concept scalar_value = std::same_as<T, std::uint8_t> || std::same_as<T, std::int8_t> ||
    std::same_as<T, std::uint16_t> || std::same_as<T, std::int16_t> ||
    std::same_as<T, std::uint32_t> || std::same_as<T, std::int32_t> || std::same_as<T, float> ||
    std::same_as<T, bool> || std::same_as<T, std::uint64_t> || std::same_as<T, std::int64_t> ||
    std::same_as<T, double>;

class writer {
 public:
  static constexpr std::uint64_t default_alignment = 32;

  // `alignment`: of each tensor's bytes, a power of two; written to the file when not the default.
  static result<writer> create(const std::filesystem::path& path,
                               std::uint32_t alignment = default_alignment);
  writer(writer&&) noexcept = default;
  writer& operator=(writer&&) = delete;
  ~writer();

  // A key may be put once. What is wrong with a key or a tensor is said by begin_data().
  template <scalar_value T>
  void put(std::string_view key, T value);
  void put(std::string_view key, std::string_view value);
  void put(std::string_view key, const char* value) { put(key, std::string_view(value)); }
  template <scalar_value T>
  void put_array(std::string_view key, std::span<const T> values);
  void put_array(std::string_view key, std::span<const std::string> values);

  // Declares the next tensor and returns its index. `shape`: 1 to 4 dimensions, fastest first.
  std::size_t add_tensor(std::string_view name, ggml_type type,
                         std::span<const std::uint64_t> shape);
  // Valid after begin_data(): sizes and offsets as they will stand in the file.
  std::span<const tensor> tensors() const { return tensors_; }

  // Writes the header and makes room for the data.
  result<void> begin_data();
  // Bytes of tensor `index` from byte `offset` of it.
  result<void> write(std::size_t index, std::uint64_t offset, std::span<const std::byte> bytes);
  // Checks that as many bytes were written as declared, and gives the file its name.
  result<void> finish();

 private:
  writer() = default;
  void add_key(std::string_view key, value_type type);
  void append(const void* bytes, std::size_t count);
  void append(std::string_view text);
  template <class T>
  void append_number(T value) {
    append(&value, sizeof value);
  }
  void refuse(std::string message);
  void append_tensor(const tensor& of);
  result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;

  std::string path_;
  std::string partial_path_;  // empty once the file has its name
  descriptor handle_;
  std::uint64_t alignment_ = default_alignment;
  std::string entries_;
  std::uint64_t entry_count_ = 0;
  std::unordered_set<std::string> names_;  // keys, and tensors behind a NUL
  std::vector<tensor> tensors_;
  std::uint64_t data_bytes_ = 0;  // with padding
  std::unique_ptr<std::atomic<std::uint64_t>> written_bytes_;
  std::string refusal_;
};

}  // namespace terrane::engine::gguf

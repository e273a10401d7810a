// Puts a GGUF file together byte by byte, right or wrong as told: it shares no code with the writer
// and the reader, so that each can be tested against it. Values only; one thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace terrane::test {

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
inline std::string raw_text(const std::string& text) {
  return raw(std::uint64_t{text.size()}) + text;
}

struct raw_gguf {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> tensor_count;  // else as many as there are
  std::optional<std::uint64_t> entry_count;
  std::vector<std::string> entries;
  std::vector<std::string> tensors;
  std::uint64_t alignment = 32;
  std::uint64_t data_bytes = 0;

  // `payload`: everything behind the type's id.
  raw_gguf& entry(const std::string& key, std::uint32_t type, const std::string& payload) {
    entries.push_back(raw_text(key) + raw(type) + payload);
    return *this;
  }
  raw_gguf& array(const std::string& key, std::uint32_t type, std::uint64_t count,
                  const std::string& elements) {
    return entry(key, 9, raw(type) + raw(count) + elements);
  }
  raw_gguf& tensor(const std::string& name, std::initializer_list<std::uint64_t> shape,
                   std::uint32_t type, std::uint64_t offset) {
    std::string bytes = raw_text(name) + raw(static_cast<std::uint32_t>(shape.size()));
    for (const std::uint64_t dimension : shape) {
      bytes += raw(dimension);
    }
    tensors.push_back(bytes + raw(type) + raw(offset));
    return *this;
  }
  raw_gguf& data(std::uint64_t bytes) {
    data_bytes = bytes;
    return *this;
  }

  std::string header() const {
    std::string out = magic + raw(version) + raw(tensor_count.value_or(tensors.size())) +
                      raw(entry_count.value_or(entries.size()));
    for (const std::string& e : entries) {
      out += e;
    }
    for (const std::string& t : tensors) {
      out += t;
    }
    return out;
  }
  // Data bytes count up from 0, so that a test sees which were read.
  std::string bytes() const {
    std::string out = header();
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    for (std::uint64_t i = 0; i < data_bytes; ++i) {
      out += static_cast<char>(i);
    }
    return out;
  }
};

}  // namespace terrane::test

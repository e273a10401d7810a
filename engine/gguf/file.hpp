// A model in GGUF: one file, or the parts of a split model (NAME-00001-of-00003.gguf) found from
// any one of them. Opening reads and checks all headers and not one byte of tensor data; that is
// read on demand, a tensor or a run of rows at a time, into memory of the caller's. Whatever is
// wrong with a file is one error that names file, field, value and what is supported. Owns the open
// descriptors and the metadata; move-only. Constant after open(), so any number of threads may read
// at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/gguf/descriptor.hpp"
#include "engine/gguf/header.hpp"
#include "engine/gguf/metadata.hpp"
#include "kernels/result.hpp"

namespace terrane::engine::gguf {

class file {
 public:
  // `path`: the file, or any part of a split model whose other parts lie beside it.
  static result<file> open(const std::filesystem::path& path);

  std::uint32_t version() const { return version_; }
  // Of a split model, the first part's: the others repeat none of it.
  const metadata& meta() const { return meta_; }
  // In the order of the files. Views and pointers to them live as long as this object.
  std::span<const tensor> tensors() const { return tensors_; }
  // Null when there is none.
  const tensor* find(std::string_view name) const;
  // The same, where its absence is an error that names the tensor and the file.
  result<const tensor*> require(std::string_view name) const;
  // All parts, the first first; tensor::split counts these.
  std::span<const std::string> paths() const { return paths_; }
  // The size of all parts on disk.
  std::uint64_t bytes() const { return bytes_; }

  // All of a tensor of this file; `to` has tensor::bytes.
  result<void> read(const tensor& of, std::span<std::byte> to) const;
  // `count` rows from row `first`; `to` has count * tensor::row_bytes().
  result<void> read_rows(const tensor& of, std::uint64_t first, std::uint64_t count,
                         std::span<std::byte> to) const;

 private:
  struct part {
    descriptor handle;
    std::string path;
    std::uint64_t bytes = 0;
    header front;
  };

  struct place {
    std::uint64_t number;  // from 0
    std::uint64_t count;
  };

  file() = default;
  static result<part> open_part(const std::string& path);
  static result<std::vector<part>> open_parts(const std::string& path);
  static result<place> place_of(const part& of);
  static result<std::vector<part>> open_siblings(part given, place of_given);
  static result<part> open_sibling(const std::string& path, place expected);
  result<void> adopt(std::vector<part> parts);
  result<void> check_tensor_count() const;
  result<void> read_at(const tensor& of, std::uint64_t offset, std::span<std::byte> to) const;

  std::uint32_t version_ = 0;
  std::uint64_t bytes_ = 0;
  metadata meta_;
  std::vector<tensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
  std::vector<std::string> paths_;
  std::vector<descriptor> descriptors_;
};

}  // namespace terrane::engine::gguf

// What stands at the front of one GGUF file: magic, version, metadata, tensor descriptions. This is
// where every field of an untrusted file is checked, alone and against the others; file.hpp puts
// the parts of a split model together. Plain values; pure but for reading the descriptor.
// Format: the GGUF specification of the ggml project (docs/gguf.md), versions 2 and 3.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/gguf/ggml_type.hpp"
#include "engine/gguf/metadata.hpp"
#include "kernels/result.hpp"

namespace terrane::engine::gguf {

struct tensor {
  std::string name;
  ggml_type type = ggml_type::f32;
  std::uint32_t dimensions = 0;          // as written in the file, 1 to 4
  std::array<std::uint64_t, 4> shape{};  // elements, fastest first; 1 beyond `dimensions`
  std::uint64_t offset = 0;              // from the start of its file
  std::uint64_t bytes = 0;               // all of it
  std::uint32_t split = 0;               // which file of a split model, from 0

  // A row is shape[0] consecutive elements.
  std::uint64_t rows() const { return shape[1] * shape[2] * shape[3]; }
  std::uint64_t elements() const { return shape[0] * rows(); }
  std::uint64_t row_bytes() const { return bytes / rows(); }
};

struct header {
  std::uint32_t version = 0;
  metadata meta;
  std::vector<tensor> tensors;    // in the order of the file
  std::uint64_t data_offset = 0;  // where the tensors' bytes begin
};

// Reads and checks the header of the open file `descriptor`, `file_bytes` long. Tensors are
// checked to lie inside the file and not to overlap.
result<header> read_header(int descriptor, std::uint64_t file_bytes, const std::string& path);

}  // namespace terrane::engine::gguf

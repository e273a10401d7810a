// Weight formats: how a matrix is stored, packed for every device, and multiplied.
//
// A format is described once, in one file of this folder: the bytes of its blocks, how they are
// split into planes when packed, the dot product of 32 rows with activations and the value of an
// element, both in the kernel language. Every kernel and target follows from it. Descriptions are
// constants; any thread.
//
// Packed layout, the same on every device, so that a move is a plain copy. Rows are taken in groups
// of 32 (zero rows fill up the last), K in the format's packed blocks. For group g and block b, in
// this order, the planes of the block; within a plane, unit u of all 32 rows side by side, a row
// every `unit_bytes`: a lane a row, so a warp's load is contiguous.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/lang/builder.hpp"
#include "kernels/result.hpp"

namespace terrane::kernels {

// int8 with a scale for each 32 or 256 elements, or numbers. Super-block formats multiply with
// q8_by_256: one scale for the exact integer sum of a segment. Formats of 32 weights have a term a
// block anyway, so the finer scales of q8_by_32 cost nothing and keep more of the activation
// (measured: kernels/README.md).
enum class activation_kind : std::uint8_t { q8_by_32, q8_by_256, f16, f32 };
// Elements of a part of a block of 256, where rows are rounded in parts.
inline constexpr std::uint32_t part_elements = 32;
// How many bits of a sum of 16 quantised activations its low byte holds (kernels/ops:
// q8_row_layout).
inline constexpr int sum_low_bits = 7;

// Bytes [source_offset, source_offset + bytes) of a stored block, as units of unit_bytes (16, 4, 2
// or 1).
struct packed_plane {
  std::uint32_t source_offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t unit_bytes = 16;
};

// Numbers of a stored block that may fail to be finite: the scales of a quantised one, the weights
// of a float one. E8M0 is a power of two in a byte.
enum class number_kind : std::uint8_t { f32, f16, bf16, e8m0 };
struct stored_numbers {
  number_kind kind = number_kind::f16;
  std::uint32_t source_offset = 0;
  std::uint32_t count = 0;  // one after another
};

struct segment_context;  // kernels/formats/segment.hpp: what a dot product is given

struct weight_format {
  const char* name = "";        // as in GGUF: "Q4_K"
  std::uint32_t ggml_type = 0;  // GGUF's number
  std::uint32_t block_elements =
      0;  // weights in a stored block, which is also a packed block: 32 or 256
  std::uint32_t block_bytes = 0;
  activation_kind activations = activation_kind::q8_by_32;
  std::vector<packed_plane> planes;

  // Adds the segment's row sums to nothing: returns the f32 tile of the sums over one segment of K
  // (256 elements, the last may be shorter), in the contract's order.
  std::function<val(const segment_context&)> segment;
  // The value of element `lane` (0..31) of a run of 32 elements, as f32, before the store rule.
  //   block: address of the packed block; row: i32 0..31; first: i32, the run's first element in
  //   the block
  std::function<val(builder& b, val block, val row, val first)> value;
  // The contract's store rule, applied to stored bytes when they are packed: to the numbers of
  // float formats and the scales of MXFP4. Null where no stored number reaches below it.
  void (*store_rule)(std::span<std::byte> stored) = nullptr;
  stored_numbers numbers = {};
};

// All formats, and one by GGUF type number (null if unknown).
std::span<const weight_format* const> weight_formats();
const weight_format* find_weight_format(std::uint32_t ggml_type);
std::string weight_format_names();  // "F32, F16, ..." for messages

// Bytes of the packed form of an n by k matrix, and of one group of 32 rows (a multiple of 32).
std::uint64_t packed_bytes(const weight_format& format, std::uint64_t n, std::uint64_t k);
std::uint64_t packed_group_bytes(const weight_format& format, std::uint64_t k);

// Packs rows [32*first_group, ...) given as stored rows of k elements each, `stored.size()` a whole
// number of rows; `packed` holds their groups. Weights of float formats obey the store rule here.
// k must be a multiple of the block and of 32.
void pack_rows(const weight_format& format, std::uint64_t k, std::span<const std::byte> stored,
               std::span<std::byte> packed);

}  // namespace terrane::kernels

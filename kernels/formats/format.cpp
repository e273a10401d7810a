#include "kernels/formats/format.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace terrane::kernels {

// Every format has one file here that defines NAME_format(), and one line in this list.
#define TERRANE_WEIGHT_FORMATS(X) \
  X(f32)                          \
  X(f16)                          \
  X(bf16)                         \
  X(q4_0)                         \
  X(q4_1)                         \
  X(q5_0)                         \
  X(q5_1)                         \
  X(q8_0)                         \
  X(q2_k)                         \
  X(q3_k)                         \
  X(q4_k)                         \
  X(q5_k)                         \
  X(q6_k)                         \
  X(iq4_nl)                       \
  X(iq4_xs)                       \
  X(mxfp4)

#define DECLARE_FORMAT(name) const weight_format& name##_format();
TERRANE_WEIGHT_FORMATS(DECLARE_FORMAT)
#undef DECLARE_FORMAT

std::span<const weight_format* const> weight_formats() {
#define FORMAT_ADDRESS(name) &name##_format(),
  static const std::array all = {TERRANE_WEIGHT_FORMATS(FORMAT_ADDRESS)};
#undef FORMAT_ADDRESS
  return all;
}

const weight_format* find_weight_format(std::uint32_t ggml_type) {
  for (const weight_format* f : weight_formats())
    if (f->ggml_type == ggml_type) return f;
  return nullptr;
}

std::string weight_format_names() {
  std::string names;
  for (const weight_format* f : weight_formats()) {
    if (!names.empty()) names += ", ";
    names += f->name;
  }
  return names;
}

std::uint64_t packed_group_bytes(const weight_format& format, std::uint64_t k) {
  return k / format.block_elements * format.block_bytes * warp_lanes;
}

std::uint64_t packed_bytes(const weight_format& format, std::uint64_t n, std::uint64_t k) {
  return (n + warp_lanes - 1) / warp_lanes * packed_group_bytes(format, k);
}

namespace {

// Copies a plane of one stored block to the place of row `row`. The size of a unit is a constant
// for the compiler: a call of memcpy for two bytes takes longer than all else.
template <std::size_t Bytes>
void pack_plane(const packed_plane& plane, const std::byte* stored, std::size_t row,
                std::byte* packed) {
  for (std::size_t u = 0; u < plane.bytes / Bytes; u++)
    std::memcpy(packed + (u * warp_lanes + row) * Bytes, stored + u * Bytes, Bytes);
}

// Spreads one stored block of row `row` over the planes of its packed block.
void pack_block(const weight_format& format, const std::byte* stored, std::size_t row,
                std::byte* packed) {
  for (const packed_plane& plane : format.planes) {
    const std::byte* from = stored + plane.source_offset;
    switch (plane.unit_bytes) {
      case 1:
        pack_plane<1>(plane, from, row, packed);
        break;
      case 2:
        pack_plane<2>(plane, from, row, packed);
        break;
      case 4:
        pack_plane<4>(plane, from, row, packed);
        break;
      default:
        assert(plane.unit_bytes == 16 && "the units that kernels load");
        pack_plane<16>(plane, from, row, packed);
    }
    packed += std::size_t{plane.bytes} * warp_lanes;
  }
}

}  // namespace

void pack_rows(const weight_format& format, std::uint64_t k, std::span<const std::byte> stored,
               std::span<std::byte> packed) {
  assert(k % format.block_elements == 0 && "a row is a whole number of blocks");
  std::size_t blocks = k / format.block_elements, row_bytes = blocks * format.block_bytes;
  std::size_t rows = stored.size() / row_bytes, group_bytes = packed_group_bytes(format, k);
  assert(stored.size() == rows * row_bytes && "a whole number of rows");
  assert(packed.size() == packed_bytes(format, rows, k) && "room for the rows' groups");
  if (rows % warp_lanes != 0) std::ranges::fill(packed.last(group_bytes), std::byte{0});
  std::vector<std::byte> clean;
  for (std::size_t r = 0; r < rows; r++) {
    std::span<const std::byte> row = stored.subspan(r * row_bytes, row_bytes);
    if (format.store_rule != nullptr) {
      clean.assign(row.begin(), row.end());
      format.store_rule(clean);
      row = clean;
    }
    std::byte* group = packed.data() + r / warp_lanes * group_bytes;
    for (std::size_t b = 0; b < blocks; b++)
      pack_block(format, row.data() + b * format.block_bytes, r % warp_lanes,
                 group + b * format.block_bytes * warp_lanes);
  }
}

}  // namespace terrane::kernels

// The kernels of a transformer, each written once as a program for every device.
//
// A function here makes the program for one shape; `*_grid` gives its workgroups. What a shape
// leaves open (columns, warps) changes speed only, never a bit of the result: see the numeric
// contract.
//
// Rows are tokens of one step, of one or many sessions. Activations are row-major, f32, with the
// strides given here. Buffers that linear() reads or writes are padded: rows up to a multiple of
// `columns`, matrix rows (N) up to a multiple of 32. Rows past the step's count are computed on
// whatever the buffers hold and ignored, except where a kernel takes `rows`: there they do nothing.
//
// Arguments are listed as slot: meaning. Addresses unless said otherwise.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/formats/format.hpp"
#include "kernels/lang/program.hpp"

namespace terrane::kernels {

struct grid {
  std::uint32_t x = 1, y = 1;
};

// What a weight format multiplies with. A row of activations may be needed in several kinds.
struct activation_set {
  bool q8_by_32 =
      false;  // int8 in blocks of 32 with f32 scales (numerics: activation quantisation)
  bool q8_by_256 = false;  // the same in blocks of 256
  bool f16 = false;        // rounded to f16, kept as f32
  bool f32 = false;
  void add(activation_kind kind);
};

// Quantised activation rows of K elements: int8 q, an f32 scale d for each `block`, i32 sums of q
// over each 16 elements. Rows in blocks of 256 have these sums in two bytes too, so that an integer
// product can take them: the lower sum_low_bits of each, then what is above (a sum of 16 is less
// than 2^11). K is a multiple of 32 and of the block, which is 32 or 256.
//
// A row may be rounded in parts: then each part_elements of a block of 256 have
// an i32 factor of 1..8, and stand for q * factor * d. The sums in two bytes are times the factor
// (16 * 127 * 8 fits), those in i32 are of q alone.
//
// Rows lie in tiles of `rows_together`. A tile is q[K / 32][row][32], then d[K / block][row], then
// sums[K / 32][row][2], then low[K / 256][row][16], then high likewise, then factor[K / 32][row]:
// what a kernel reads of neighbouring rows is near, and a tile of one row is a plain row.
struct q8_row_layout {
  q8_row_layout(std::uint32_t k, std::uint32_t block, std::uint32_t rows_together = 1);
  std::uint32_t block, rows_together;
  // Bytes from a tile's start.
  std::uint32_t scales_offset, sums_offset, low_sums_offset, high_sums_offset, factors_offset;
  std::uint32_t tile_bytes;
  std::uint32_t row_bytes() const { return tile_bytes / rows_together; }  // a multiple of 64

  // Bytes from the start of row 0: of element i, of the scale of block i, of the sum of sixteen i
  // and its two bytes, of the factor of part i.
  std::size_t q_at(std::uint32_t row, std::uint32_t i) const;
  std::size_t scale_at(std::uint32_t row, std::uint32_t i) const;
  std::size_t sum_at(std::uint32_t row, std::uint32_t i) const;
  std::size_t low_sum_at(std::uint32_t row, std::uint32_t i) const;
  std::size_t high_sum_at(std::uint32_t row, std::uint32_t i) const;
  std::size_t factor_at(std::uint32_t row, std::uint32_t i) const;

 private:
  std::size_t at(std::uint32_t row, std::size_t offset, std::uint32_t piece,
                 std::uint32_t piece_bytes, std::uint32_t within) const;
};
// How many rows of a step of so many lie together: a multiple of the columns of any kernel over it.
std::uint32_t rows_together(std::uint32_t rows);

// ---- embedding: out[row][0..K) = row token[row] of the matrix, store rule applied
//   0 weights (packed)  1 i32 token[row]  2 out f32, stride K     [optional scale: multiplied in
//   f32]
program embedding(const weight_format& format, std::uint32_t k, float scale = 1.0f);
grid embedding_grid(std::uint32_t k, std::uint32_t rows);

// ---- an activation function, then the row in every kind the next matrices need
enum class activation_source {
  plain,     // y = x
  rms_norm,  // y = store((x * rsqrt(mean(x^2) + eps)) * w)
  swiglu,    // y = store(silu(gate) * up): x holds gate[K] at 0 and up[K] at `up_offset` floats
  geglu,     // y = store(gelu(gate) * up), likewise; gelu in its tanh form
};
struct activation_spec {
  activation_source source = activation_source::plain;
  std::uint32_t k = 0;
  std::uint32_t input_stride = 0;  // floats between rows of x
  std::uint32_t up_offset = 0;
  float eps = 0;
  activation_set outputs;
  std::uint32_t rows_together = 1;  // of the quantised rows: q8_row_layout
  bool in_parts = false;            // blocks of 256 are rounded in parts
  // Quantised rows come in pairs: row r as 2r, and what its rounding left, rounded likewise, as
  // 2r + 1. A matrix's products with both add up to those with a row of twice the bits.
  bool in_pairs = false;
  // Where a workgroup has fewer runs of a block of 256 than its 8 warps, these share each.
  int warps = 8;
  std::uint32_t parts = 1;  // workgroups that share a row
};
//   0 x  1 w f32[K] (rms_norm only)  2 rows of q8_by_32  3 f16-rounded rows, f32, stride K
//   4 f32 rows, stride K  5 rows of q8_by_256
program activation(const activation_spec& spec);
grid activation_grid(const activation_spec& spec, std::uint32_t rows);

// ---- hidden = store(hidden + store((x * rsqrt(mean(x^2) + eps)) * w)): the norm after a part
struct add_normalised_spec {
  std::uint32_t k = 0;
  float eps = 0;
  int warps = 8;
};
//   0 x f32, stride K  1 w f32[K]  2 hidden f32, stride K, read and written
program add_normalised(const add_normalised_spec& spec);
grid add_normalised_grid(std::uint32_t rows);

// ---- matrices that share an input, as one launch: out[row][offset_i + n] = sum_k W_i[n][k] *
// x[row][k]
struct linear_matrix {
  const weight_format* format = nullptr;
  std::uint32_t n = 0;       // rows of the matrix
  std::uint32_t offset = 0;  // floats from the start of an output row; a multiple of 32
};
struct linear_spec {
  std::uint32_t k = 0;
  std::vector<linear_matrix> matrices;  // 1 to 3
  std::uint32_t output_stride = 0;      // floats between output rows
  std::uint32_t rows_together = 1;      // of the quantised rows; 1, or a multiple of `columns`
  bool in_parts = false;                // rows of q8_by_256 are rounded so
  bool add_residual = false;            // out = store(residual + sum); else out = store(sum)
  std::uint32_t columns = 1;            // tokens a workgroup computes together: 1, 2, .. 64
  int warps = 1;                        // share the segments of K (decode)
  int row_warps = 1;  // where warps is 1: warps of a workgroup that take 32 matrix rows each, so
                      // that the activations they all read come from a near cache (prefill)
  int together = 1;   // blocks of K whose products are begun before one is waited for: 1, 2, 4
  std::uint32_t fetch_ahead = usual_fetch_ahead;  // bytes between a weight and what is fetched
};
//   0 rows of q8_by_32  1 f16 rows  2 f32 rows  3 out  4 residual (stride output_stride; may be
//   out) 5, 6, 7 weights of matrix i  8 rows of q8_by_256
program linear(const linear_spec& spec);
grid linear_grid(const linear_spec& spec, std::uint32_t rows);

// ---- attention
struct attention_shape {
  std::uint32_t heads = 0, kv_heads = 0, head_size = 0;  // head_size a multiple of 32, at most 256
  float scale = 0;           // on scores; the f32 nearest to 1/sqrt(head_size) as a rule
  std::uint32_t window = 0;  // keys a query sees, itself included; 0: all
};
inline constexpr std::uint32_t page_positions = 64;
// A KV page of one layer: K as f16 [kv_head][d][64], then V as f16 [kv_head][64][d].
std::uint32_t page_bytes(const attention_shape& shape);
// The first key that a query at `position` sees.
std::uint32_t first_key(const attention_shape& shape, std::uint32_t position);
// Chunks that a query sees, at most, of a context of so many.
std::uint32_t chunks_seen(const attention_shape& shape, std::uint32_t chunks);
// Partials of one chunk: f32 [row][head][head_size + 2]: o, then m, then l. Of all: [chunk] of
// these, `row_capacity` rows each.
std::uint32_t partial_row_bytes(const attention_shape& shape);

// Which elements turn together: (2i, 2i+1), or (i, i + rotated/2).
enum class rope_pairs { adjacent, halves };
struct rope_kv_spec {
  attention_shape shape;
  std::uint32_t rotated = 0;  // first elements of a head that turn
  rope_pairs pairs = rope_pairs::adjacent;
  std::uint32_t input_stride = 0;  // floats between rows of x: q heads at 0, k and v where said
  std::uint32_t k_offset = 0, v_offset = 0;
  bool head_norms = false;  // RMSNorm of each head of q and k before it turns
  float eps = 0;            // of these norms
  // Of a workgroup, a head each: a divisor of heads + 2 * kv_heads; 1 with head_norms.
  int warps = 1;
};
// Turns q and k, rounds q, k and v to f16, writes k and v into the page of (slot, position).
//   0 x f32  1 rope table f32 [position][rotated/2](cos, sin)  2 i32 position[row]  3 i32 slot[row]
//   4 i32 rows (one word in memory)  5 page table u64 [slot][pages_per_slot]: page address, 0 = not
//   here 6 pages_per_slot (i32 value)  7 q out: f16 values as f32 [row][head][head_size]
//   8, 9 w f32[head_size] of the norms of q and k (head_norms only)
program rope_kv(const rope_kv_spec& spec);
grid rope_kv_grid(const rope_kv_spec& spec, std::uint32_t rows);

// One chunk (= page) of attention for each row and head, where the page is here. With a window, the
// chunks of a row count from the first that it sees: those outside are not even launched.
//   0 q  1 position  2 slot  3 rows  4 page table  5 pages_per_slot (i32 value)
//   6 partials  7 row_capacity (i32 value)  8 the first row (i32 value): group y has the row after
//   it by y, whose partials lie in row y of each chunk
// How the work is laid out on a processor; of no bit of the result.
enum class lane_keys { neighbours, halves };  // lane l has the keys 2l and 2l + 1, or l and l + 32
struct attention_tuning {
  lane_keys keys = lane_keys::neighbours;
  int dimensions = 16, values = 4;  // rows of K, and of V, that are loaded before one is used
  // 1: a warp serves all heads that share a K/V head. Else attention_warps(), what a device wants
  // that few rows leave idle; the rest is settled then.
  int warps = 1;
  // 2 or 4, where warps is 1: rows of the step that a warp takes together, at most
  // attention_rows(), what a device wants that has many; the rest is settled then, too.
  std::uint32_t rows = 1;
  bool operator==(const attention_tuning&) const = default;
};
program attention_partial(const attention_shape& shape, const attention_tuning& tuning = {});
// 1 where a shape has no such form.
int attention_warps(const attention_shape& shape);
std::uint32_t attention_rows(const attention_shape& shape);
grid attention_partial_grid(const attention_shape& shape, std::uint32_t rows, std::uint32_t chunks,
                            const attention_tuning& tuning = {});

// Folds the partials of all chunks a row sees: out f32 [row][head * head_size], store rule applied.
//   0 partials  1 position  2 rows  3 out  4 row_capacity (i32 value)  5 the first row (i32 value)
program attention_combine(const attention_shape& shape);
grid attention_combine_grid(const attention_shape& shape, std::uint32_t rows);

// Both in one, of rows whose pages are all on this device, for a device that many rows keep busy: a
// workgroup goes through all chunks of a tile of rows.
//   0 q  1 position  2 slot  3 rows  4 page table  5 pages_per_slot (i32 value)  6 out, as above
program whole_attention(const attention_shape& shape);
// Rows of a tile: 2 or 4; 0 where a shape has no such form.
std::uint32_t whole_attention_rows(const attention_shape& shape);
grid whole_attention_grid(const attention_shape& shape, std::uint32_t rows);

// Both in one: what attention_combine() gives, as activation() of a plain row of K = heads *
// head_size writes it, f32 included if asked for. `spec`: its source and input are not looked at.
//   0 partials  1 position  2 to 5 as activation's  6 rows  7 row_capacity (i32 value)  8 the first
//   row (i32 value)
program attended_activation(const attention_shape& shape, const activation_spec& spec);

// ---- out[i][0..K) = x[index[i]][0..K)
//   0 x, stride K  1 i32 index[i]  2 out, stride K
program gather_rows(std::uint32_t k);
grid gather_rows_grid(std::uint32_t k, std::uint32_t rows);

// ---- logits from the products of the last matrix: out[i] = store(x[2i] + x[2i + 1]) where rows
// are in pairs, else x[i]; and the largest of each logits_of_a_peak of a row in turn, NaN where one
// of them is not finite (the last may be of fewer; of zeros the positive one is the larger)
inline constexpr std::uint32_t logits_of_a_peak = 256;
struct logits_spec {
  std::uint32_t vocabulary = 0;  // logits of a row
  std::uint32_t stride = 0;      // floats between rows of x and of out; a multiple of 32
  bool in_pairs = false;
};
std::uint32_t peaks_of(std::uint32_t vocabulary);  // of a row
//   0 x  1 out  2 peaks f32 [row][peaks_of(vocabulary)]
program logits(const logits_spec& spec);
grid logits_grid(const logits_spec& spec, std::uint32_t rows);

}  // namespace terrane::kernels

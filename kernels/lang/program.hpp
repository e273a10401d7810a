// The kernel language: a small typed SSA program for a workgroup of warps of 32 lanes.
//
// One program is written once (kernels/ops) and lowered to every target; the interpreter
// (kernels/interp) defines what it means, bit for bit. This page is the whole language.
//
//   values      pred, i32, f32 or ptr (a 64-bit byte address), each the same for the whole
//               workgroup, for one warp, or its own in every lane; and tiles: 32 rows by a few
//               columns of i32 or f32.
//   control     `loop` and `branch` take conditions and bounds that are the same for every lane of
//               a warp; differences between lanes are made with `select`.
//               A barrier or a lane reduction may stand only where all warps of the group
//               take the same way.
//   floats      every operation rounds once to nearest even; nothing is contracted or reordered.
//               `fma_exact` is only for factors whose product is exact (numeric contract).
//   memory      global memory by address, little endian, naturally aligned; shared memory by
//               32-bit word. Stores become visible to the other warps of a group at a barrier, to
//               other groups when the phase ends.
//
// Programs are plain values: build one with kernels/lang/builder.hpp, check it with verify(), then
// share it between threads freely.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/result.hpp"

namespace terrane::kernels {

inline constexpr int warp_lanes = 32;
inline constexpr int max_arguments =
    16;  // 8 bytes each: what every Vulkan device takes as push constants
// How far ahead a streaming load fetches, in bytes: at most, and where nobody says otherwise.
inline constexpr std::uint32_t most_fetched_ahead = 64u << 10, usual_fetch_ahead = 16u << 10;

enum class scalar_type : std::uint8_t { pred, i32, f32, ptr };

// How a value varies: the same in the whole workgroup, in a warp, or in no two lanes.
enum class spread : std::uint8_t { group, warp, lane };

struct value_type {
  scalar_type scalar = scalar_type::i32;
  spread vary = spread::group;
  std::uint8_t columns = 0;  // more than 0: a tile of 32 rows by so many columns

  bool is_tile() const { return columns != 0; }
  bool operator==(const value_type&) const = default;
};

// Elements in global memory. Narrow integers are extended to i32 on load and cut on store;
// f16 travels as u16 (convert with h2f and f2h). ptr is a 64-bit address, 8-byte aligned, which
// only `load` may read (a table of addresses that changes between steps); what it leads to is
// aligned to 16 bytes, as arguments are.
enum class memory_type : std::uint8_t { i8, u8, i16, u16, i32, f32, ptr };
int byte_size(memory_type type);

using value_id = std::uint32_t;

enum class opcode : std::uint8_t {
  // Built-in values
  const_i32,  // imm: the bits. group
  const_f32,  // imm: the bits. group
  argument,   // imm: slot; type i32, f32 or ptr. group
  group_x,    // index of the workgroup. group
  group_y,
  warp,  // index of the warp in its group. warp
  lane,  // 0..31. lane

  // i32, two's complement, wrapping; shifts take 0..31
  iadd,
  isub,
  imul,
  iand,
  ior,
  ixor,
  ishl,
  ilshr,
  iashr,
  iudiv,
  iurem,  // unsigned; the divisor is not 0
  ismin,
  ismax,
  ieq,
  ine,
  islt,
  iult,  // -> pred; signed and unsigned less-than

  // f32, one rounding each
  fadd,
  fsub,
  fmul,
  fma_exact,  // a*b + c where a*b is exact: fused or not, the same bits
  flt,
  feq,  // -> pred; ordered comparisons

  // pred
  pand,
  por,
  pnot,

  // any
  select,  // (pred, a, b): a where pred, else b

  // Conversions
  i2f,  // signed i32 -> f32, nearest even
  bits_to_float,
  float_to_bits,
  h2f,  // the f16 in the low 16 bits -> f32, exact. imm 1: a NaN may become any NaN
  f2h,  // f32 -> f16 bits, nearest even; NaN -> sign | 0x7e00

  // dot4(a, b, c): c + sum over 4 bytes of u8(a)*s8(b), int32. imm: bits used of each byte of a
  // (1..8)
  dot4,

  // look_up(codes): each byte of codes is replaced by the byte of byte_tables[imm] that its lower
  // four bits name
  look_up,

  // Addresses and global memory. mem: the element type
  offset,         // (ptr, i32 index): ptr + u32(index) * imm bytes
  load,           // (ptr): an element at ptr, as spread as ptr
  load_words,     // (ptr): imm (2..8) consecutive i32 words, as many results; as spread as ptr
  load_lanes,     // (uniform ptr): lane l gets element l
  load_lanes_x4,  // (uniform ptr, 16-byte aligned): lane l gets 16 bytes at ptr + 16 l as 4 words
                  // Both, imm not 0: one of many such loads through rising addresses, each read
                  //   once; a target may fetch what lies imm bytes further on
  store,          // (ptr, value[, pred]): lane ptr: each lane (where pred) its own;
                  //   uniform ptr and value: once
  store_lanes,    // (uniform ptr, value): lane l writes element l
  prefetch,  // (group ptr, 16-byte aligned): the group will read imm bytes from there, a multiple
             //   of 16. A hint: a device may begin before the phases ahead of this one have ended

  // Shared memory, 32-bit words of the group, index in words from its start
  shared_load,         // (i32 index): type i32 or f32; as spread as the index
  shared_store,        // (i32 index, value): lane index: each lane its own; else once a warp
  shared_load_lanes,   // (uniform i32 base): word base + lane
  shared_store_lanes,  // (uniform i32 base, value)
  barrier,

  // Across the lanes of a warp; the result is the same for the warp
  lane_max,       // largest i32 (signed)
  lane_tree_add,  // f32, the halving tree: c[j] + c[j+s] for s = 16, 8, 4, 2, 1
  lane_sum,       // sum of i32, wrapping

  // Tiles: 32 rows by columns. Where a target keeps an element is its own matter, so elements are
  // reached only through these. A lane value used inside a tile_map belongs to the row of its lane.
  tile_zero,   // all +0 (or 0)
  tile_dot,    // (acc i32, uniform ptr x, uniform i32 stride, w0..wn-1 lane words):
               //   acc[r][c] += sum over k of dot4(wk[r], word k at x + c*stride). imm: as dot4
  tile_map,    // (tiles...): body(column, elements...) yields elements; one tile a yield
  tile_load,   // (uniform ptr, uniform i32 stride): f32 or i32 at ptr + c*stride + 4*r
  tile_store,  // (uniform ptr, uniform i32 stride, tile): the reverse

  // Structured control
  loop,    // (begin, end, carried...): body(i, carried...) yields carried; i steps by imm;
           //   results are the last carried values
  branch,  // (uniform pred): regions[0] if true, else regions[1]; both yield the results
};

struct region;

struct instruction {
  opcode op = opcode::barrier;
  memory_type mem = memory_type::i32;
  std::uint32_t imm = 0;
  // Of a load: what it reads is written by nobody while the program waits to be run. A device may
  // then load it before the phases ahead of this one have ended.
  bool settled = false;
  value_id result = 0;  // the first of `results` consecutive values
  std::uint8_t results = 0;
  std::vector<value_id> operands;
  std::vector<region> regions;
};

struct region {
  std::vector<value_id> parameters;
  std::vector<instruction> body;
  std::vector<value_id> yields;
};

using byte_table = std::array<std::uint8_t, 16>;

struct program {
  std::string name;                // for people; also part of the identity
  int warps = 1;                   // warps in a workgroup
  std::uint32_t shared_words = 0;  // 32-bit words of shared memory
  std::vector<value_type> values;  // by value_id
  std::vector<byte_table> byte_tables;
  region body;
};

// Types, spreads, scopes, barriers under uniform control, alignment of immediates. An error names
// the program, the instruction and what is wrong with it.
result<void> verify(const program& p);

// The program as text, one instruction a line; equal text means an equal program.
std::string to_text(const program& p);

const char* to_string(opcode op);

// A 64-bit identity of the program's text (for code caches).
std::uint64_t fingerprint(const program& p);

// True when the region holds a barrier or lane reduction at any depth: what all warps must reach
// together.
bool has_barrier(const region& r);

}  // namespace terrane::kernels

#include "kernels/interp/interpreter.hpp"

#include <array>
#include <bit>
#include <cassert>
#include <cstring>

namespace terrane::kernels {

namespace {

using word = std::uint64_t;  // one lane of one value; i32 and f32 in the low half
using lanes = std::array<word, warp_lanes>;

std::int32_t as_i32(word w) { return static_cast<std::int32_t>(w); }
std::uint32_t as_u32(word w) { return static_cast<std::uint32_t>(w); }
float as_f32(word w) { return std::bit_cast<float>(static_cast<std::uint32_t>(w)); }
word from(std::int32_t v) { return static_cast<std::uint32_t>(v); }
word from(std::uint32_t v) { return v; }
word from(float v) { return std::bit_cast<std::uint32_t>(v); }
word from(bool v) { return v ? 1 : 0; }

float half_to_float(std::uint32_t h) {
  std::uint32_t s = (h & 0x8000u) << 16, a = h & 0x7fffu;
  if (a >= 0x7c00u) return std::bit_cast<float>(s | 0x7f800000u | ((a & 0x3ffu) << 13));
  if (a >= 0x0400u) return std::bit_cast<float>(s | ((a << 13) + 0x38000000u));
  float v = static_cast<float>(a) * 0x1p-24f;
  return std::bit_cast<float>(s | std::bit_cast<std::uint32_t>(v));
}

std::uint32_t float_to_half(float f) {
  std::uint32_t b = std::bit_cast<std::uint32_t>(f), s = (b >> 16) & 0x8000u, a = b & 0x7fffffffu;
  if (a >= 0x47800000u) return s | (a > 0x7f800000u ? 0x7e00u : 0x7c00u);
  if (a >= 0x38800000u) {
    std::uint32_t r = a - 0x38000000u;
    return s | ((r + 0xfffu + ((r >> 13) & 1u)) >> 13);
  }
  if (a < 0x33000000u) return s;
  std::uint32_t m = (a & 0x7fffffu) | 0x800000u, shift = 126u - (a >> 23);
  std::uint32_t h = m >> shift, rest = m & ((1u << shift) - 1u), half = 1u << (shift - 1u);
  if (rest > half || (rest == half && (h & 1u) != 0)) h++;
  return s | h;
}

std::uint32_t look_up(const byte_table& table, std::uint32_t codes) {
  std::uint32_t found = 0;
  for (std::uint32_t k = 0; k < 32; k += 8) {
    found |= std::uint32_t{table[(codes >> k) & 15u]} << k;
  }
  return found;
}

std::int32_t dot4(std::uint32_t a, std::uint32_t b, std::int32_t c) {
  auto sum = static_cast<std::uint32_t>(c);  // which wraps
  for (int k = 0; k < 32; k += 8)
    sum += ((a >> k) & 255u) * static_cast<std::uint32_t>(static_cast<std::int8_t>(b >> k));
  return static_cast<std::int32_t>(sum);
}

class machine {
 public:
  machine(const program& p, std::span<const std::uint64_t> arguments)
      : p_(p),
        arguments_(arguments),
        warps_(static_cast<std::size_t>(p.warps)),
        shared_(p.shared_words) {
    first_.reserve(p.values.size());
    std::size_t next = 0;
    for (const value_type& t : p.values) {
      first_.push_back(next);
      next += t.is_tile() ? t.columns : 1;
    }
    slots_ = next;
    state_.resize(slots_ * warps_);
  }

  void run_group(std::uint32_t x, std::uint32_t y) {
    group_x_ = x;
    group_y_ = y;
    std::fill(shared_.begin(), shared_.end(), 0xffffffffu);  // unset words read as NaN
    run_region(p_.body, 0, warps_);
  }

 private:
  // Column `c` of value `v` in warp `w`; plain values have column 0.
  lanes& at(std::size_t w, value_id v, std::size_t c = 0) {
    return state_[w * slots_ + first_[v] + c];
  }
  std::size_t width(value_id v) const { return p_.values[v].is_tile() ? p_.values[v].columns : 1; }
  void copy(std::size_t w, value_id from_value, value_id to_value) {
    for (std::size_t c = 0; c < width(to_value); c++) at(w, to_value, c) = at(w, from_value, c);
  }

  // Runs a region for warps [w0, w1), one instruction at a time for all of them.
  void run_region(const region& r, std::size_t w0, std::size_t w1) {
    for (const instruction& in : r.body) {
      if (in.op == opcode::loop || in.op == opcode::branch) {
        // With a barrier inside, control is the same for all warps and they go in step.
        if (has_barrier_cached(in)) {
          run_control(in, w0, w1);
        } else {
          for (std::size_t w = w0; w < w1; w++) run_control(in, w, w + 1);
        }
        continue;
      }
      if (in.op == opcode::barrier) continue;  // in step already
      for (std::size_t w = w0; w < w1; w++) run_instruction(in, w);
    }
  }

  bool has_barrier_cached(const instruction& in) const {
    if (warps_ == 1) return false;
    for (const region& r : in.regions)
      if (has_barrier(r)) return true;
    return false;
  }

  void run_control(const instruction& in, std::size_t w0, std::size_t w1) {
    if (in.op == opcode::branch) {
      const region& r = in.regions[at(w0, in.operands[0])[0] != 0 ? 0 : 1];
      run_region(r, w0, w1);
      for (std::size_t w = w0; w < w1; w++)
        for (unsigned k = 0; k < in.results; k++) copy(w, r.yields[k], in.result + k);
      return;
    }
    const region& r = in.regions[0];
    std::int64_t begin = as_i32(at(w0, in.operands[0])[0]), end = as_i32(at(w0, in.operands[1])[0]);
    for (std::size_t w = w0; w < w1; w++)
      for (unsigned k = 0; k < in.results; k++) copy(w, in.operands[k + 2], in.result + k);
    for (std::int64_t i = begin; i < end; i += in.imm) {
      for (std::size_t w = w0; w < w1; w++) {
        at(w, r.parameters[0]).fill(from(static_cast<std::int32_t>(i)));
        for (unsigned k = 0; k < in.results; k++) copy(w, in.result + k, r.parameters[k + 1]);
      }
      run_region(r, w0, w1);
      // Through a second copy: a yield may be another's parameter.
      for (std::size_t w = w0; w < w1; w++)
        for (unsigned k = 0; k < in.results; k++) copy(w, r.yields[k], in.result + k);
    }
  }

  template <class F>
  void each(const instruction& in, std::size_t w, F f) {
    lanes& out = at(w, in.result);
    for (std::size_t l = 0; l < warp_lanes; l++) out[l] = f(l);
  }

  word load_element(memory_type mem, std::uint64_t address) const {
    const void* p = reinterpret_cast<const void*>(address);
    word w = 0;
    std::memcpy(&w, p, static_cast<std::size_t>(byte_size(mem)));
    if (mem == memory_type::i8) return from(static_cast<std::int32_t>(static_cast<std::int8_t>(w)));
    if (mem == memory_type::i16)
      return from(static_cast<std::int32_t>(static_cast<std::int16_t>(w)));
    return w;
  }
  void store_element(memory_type mem, std::uint64_t address, word value) const {
    std::memcpy(reinterpret_cast<void*>(address), &value, static_cast<std::size_t>(byte_size(mem)));
  }

  void run_instruction(const instruction& in, std::size_t w);
  void run_memory(const instruction& in, std::size_t w);
  void run_tile(const instruction& in, std::size_t w);

  const program& p_;
  std::span<const std::uint64_t> arguments_;
  std::size_t warps_;
  std::size_t slots_ = 0;
  std::vector<std::size_t> first_;
  std::vector<lanes> state_;
  std::vector<std::uint32_t> shared_;
  std::uint32_t group_x_ = 0, group_y_ = 0;
};

void machine::run_instruction(const instruction& in, std::size_t w) {
  static const lanes none{};
  auto operand = [&](std::size_t k) -> const lanes& {
    return k < in.operands.size() ? at(w, in.operands[k]) : none;
  };
  const lanes &a = operand(0), &b = operand(1), &c = operand(2);
  using enum opcode;
  switch (in.op) {
    case const_i32:
    case const_f32:
      each(in, w, [&](std::size_t) { return from(in.imm); });
      break;
    case argument:
      each(in, w, [&](std::size_t) { return arguments_[in.imm]; });
      break;
    case group_x:
      each(in, w, [&](std::size_t) { return from(group_x_); });
      break;
    case group_y:
      each(in, w, [&](std::size_t) { return from(group_y_); });
      break;
    case warp:
      each(in, w, [&](std::size_t) { return word{w}; });
      break;
    case lane:
      each(in, w, [&](std::size_t l) { return word{l}; });
      break;
    case iadd:
      each(in, w, [&](std::size_t l) { return from(as_u32(a[l]) + as_u32(b[l])); });
      break;
    case isub:
      each(in, w, [&](std::size_t l) { return from(as_u32(a[l]) - as_u32(b[l])); });
      break;
    case imul:
      each(in, w, [&](std::size_t l) { return from(as_u32(a[l]) * as_u32(b[l])); });
      break;
    case iand:
      each(in, w, [&](std::size_t l) { return from(as_u32(a[l]) & as_u32(b[l])); });
      break;
    case ior:
      each(in, w, [&](std::size_t l) { return from(as_u32(a[l]) | as_u32(b[l])); });
      break;
    case ixor:
      each(in, w, [&](std::size_t l) { return from(as_u32(a[l]) ^ as_u32(b[l])); });
      break;
    case ishl:
      each(in, w, [&](std::size_t l) { return from(as_u32(a[l]) << (as_u32(b[l]) & 31)); });
      break;
    case ilshr:
      each(in, w, [&](std::size_t l) { return from(as_u32(a[l]) >> (as_u32(b[l]) & 31)); });
      break;
    case iashr:
      each(in, w, [&](std::size_t l) { return from(as_i32(a[l]) >> (as_u32(b[l]) & 31)); });
      break;
    case iudiv:
      each(in, w, [&](std::size_t l) { return from(as_u32(a[l]) / as_u32(b[l])); });
      break;
    case iurem:
      each(in, w, [&](std::size_t l) { return from(as_u32(a[l]) % as_u32(b[l])); });
      break;
    case ismin:
      each(in, w, [&](std::size_t l) { return from(std::min(as_i32(a[l]), as_i32(b[l]))); });
      break;
    case ismax:
      each(in, w, [&](std::size_t l) { return from(std::max(as_i32(a[l]), as_i32(b[l]))); });
      break;
    case ieq:
      each(in, w, [&](std::size_t l) { return from(as_u32(a[l]) == as_u32(b[l])); });
      break;
    case ine:
      each(in, w, [&](std::size_t l) { return from(as_u32(a[l]) != as_u32(b[l])); });
      break;
    case islt:
      each(in, w, [&](std::size_t l) { return from(as_i32(a[l]) < as_i32(b[l])); });
      break;
    case iult:
      each(in, w, [&](std::size_t l) { return from(as_u32(a[l]) < as_u32(b[l])); });
      break;
    case fadd:
      each(in, w, [&](std::size_t l) { return from(as_f32(a[l]) + as_f32(b[l])); });
      break;
    case fsub:
      each(in, w, [&](std::size_t l) { return from(as_f32(a[l]) - as_f32(b[l])); });
      break;
    case fmul:
      each(in, w, [&](std::size_t l) { return from(as_f32(a[l]) * as_f32(b[l])); });
      break;
    case fma_exact:
      each(in, w, [&](std::size_t l) {
        float product = as_f32(a[l]) * as_f32(b[l]);
        return from(product + as_f32(c[l]));
      });
      break;
    case flt:
      each(in, w, [&](std::size_t l) { return from(as_f32(a[l]) < as_f32(b[l])); });
      break;
    case feq:
      each(in, w, [&](std::size_t l) { return from(as_f32(a[l]) == as_f32(b[l])); });
      break;
    case pand:
      each(in, w, [&](std::size_t l) { return a[l] & b[l]; });
      break;
    case por:
      each(in, w, [&](std::size_t l) { return a[l] | b[l]; });
      break;
    case pnot:
      each(in, w, [&](std::size_t l) { return a[l] ^ 1u; });
      break;
    case select:
      each(in, w, [&](std::size_t l) { return a[l] != 0 ? b[l] : c[l]; });
      break;
    case i2f:
      each(in, w, [&](std::size_t l) { return from(static_cast<float>(as_i32(a[l]))); });
      break;
    case bits_to_float:
    case float_to_bits:
      each(in, w, [&](std::size_t l) { return a[l]; });
      break;
    case h2f:
      each(in, w, [&](std::size_t l) { return from(half_to_float(as_u32(a[l]) & 0xffffu)); });
      break;
    case f2h:
      each(in, w, [&](std::size_t l) { return from(float_to_half(as_f32(a[l]))); });
      break;
    case dot4:
      each(in, w, [&](std::size_t l) {
        return from(kernels::dot4(as_u32(a[l]), as_u32(b[l]), as_i32(c[l])));
      });
      break;
    case look_up:
      each(in, w, [&](std::size_t l) {
        return from(kernels::look_up(p_.byte_tables[in.imm], as_u32(a[l])));
      });
      break;
    case offset:
      each(in, w, [&](std::size_t l) { return a[l] + word{as_u32(b[l])} * in.imm; });
      break;
    case lane_max: {
      std::int32_t m = as_i32(a[0]);
      for (word v : a) m = std::max(m, as_i32(v));
      each(in, w, [&](std::size_t) { return from(m); });
      break;
    }
    case lane_sum: {
      std::uint32_t s = 0;
      for (word v : a) s += as_u32(v);
      each(in, w, [&](std::size_t) { return from(s); });
      break;
    }
    case lane_tree_add: {
      std::array<float, warp_lanes> t;
      for (std::size_t l = 0; l < warp_lanes; l++) t[l] = as_f32(a[l]);
      for (std::size_t s = 16; s > 0; s /= 2)
        for (std::size_t l = 0; l < s; l++) t[l] = t[l] + t[l + s];
      each(in, w, [&](std::size_t) { return from(t[0]); });
      break;
    }
    case tile_zero:
    case tile_dot:
    case tile_map:
    case tile_load:
    case tile_store:
      run_tile(in, w);
      break;
    default:
      run_memory(in, w);
      break;
  }
}

void machine::run_memory(const instruction& in, std::size_t w) {
  const lanes& a = at(w, in.operands[0]);
  auto size = static_cast<std::uint64_t>(byte_size(in.mem));
  using enum opcode;
  switch (in.op) {
    case load:
      each(in, w, [&](std::size_t l) {
        const word loaded = load_element(in.mem, a[l]);
        assert((in.mem != memory_type::ptr || loaded % 16 == 0) &&
               "what a table leads to is aligned");
        return loaded;
      });
      break;
    case load_words:
      for (unsigned k = 0; k < in.imm; k++)
        for (std::size_t l = 0; l < warp_lanes; l++)
          at(w, in.result + k)[l] = load_element(memory_type::i32, a[l] + 4 * k);
      break;
    case load_lanes:
      each(in, w, [&](std::size_t l) { return load_element(in.mem, a[0] + l * size); });
      break;
    case load_lanes_x4:
      for (unsigned k = 0; k < 4; k++)
        for (std::size_t l = 0; l < warp_lanes; l++)
          at(w, in.result + k)[l] = load_element(memory_type::i32, a[0] + 16 * l + 4 * k);
      break;
    case store: {
      const lanes& v = at(w, in.operands[1]);
      bool once = p_.values[in.operands[0]].vary != spread::lane;
      for (std::size_t l = 0; l < (once ? 1 : warp_lanes); l++)
        if (in.operands.size() == 2 || at(w, in.operands[2])[l] != 0)
          store_element(in.mem, a[l], v[l]);
      break;
    }
    case store_lanes:
      for (std::size_t l = 0; l < warp_lanes; l++)
        store_element(in.mem, a[0] + l * size, at(w, in.operands[1])[l]);
      break;
    case prefetch:
      break;
    case shared_load:
      each(in, w, [&](std::size_t l) { return from(shared_.at(as_u32(a[l]))); });
      break;
    case shared_load_lanes:
      each(in, w, [&](std::size_t l) { return from(shared_.at(as_u32(a[0]) + l)); });
      break;
    case shared_store:
      for (std::size_t l = 0; l < warp_lanes; l++)
        shared_.at(as_u32(a[l])) = as_u32(at(w, in.operands[1])[l]);
      break;
    case shared_store_lanes:
      for (std::size_t l = 0; l < warp_lanes; l++)
        shared_.at(as_u32(a[0]) + l) = as_u32(at(w, in.operands[1])[l]);
      break;
    default:
      assert(false && "verify() admits no other instruction here");
  }
}

void machine::run_tile(const instruction& in, std::size_t w) {
  using enum opcode;
  switch (in.op) {
    case tile_zero:
      for (std::size_t c = 0; c < width(in.result); c++) at(w, in.result, c).fill(0);
      break;
    case tile_dot: {
      std::uint64_t x = at(w, in.operands[1])[0], stride = as_u32(at(w, in.operands[2])[0]);
      for (std::size_t c = 0; c < width(in.result); c++) {
        for (std::size_t l = 0; l < warp_lanes; l++) {
          std::int32_t acc = as_i32(at(w, in.operands[0], c)[l]);
          for (std::size_t k = 3; k < in.operands.size(); k++) {
            acc = kernels::dot4(
                as_u32(at(w, in.operands[k])[l]),
                as_u32(load_element(memory_type::i32, x + c * stride + 4 * (k - 3))), acc);
          }
          at(w, in.result, c)[l] = from(acc);
        }
      }
      break;
    }
    case tile_map: {
      const region& r = in.regions[0];
      for (std::size_t c = 0; c < in.imm; c++) {
        at(w, r.parameters[0]).fill(word{c});
        for (std::size_t k = 0; k < in.operands.size(); k++)
          at(w, r.parameters[k + 1]) = at(w, in.operands[k], c);
        run_region(r, w, w + 1);
        for (unsigned k = 0; k < in.results; k++) at(w, in.result + k, c) = at(w, r.yields[k]);
      }
      break;
    }
    case tile_load:
    case tile_store: {
      std::uint64_t p = at(w, in.operands[0])[0], stride = as_u32(at(w, in.operands[1])[0]);
      value_id tile = in.op == tile_load ? in.result : in.operands[2];
      for (std::size_t c = 0; c < width(tile); c++) {
        for (std::size_t l = 0; l < warp_lanes; l++) {
          std::uint64_t address = p + c * stride + 4 * l;
          if (in.op == tile_load)
            at(w, tile, c)[l] = load_element(memory_type::i32, address);
          else
            store_element(memory_type::i32, address, at(w, tile, c)[l]);
        }
      }
      break;
    }
    default:
      assert(false && "not a tile instruction");
  }
}

}  // namespace

void interpret(const program& p, std::span<const std::uint64_t> arguments, std::uint32_t groups_x,
               std::uint32_t groups_y) {
  machine m(p, arguments);
  for (std::uint32_t y = 0; y < groups_y; y++)
    for (std::uint32_t x = 0; x < groups_x; x++) m.run_group(x, y);
}

}  // namespace terrane::kernels

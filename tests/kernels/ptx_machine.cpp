#include "tests/kernels/ptx_machine.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace terrane::kernels {

namespace {

std::vector<std::string> split(const std::string& name) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= name.size();) {
    std::size_t end = std::min(name.find('.', at), name.size());
    parts.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front())) != 0) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back())) != 0) s.remove_suffix(1);
  return s;
}

float as_f32(std::uint64_t v) { return std::bit_cast<float>(static_cast<std::uint32_t>(v)); }
std::uint64_t from_f32(float f) { return std::bit_cast<std::uint32_t>(f); }

unsigned bits_of(const std::string& type) {
  return type == "pred" ? 1 : static_cast<unsigned>(std::stoul(type.substr(1)));
}
bool is_signed(const std::string& type) { return type[0] == 's'; }

std::uint64_t cut(std::uint64_t v, unsigned bits) {
  return bits == 64 ? v : v & ((std::uint64_t{1} << bits) - 1);
}
std::int64_t extended(std::uint64_t v, unsigned bits) {
  return static_cast<std::int64_t>(v << (64 - bits)) >> (64 - bits);
}
// A value of a type as a 64-bit integer.
std::int64_t as_integer(std::uint64_t v, const std::string& type) {
  unsigned bits = bits_of(type);
  return is_signed(type) ? extended(v, bits) : static_cast<std::int64_t>(cut(v, bits));
}

float half_value(std::uint64_t h) {
  auto bits = static_cast<std::uint32_t>(h & 0xffff);
  std::uint32_t a = bits & 0x7fff;
  float m = a >= 0x7c00   ? (a > 0x7c00 ? NAN : INFINITY)
            : a >= 0x0400 ? std::bit_cast<float>((a << 13) + 0x38000000u)
                          : static_cast<float>(a) * 0x1p-24f;
  return (bits & 0x8000) != 0 ? -m : m;
}

std::uint64_t half_bits(double v) {
  if (std::isnan(v)) return 0x7fff;
  std::uint64_t sign = std::signbit(v) ? 0x8000 : 0;
  double a = std::fabs(v);
  if (a >= 65520.0) return sign | 0x7c00;
  if (a < 0x1p-14) return sign | static_cast<std::uint64_t>(std::nearbyint(a * 0x1p24));
  int exponent = 0;
  double fraction = std::frexp(a, &exponent);  // in [0.5, 1)
  auto steps = static_cast<std::uint64_t>(std::nearbyint(fraction * 2048));
  return sign | ((static_cast<std::uint64_t>(exponent + 13) << 10) + steps);
}

std::int32_t byte_products(std::uint64_t a, std::uint64_t b) {
  std::int32_t sum = 0;
  for (unsigned k = 0; k < 32; k += 8)
    sum += static_cast<std::int32_t>((a >> k) & 255) * static_cast<std::int8_t>(b >> k);
  return sum;
}

bool compare(const std::string& relation, const std::string& type, std::uint64_t a,
             std::uint64_t b) {
  auto by = [&](auto x, auto y) {
    if (relation.starts_with("eq")) return x == y;
    if (relation.starts_with("ne")) return x != y;
    if (relation.starts_with("lt")) return x < y;
    if (relation.starts_with("le")) return x <= y;
    if (relation.starts_with("gt")) return x > y;
    return x >= y;
  };
  if (type[0] != 'f') {
    if (is_signed(type)) return by(as_integer(a, type), as_integer(b, type));
    return by(cut(a, bits_of(type)), cut(b, bits_of(type)));
  }
  float x = type == "f16" ? half_value(a) : as_f32(a),
        y = type == "f16" ? half_value(b) : as_f32(b);
  bool unordered = std::isnan(x) || std::isnan(y);
  if (relation == "nan") return unordered;
  if (relation == "num") return !unordered;
  if (relation.size() == 3) return unordered || by(x, y);  // equ, neu, ltu, ...
  return !unordered && by(x, y);
}

}  // namespace

ptx_machine::ptx_machine(const std::string& text, int warps, std::uint32_t shared_bytes)
    : warps_(warps), shared_(shared_bytes / 4 + 4) {
  for (const char* name : {"%tid.x", "%ctaid.x", "%ctaid.y"}) register_of(name);
  parse(text);
}

int ptx_machine::register_of(const std::string& name) {
  return registers_.try_emplace(name, static_cast<int>(registers_.size())).first->second;
}

// ---- reading the text

void ptx_machine::parse(const std::string& text) {
  std::string code;
  for (std::size_t at = text.find('{'); at < text.size();) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    code += line.substr(0, line.find("//")) + "\n";
    at = end + 1;
  }
  code = code.substr(1, code.rfind('}') - 1);
  std::string_view rest = code;
  while (!(rest = trimmed(rest)).empty()) {
    if (rest.front() == '{' || rest.front() == '}') {  // a scope of its own for a register
      rest.remove_prefix(1);
      continue;
    }
    if (rest.front() == '$') {
      std::size_t colon = rest.find(':');
      labels_[std::string(rest.substr(0, colon))] = static_cast<std::uint32_t>(steps_.size());
      rest.remove_prefix(colon + 1);
      continue;
    }
    std::size_t end = rest.find(';');
    parse_statement(trimmed(rest.substr(0, end)));
    rest.remove_prefix(end + 1);
  }
  for (const auto& [jump, label] : jumps_) steps_[jump].target = labels_.at(label);
}

ptx_machine::operand ptx_machine::parse_operand(std::string_view token) {
  operand o;
  std::size_t plus = token.find('+');
  if (plus != std::string_view::npos) {
    o = parse_operand(token.substr(0, plus));
    o.constant += parse_operand(token.substr(plus + 1)).constant;
    return o;
  }
  std::string name(trimmed(token));
  if (name == "main__param_0")
    o.constant = reinterpret_cast<std::uint64_t>(arguments_.data());
  else if (name == "shared_words")
    o.constant = (reinterpret_cast<std::uint64_t>(shared_.data()) + 15) / 16 * 16;
  else if (name[0] == '%' || name == "tmp")
    o.reg = register_of(name);
  else if (name.starts_with("0f"))
    o.constant = std::stoul(name.substr(2), nullptr, 16);
  else if (name.find_first_not_of("-0123456789") == std::string::npos && !name.empty())
    o.constant = static_cast<std::uint64_t>(std::stoll(name));
  else if (fault_.empty())
    fault_ = "no operand: " + name;
  return o;
}

void ptx_machine::parse_statement(std::string_view statement) {
  if (statement.empty() || statement[0] == '.') return;
  step s;
  s.text = statement;
  if (statement[0] == '@') {
    s.negated = statement[1] == '!';
    std::size_t end = statement.find_first_of(" \t");
    s.predicate = register_of(std::string(statement.substr(s.negated ? 2 : 1, end - 1)));
    statement = trimmed(statement.substr(end));
  }
  std::size_t end = std::min(statement.find_first_of(" \t\n"), statement.size());
  // LLVM leaves no space after some names.
  end = std::min(end, statement.find('%'));
  std::string name(statement.substr(0, end));
  std::string_view rest = trimmed(statement.substr(end));
  if (name == "bra" || name == "bra.uni") {
    s.what = step::kind::branch;
    jumps_.emplace_back(static_cast<std::uint32_t>(steps_.size()), std::string(rest));
  } else if (name == "ret") {
    s.what = step::kind::end;
  } else if (name == "bar.sync") {
    s.what = step::kind::barrier;
    s.together = true;
  } else {
    std::vector<std::vector<operand>> operands;
    while (!(rest = trimmed(rest)).empty()) {
      char open = rest[0];
      char close = open == '{' ? '}' : open == '[' ? ']' : ',';
      std::size_t stop = std::min(rest.find(close), rest.size());
      std::string_view inner = close == ',' ? rest.substr(0, stop) : rest.substr(1, stop - 1);
      std::vector<operand> list;
      for (std::size_t at = 0; at < inner.size();) {
        std::size_t comma = std::min(inner.find(',', at), inner.size());
        list.push_back(parse_operand(inner.substr(at, comma - at)));
        at = comma + 1;
      }
      operands.push_back(std::move(list));
      if (close != ',') stop = rest.find(',', stop);
      rest.remove_prefix(std::min(stop == std::string_view::npos ? stop : stop + 1, rest.size()));
    }
    decode(s, name, std::move(operands));
  }
  steps_.push_back(std::move(s));
}

void ptx_machine::decode(step& s, const std::string& name,
                         std::vector<std::vector<operand>> operands) {
  std::vector<std::string> parts = split(name);
  if (!decode_together(s, parts, operands) && !decode_memory(s, parts, operands) &&
      !decode_arithmetic(s, parts, operands) && fault_.empty())
    fault_ = "not known: " + s.text;
}

// ---- what instructions do

template <class F>
void ptx_machine::each(step& s, const std::vector<std::vector<operand>>& operands, F f) {
  auto to = static_cast<std::size_t>(operands[0][0].reg);
  std::array<operand, 3> in{};
  for (std::size_t k = 1; k < operands.size() && k <= 3; k++) in[k - 1] = operands[k][0];
  s.run = [to, in, f](warp& w, mask active) {
    for (unsigned l = 0; l < lanes; l++)
      if ((active >> l & 1) != 0)
        w.registers[to][l] = f(get(w, in[0], l), get(w, in[1], l), get(w, in[2], l));
  };
}

bool ptx_machine::decode_arithmetic(step& s, const std::vector<std::string>& name,
                                    const std::vector<std::vector<operand>>& operands) {
  using u64 = std::uint64_t;
  const std::string &op = name[0], type = name.back();
  auto put = [&](auto f) {
    each(s, operands, f);
    return true;
  };
  if (op == "mov" && operands[0].size() > 1) return unpack(s, operands, bits_of(type));
  if (op == "mov" && operands[1].size() == 1) return put([](u64 a, u64, u64) { return a; });
  if (op == "dp4a")
    return put([](u64 a, u64 b, u64 c) {
      return cut(static_cast<u64>(static_cast<std::uint32_t>(c) +
                                  static_cast<std::uint32_t>(byte_products(a, b))),
                 32);
    });
  if (op == "setp")
    return put([relation = name[1], type](u64 a, u64 b, u64) {
      return u64{compare(relation, type, a, b)};
    });
  if (op == "selp") return put([](u64 a, u64 b, u64 p) { return (p & 1) != 0 ? a : b; });
  if (type == "f32" && (op == "add" || op == "sub" || op == "mul" || op == "fma")) {
    if (name[1] != "rn") return false;
    return put([op](u64 a, u64 b, u64 c) {
      float x = as_f32(a), y = as_f32(b);
      return from_f32(op == "add"   ? x + y
                      : op == "sub" ? x - y
                      : op == "mul" ? x * y
                                    : std::fma(x, y, as_f32(c)));
    });
  }
  if (type == "f32" && op == "neg") return put([](u64 a, u64, u64) { return a ^ 0x80000000u; });
  if (op == "cvt") {
    const std::string& to = name[name.size() - 2];
    if (to == "f32" && type == "f16")
      return put([](u64 a, u64, u64) { return from_f32(half_value(a)); });
    if (to == "f16" && type == "f32")
      return put([](u64 a, u64, u64) { return half_bits(static_cast<double>(as_f32(a))); });
    if (to == "f16")
      return put(
          [type](u64 a, u64, u64) { return half_bits(static_cast<double>(as_integer(a, type))); });
    if (to == "f32")
      return put(
          [type](u64 a, u64, u64) { return from_f32(static_cast<float>(as_integer(a, type))); });
    return put([type, bits = bits_of(to)](u64 a, u64, u64) {
      return cut(static_cast<u64>(as_integer(a, type)), bits);
    });
  }
  if (type.size() < 2 || (type != "pred" && std::isdigit(static_cast<unsigned char>(type[1])) == 0))
    return false;
  unsigned bits = bits_of(type);
  if (op == "mul" && name[1] == "wide")
    return put([type, bits](u64 a, u64 b, u64) {
      return cut(static_cast<u64>(as_integer(a, type)) * static_cast<u64>(as_integer(b, type)),
                 2 * bits);
    });
  if (op == "mul" && name[1] == "hi")
    return put(
        [bits](u64 a, u64 b, u64) { return cut(cut(a, bits) * cut(b, bits) >> bits, bits); });
  if (op == "mul" || op == "mad")
    return put(
        [bits, op](u64 a, u64 b, u64 c) { return cut(a * b + (op == "mad" ? c : 0), bits); });
  if (op == "add") return put([bits](u64 a, u64 b, u64) { return cut(a + b, bits); });
  if (op == "sub") return put([bits](u64 a, u64 b, u64) { return cut(a - b, bits); });
  if (op == "neg") return put([bits](u64 a, u64, u64) { return cut(0 - a, bits); });
  if (op == "not") return put([bits](u64 a, u64, u64) { return cut(~a, bits); });
  if (op == "and") return put([bits](u64 a, u64 b, u64) { return cut(a & b, bits); });
  if (op == "or") return put([bits](u64 a, u64 b, u64) { return cut(a | b, bits); });
  if (op == "xor") return put([bits](u64 a, u64 b, u64) { return cut(a ^ b, bits); });
  if (op == "div") return put([](u64 a, u64 b, u64) { return cut(a, 32) / cut(b, 32); });
  if (op == "rem") return put([](u64 a, u64 b, u64) { return cut(a, 32) % cut(b, 32); });
  if (op == "min" || op == "max")
    return put([type, bits, op](u64 a, u64 b, u64) {
      bool less = compare("lt", type, a, b);
      return cut(less == (op == "min") ? a : b, bits);
    });
  if (op == "shl")
    return put(
        [bits](u64 a, u64 b, u64) { return cut(b, 32) >= bits ? 0 : cut(a << cut(b, 32), bits); });
  if (op == "shr")
    return put([type, bits](u64 a, u64 b, u64) {
      u64 amount = std::min<u64>(cut(b, 32), is_signed(type) ? bits - 1 : 63);
      if (is_signed(type)) return cut(static_cast<u64>(as_integer(a, type) >> amount), bits);
      return cut(b, 32) >= bits ? 0 : cut(a, bits) >> amount;
    });
  if (op == "bfe")
    return put([type](u64 a, u64 first, u64 count) {
      u64 field = cut(cut(a, 32) >> first, static_cast<unsigned>(count));
      if (is_signed(type)) field = static_cast<u64>(extended(field, static_cast<unsigned>(count)));
      return cut(field, 32);
    });
  return false;
}

// One register's halves into two.
bool ptx_machine::unpack(step& s, const std::vector<std::vector<operand>>& operands,
                         unsigned bits) {
  s.run = [to = operands[0], from = operands[1][0], half = bits / 2](warp& w, mask active) {
    for (unsigned l = 0; l < lanes; l++) {
      if ((active >> l & 1) == 0) continue;
      std::uint64_t v = get(w, from, l);
      for (const operand& o : to) {
        w.registers[static_cast<std::size_t>(o.reg)][l] = cut(v, half);
        v >>= half;
      }
    }
  };
  return true;
}

bool ptx_machine::decode_memory(step& s, const std::vector<std::string>& name,
                                const std::vector<std::vector<operand>>& operands) {
  bool is_load = name[0] == "ld";
  if (!is_load && name[0] != "st") return false;
  const std::string& type = name.back();
  const bool global = name[1] == "global";
  const std::vector<operand>& values = operands[is_load ? 0 : 1];
  const operand address = operands[is_load ? 1 : 0][0];
  unsigned bytes = bits_of(type) / 8;
  auto check = [this, bytes, values, text = s.text](std::uint64_t at) {
    if (at % (bytes * values.size()) != 0 && fault_.empty()) fault_ = "misaligned: " + text;
    return fault_.empty();
  };
  s.run = [=, this, text = s.text](warp& w, mask active) {
    const bool early = global && starts_early_ && !w.may_access;
    if (early && !is_load && fault_.empty()) fault_ = "before the wait for other grids: " + text;
    for (unsigned l = 0; l < lanes; l++) {
      if ((active >> l & 1) == 0) continue;
      std::uint64_t at = get(w, address, l);
      if (!check(at)) return;
      for (const operand& v : values) {
        std::uint64_t word = is_load ? 0 : get(w, v, l);
        if (is_load) {
          if (early) settled_.insert(at);
          std::memcpy(&word, reinterpret_cast<const void*>(at), bytes);
          if (is_signed(type)) word = cut(static_cast<std::uint64_t>(as_integer(word, type)), 32);
          w.registers[static_cast<std::size_t>(v.reg)][l] = word;
        } else {
          if (global && settled_.contains(at) && fault_.empty())
            fault_ = "read before the wait, and written: " + text;
          std::memcpy(reinterpret_cast<void*>(at), &word, bytes);
        }
        at += bytes;
      }
    }
  };
  return true;
}

bool ptx_machine::decode_together(step& s, const std::vector<std::string>& name,
                                  const std::vector<std::vector<operand>>& operands) {
  s.together = true;
  auto to = operands.empty() ? 0 : static_cast<std::size_t>(operands[0][0].reg);
  if (name[0] == "bar" || (name[0] == "griddepcontrol" && name[1] == "launch_dependents")) {
    s.run = [](warp&, mask) {};
    return true;
  }
  if (name[0] == "griddepcontrol" && name[1] == "wait") {
    starts_early_ = true;
    s.run = [](warp& w, mask) { w.may_access = true; };
    return true;
  }
  if (name[0] == "shfl") {
    bool crosswise = name[2] == "bfly";
    s.run = [=, from = operands[1][0], lane = operands[2][0]](warp& w, mask) {
      value out;
      for (unsigned l = 0; l < lanes; l++) {
        auto other = static_cast<unsigned>(get(w, lane, l));
        out[l] = get(w, from, (crosswise ? l ^ other : other) % lanes);
      }
      w.registers[to] = out;
    };
    return true;
  }
  if (name[0] == "redux") {
    s.run = [=, largest = name[2] == "max", from = operands[1][0]](warp& w, mask) {
      auto all = static_cast<std::uint32_t>(get(w, from, 0));
      for (unsigned l = 1; l < lanes; l++) {
        auto other = static_cast<std::uint32_t>(get(w, from, l));
        all = !largest ? all + other
                       : static_cast<std::uint32_t>(std::max(static_cast<std::int32_t>(all),
                                                             static_cast<std::int32_t>(other)));
      }
      w.registers[to].fill(all);
    };
    return true;
  }
  if (name[0] == "ldmatrix") {
    // Four pieces of eight rows of 16 bytes: lane 8i + r has the address of row r of piece i, and
    // gets word l % 4 of row l / 4 of each (PTX ISA, ldmatrix .m8n8.x4).
    s.run = [=, this, to_all = operands[0], from = operands[1][0], text = s.text](warp& w, mask) {
      std::array<value, 4> out;
      for (unsigned k = 0; k < 4; k++)
        for (unsigned l = 0; l < lanes; l++) {
          const std::uint64_t row = get(w, from, 8 * k + l / 4);
          if (row % 16 != 0 && fault_.empty()) fault_ = "misaligned: " + text;
          if (!fault_.empty()) return;
          std::uint32_t word = 0;
          std::memcpy(&word, reinterpret_cast<const void*>(row + std::uint64_t{4} * (l % 4)), 4);
          out[k][l] = word;
        }
      for (unsigned k = 0; k < 4; k++)
        w.registers[static_cast<std::size_t>(to_all[k].reg)] = out[k];
    };
    return true;
  }
  if (name[0] == "mma") {
    // d, a, b, c. Rows by 8 columns, 4 bytes a lane and register (PTX ISA, m16n8k16 and m16n8k32).
    s.run = [=, d = operands[0], a = operands[1], b = operands[2], c = operands[3]](warp& w, mask) {
      std::array<value, 4> out;
      for (unsigned l = 0; l < lanes; l++) {
        for (unsigned k = 0; k < 4; k++) {
          unsigned row = l / 4 + (k / 2) * 8, column = l % 4 * 2 + k % 2;
          auto sum = static_cast<std::uint32_t>(get(w, c[k], l));
          for (unsigned word = 0; word < 4 * b.size(); word++) {
            std::uint64_t x = get(w, a[word / 4 * 2 + row / 8], row % 8 * 4 + word % 4);
            std::uint64_t y = get(w, b[word / 4], column * 4 + word % 4);
            sum += static_cast<std::uint32_t>(byte_products(x, y));
          }
          out[k][l] = sum;
        }
      }
      for (unsigned k = 0; k < 4; k++) w.registers[static_cast<std::size_t>(d[k].reg)] = out[k];
    };
    return true;
  }
  s.together = false;
  if (name.size() > 3 && name[3] == "prefetch") {  // cp.async.bulk.prefetch
    s.run = [](warp&, mask) {};
    return true;
  }
  return false;
}

// ---- running

void ptx_machine::run(std::span<const std::uint64_t> arguments, std::uint32_t groups_x,
                      std::uint32_t groups_y) {
  std::copy(arguments.begin(), arguments.end(), arguments_.begin());
  for (std::uint32_t y = 0; y < groups_y; y++)
    for (std::uint32_t x = 0; x < groups_x && fault_.empty(); x++) run_group(x, y);
}

void ptx_machine::run_group(std::uint32_t x, std::uint32_t y) {
  std::fill(shared_.begin(), shared_.end(), 0xffffffffu);
  std::vector<warp> warps(static_cast<std::size_t>(warps_));
  for (std::size_t k = 0; k < warps.size(); k++) {
    warp& w = warps[k];
    w.registers.resize(registers_.size());
    for (unsigned l = 0; l < lanes; l++) w.registers[0][l] = 32 * k + l;
    w.registers[1].fill(x);
    w.registers[2].fill(y);
  }
  auto ended = [&](const warp& w) { return std::ranges::min(w.at) == steps_.size(); };
  while (fault_.empty() && !std::ranges::all_of(warps, ended)) {
    // All that wait at the barrier go on together.
    for (warp& w : warps) w.waits = false;
    for (warp& w : warps)
      while (fault_.empty() && !w.waits && !ended(w)) advance(w);
    for (const warp& w : warps) {
      if (ended(w) != ended(warps[0]) && fault_.empty()) fault_ = "a warp ends before a barrier";
      if (ended(w) && starts_early_ && !w.may_access && fault_.empty())
        fault_ = "a warp ends without the wait for other grids";
    }
  }
}

void ptx_machine::advance(warp& w) {
  std::uint32_t first = *std::ranges::min_element(w.at);
  if (first == steps_.size()) return;
  const step& s = steps_[first];
  mask here = 0;
  for (unsigned l = 0; l < lanes; l++) here |= mask{w.at[l] == first} << l;
  if (s.together && here != ~mask{0}) {
    fault_ = "not all threads reach: " + s.text;
    return;
  }
  mask active = here;
  if (s.predicate >= 0)
    for (unsigned l = 0; l < lanes; l++)
      if (((w.registers[static_cast<std::size_t>(s.predicate)][l] & 1) != 0) == s.negated)
        active &= ~(mask{1} << l);
  if (s.what == step::kind::plain) s.run(w, active);
  if (s.what == step::kind::barrier) w.waits = true;
  for (unsigned l = 0; l < lanes; l++) {
    if ((here >> l & 1) == 0) continue;
    bool taken = (active >> l & 1) != 0;
    w.at[l] = first + 1;
    if (taken && s.what == step::kind::branch) w.at[l] = s.target;
    if (taken && s.what == step::kind::end) w.at[l] = static_cast<std::uint32_t>(steps_.size());
  }
}

}  // namespace terrane::kernels

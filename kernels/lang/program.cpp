#include "kernels/lang/program.hpp"

#include <cstdio>

namespace terrane::kernels {

int byte_size(memory_type type) {
  switch (type) {
    case memory_type::i8:
    case memory_type::u8:
      return 1;
    case memory_type::i16:
    case memory_type::u16:
      return 2;
    case memory_type::i32:
    case memory_type::f32:
      return 4;
    case memory_type::ptr:
      return 8;
  }
  return 0;
}

namespace {

constexpr const char* opcode_names[] = {"const_i32",
                                        "const_f32",
                                        "argument",
                                        "group_x",
                                        "group_y",
                                        "warp",
                                        "lane",
                                        "iadd",
                                        "isub",
                                        "imul",
                                        "iand",
                                        "ior",
                                        "ixor",
                                        "ishl",
                                        "ilshr",
                                        "iashr",
                                        "iudiv",
                                        "iurem",
                                        "ismin",
                                        "ismax",
                                        "ieq",
                                        "ine",
                                        "islt",
                                        "iult",
                                        "fadd",
                                        "fsub",
                                        "fmul",
                                        "fma_exact",
                                        "flt",
                                        "feq",
                                        "pand",
                                        "por",
                                        "pnot",
                                        "select",
                                        "i2f",
                                        "bits_to_float",
                                        "float_to_bits",
                                        "h2f",
                                        "f2h",
                                        "dot4",
                                        "look_up",
                                        "offset",
                                        "load",
                                        "load_words",
                                        "load_lanes",
                                        "load_lanes_x4",
                                        "store",
                                        "store_lanes",
                                        "prefetch",
                                        "shared_load",
                                        "shared_store",
                                        "shared_load_lanes",
                                        "shared_store_lanes",
                                        "barrier",
                                        "lane_max",
                                        "lane_tree_add",
                                        "lane_sum",
                                        "tile_zero",
                                        "tile_dot",
                                        "tile_map",
                                        "tile_load",
                                        "tile_store",
                                        "loop",
                                        "branch"};
static_assert(std::size(opcode_names) == static_cast<std::size_t>(opcode::branch) + 1);

constexpr const char* memory_names[] = {"i8", "u8", "i16", "u16", "i32", "f32", "ptr"};

std::string type_text(const value_type& t) {
  constexpr const char* scalars[] = {"pred", "i32", "f32", "ptr"};
  constexpr const char* spreads[] = {"group", "warp", "lane"};
  std::string s = scalars[static_cast<int>(t.scalar)];
  if (t.is_tile()) return s + "[" + std::to_string(t.columns) + "]";
  return s + "." + spreads[static_cast<int>(t.vary)];
}

void region_text(const program& p, const region& r, int depth, std::string& out) {
  const std::string indent(static_cast<std::size_t>(depth) * 2, ' ');
  if (!r.parameters.empty()) {
    out += indent + "(";
    for (value_id v : r.parameters) out += " %" + std::to_string(v) + ":" + type_text(p.values[v]);
    out += " )\n";
  }
  for (const instruction& in : r.body) {
    out += indent;
    for (unsigned k = 0; k < in.results; k++)
      out += "%" + std::to_string(in.result + k) + ":" + type_text(p.values[in.result + k]) + " ";
    if (in.results != 0) out += "= ";
    out += to_string(in.op);
    if (in.mem != memory_type::i32)
      out += std::string(".") + memory_names[static_cast<int>(in.mem)];
    if (in.settled) out += ".settled";
    for (value_id v : in.operands) out += " %" + std::to_string(v);
    if (in.imm != 0) {
      char hex[16];
      std::snprintf(hex, sizeof hex, " #%x", in.imm);
      out += hex;
    }
    out += "\n";
    for (const region& inner : in.regions) {
      out += indent + "{\n";
      region_text(p, inner, depth + 1, out);
      out += indent + "}\n";
    }
  }
  if (!r.yields.empty()) {
    out += indent + "yield";
    for (value_id v : r.yields) out += " %" + std::to_string(v);
    out += "\n";
  }
}

}  // namespace

const char* to_string(opcode op) { return opcode_names[static_cast<std::size_t>(op)]; }

std::string to_text(const program& p) {
  std::string out = "kernel " + p.name + " warps " + std::to_string(p.warps) + " shared " +
                    std::to_string(p.shared_words) + "\n";
  for (const byte_table& table : p.byte_tables) {
    out += "  table";
    for (std::uint8_t byte : table) out += " " + std::to_string(byte);
    out += "\n";
  }
  region_text(p, p.body, 1, out);
  return out;
}

std::uint64_t fingerprint(const program& p) {
  std::uint64_t h = 0xcbf29ce484222325u;  // FNV-1a, 64 bits
  for (char c : to_text(p)) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

bool has_barrier(const region& r) {
  for (const instruction& in : r.body) {
    switch (in.op) {
      case opcode::barrier:
      case opcode::lane_max:
      case opcode::lane_tree_add:
      case opcode::lane_sum:
        return true;
      default:
        break;
    }
    for (const region& inner : in.regions)
      if (has_barrier(inner)) return true;
  }
  return false;
}

}  // namespace terrane::kernels

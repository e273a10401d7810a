// Weights are loaded before anything is computed with them (spirv_options::load_early).
//
// A GPU's warp that multiplies a row's weights as it loads them waits for memory at every turn of
// the loop over a segment. So short loops that read weights are written out turn by turn, and what
// they and the code around them load is asked for at the start, as far as registers reach.
#include <algorithm>

#include "kernels/spirv/lowering.hpp"

namespace terrane::kernels::spirv {

using spv::Op;

namespace {

constexpr std::size_t most_words = 64;  // a lane's registers that hold what is under way
constexpr std::size_t fewest_loads = 2;
constexpr std::int64_t most_turns = 8;

bool is_weight_load(const instruction& in) {
  return (in.op == opcode::load_lanes || in.op == opcode::load_lanes_x4) && in.imm != 0;
}

// What gives the same again wherever it stands.
bool is_pure(const instruction& in) {
  return in.regions.empty() && (in.op <= opcode::dot4 || in.op == opcode::offset);
}

// Whether a load may not come before it.
bool holds_back(const instruction& in) {
  switch (in.op) {
    case opcode::barrier:
    case opcode::store:
    case opcode::store_lanes:
    case opcode::tile_store:
      return true;
    default:
      return std::any_of(in.regions.begin(), in.regions.end(), [](const region& r) {
        return std::any_of(r.body.begin(), r.body.end(), holds_back);
      });
  }
}

}  // namespace

void lowering::note_makers(const region& r) {
  for (const instruction& in : r.body) {
    const std::size_t place = noted_++;
    for (unsigned k = 0; k < in.results; k++) makers_[in.result + k] = {&in, &r, place};
    for (const region& inner : in.regions) note_makers(inner);
  }
}

bool lowering::has_registers_for_loads() const {
  return std::none_of(p_.values.begin(), p_.values.end(),
                      [](const value_type& t) { return t.columns >= many_columns; });
}

std::optional<std::int32_t> lowering::constant_of(value_id v) const {
  const instruction* in = makers_[v].in;
  if (in == nullptr || in->op != opcode::const_i32) return std::nullopt;
  return static_cast<std::int32_t>(in->imm);
}

// How many turns a short loop takes that is known to; 0: of another nothing is said.
std::uint32_t lowering::short_turns(const instruction& in) const {
  if (in.op != opcode::loop) return 0;
  const std::optional<std::int32_t> begin = constant_of(in.operands[0]),
                                    end = constant_of(in.operands[1]);
  if (!begin || !end || *begin >= *end) return 0;
  const std::int64_t way = std::int64_t{*end} - *begin, turns = (way + in.imm - 1) / in.imm;
  return turns <= most_turns ? static_cast<std::uint32_t>(turns) : 0;
}

// What has to be computed for a value that `body`, region `r` or a loop in it, uses, in order;
// nothing where it cannot be yet: it comes from what is loaded, or from what the loop carries.
std::optional<std::vector<const instruction*>> lowering::needed_for(value_id v, const region& body,
                                                                    const region& r) const {
  std::vector<const instruction*> needed;
  std::vector<value_id> wanted = {v};
  for (std::size_t k = 0; k < wanted.size(); k++) {
    const bool carried =
        &body != &r && std::find(body.parameters.begin() + 1, body.parameters.end(), wanted[k]) !=
                           body.parameters.end();
    if (carried) return std::nullopt;
    const maker& from = makers_[wanted[k]];
    if (from.inside != &r && from.inside != &body) continue;
    if (std::find(needed.begin(), needed.end(), from.in) != needed.end()) continue;
    if (!is_pure(*from.in)) return std::nullopt;
    needed.push_back(from.in);
    wanted.insert(wanted.end(), from.in->operands.begin(), from.in->operands.end());
  }
  std::sort(needed.begin(), needed.end(), [&](const instruction* a, const instruction* b) {
    return makers_[a->result].place < makers_[b->result].place;
  });
  return needed;
}

void lowering::load_now(const instruction& load, const std::vector<const instruction*>& needed) {
  for (const instruction* in : needed) lower(*in);
  lower_global(load);
  ids words;
  for (unsigned k = 0; k < load.results; k++) words.push_back(at(load.result + k));
  early_[&load].push_back(std::move(words));
}

void lowering::load_early(const region& r) {
  if (!loads_early_) return;
  std::size_t words = 0, loads = 0;
  auto load = [&](const instruction& in, const region& body) {
    const auto needed = needed_for(in.operands[0], body, r);
    if (!needed || words + in.results > most_words) return;
    words += in.results;
    loads++;
    load_now(in, *needed);
  };
  for (const instruction& in : r.body) {
    if (holds_back(in)) break;
    if (is_weight_load(in)) load(in, r);
    if (!reads_weights_in_short_turns(in)) continue;
    for (std::uint32_t turn = 0; turn < short_turns(in); turn++) {
      set_turn(in, turn);
      for (const instruction& inner : in.regions[0].body)
        if (is_weight_load(inner)) load(inner, in.regions[0]);
    }
  }
  if (loads < fewest_loads) return;
  touch_activations(r);
  keep_in_front();
}

// A segment's activations are words that all lanes want, 256 bytes after each other: too many for
// registers while weights are under way, as are the scale, sums and factors that lie elsewhere. One
// load brings them into the near cache meanwhile: of a word in each sector of them, a lane each. A
// compiler leaves out what nobody uses, so its first word is used.
void lowering::touch_activations(const region& r) {
  if (options_.subgroup_lanes != warp_lanes) return;
  constexpr std::uint32_t touched_bytes = 256, sector_bytes = 32;
  constexpr std::uint32_t sectors = touched_bytes / sector_bytes;
  const instruction *first = nullptr, *in_loop = nullptr;
  std::size_t bytes = 0;
  for (const instruction& in : r.body) {
    if (holds_back(in)) break;  // what is read after it may be written before it
    if (!reads_weights_in_short_turns(in)) continue;
    for (const instruction& inner : in.regions[0].body) {
      if (inner.op != opcode::tile_dot) continue;
      bytes += std::size_t{short_turns(in)} * 4 * (inner.operands.size() - 3);
      if (first != nullptr) continue;
      first = &inner;
      in_loop = &in;
    }
  }
  if (bytes != touched_bytes) return;
  const auto needed = needed_for(first->operands[1], in_loop->regions[0], r);
  if (!needed) return;
  set_turn(*in_loop, 0);
  for (const instruction* in : *needed) lower(*in);
  const id sector = binary(Op::OpBitwiseAnd, lane_, m_.u32_constant(sectors - 1));
  address from = moved(address_of(first->operands[1]), sector, sector_bytes);
  std::uint32_t lane = sectors;
  for (value_id start : read_beside(r, *in_loop)) {
    const auto wanted = needed_for(start, in_loop->regions[0], r);
    if (!wanted || lane == warp_lanes) continue;
    for (const instruction* in : *wanted) lower(*in);
    const id own = m_.emit(Op::OpIEqual, m_.boolean(), {lane_, m_.u32_constant(lane++)});
    from = {m_.emit(Op::OpSelect, m_.u64(), {own, whole(address_of(start)), whole(from)})};
  }
  touched_ = load_element(memory_type::i32, from);
  touched_by_ = first;
}

// Where else a segment's numbers that all lanes want start: what is read beside the products of
// `loop`, and in `r` after it.
std::vector<value_id> lowering::read_beside(const region& r, const instruction& loop) const {
  std::vector<value_id> starts;
  auto add = [&](value_id v) {
    if (std::find(starts.begin(), starts.end(), v) == starts.end()) starts.push_back(v);
  };
  auto note_loads = [&](const instruction& map) {
    if (map.op != opcode::tile_map) return;
    for (const instruction& in : map.regions[0].body) {
      const bool of_words = in.mem == memory_type::i32 || in.mem == memory_type::f32;
      if ((in.op != opcode::load && in.op != opcode::load_words) || !of_words) continue;
      value_id from = in.operands[0];
      while (makers_[from].inside == &map.regions[0] && makers_[from].in->op == opcode::offset)
        from = makers_[from].in->operands[0];
      if (makers_[from].inside != &map.regions[0]) add(from);
    }
  };
  for (const instruction& in : loop.regions[0].body) note_loads(in);
  for (const instruction& in : r.body) {
    if (in.op == opcode::tile_dot) add(in.operands[1]);
    note_loads(in);
  }
  return starts;
}

// Such a loop is written out.
bool lowering::reads_weights_in_short_turns(const instruction& in) const {
  if (!loads_early_ || short_turns(in) == 0) return false;
  const std::vector<instruction>& body = in.regions[0].body;
  return std::any_of(body.begin(), body.end(), is_weight_load) &&
         std::none_of(body.begin(), body.end(), [](const instruction& inner) {
           return inner.op == opcode::loop || inner.op == opcode::branch;
         });
}

// What the compiler of NVIDIA's driver does not move loads across: the lanes of a warp meet, and
// wait for each other's memory. Where a warp is no subgroup nothing is known to help.
void lowering::keep_in_front() {
  if (options_.subgroup_lanes != warp_lanes) return;
  using spv::MemorySemanticsMask;
  m_.capability(spv::Capability::GroupNonUniform);
  const id subgroup = m_.u32_constant(word(spv::Scope::Subgroup));
  const std::uint32_t semantics = word(MemorySemanticsMask::AcquireRelease) |
                                  word(MemorySemanticsMask::UniformMemory) |
                                  word(MemorySemanticsMask::WorkgroupMemory);
  m_.statement(Op::OpControlBarrier, {subgroup, subgroup, m_.u32_constant(semantics)});
}

void lowering::set_turn(const instruction& loop, std::uint32_t turn) {
  const value_id counter = loop.regions[0].parameters[0];
  const std::uint32_t i =
      static_cast<std::uint32_t>(*constant_of(loop.operands[0])) + turn * loop.imm;
  known_[counter] = i;
  at(counter) = m_.u32_constant(i);
}

bool lowering::take_early(const instruction& in) {
  const auto found = early_.find(&in);
  if (found == early_.end() || found->second.empty()) return false;
  for (unsigned k = 0; k < in.results; k++) at(in.result + k) = found->second.front()[k];
  found->second.pop_front();
  return true;
}

void lowering::write_out(const instruction& in) {
  const region& body = in.regions[0];
  ids carried;
  for (unsigned k = 0; k < in.results; k++)
    for (std::size_t c = 0; c < slots(in.result + k); c++)
      carried.push_back(at(in.operands[k + 2], c));
  for (std::uint32_t turn = 0; turn < short_turns(in); turn++) {
    set_turn(in, turn);
    std::size_t slot = 0;
    for (unsigned k = 0; k < in.results; k++)
      for (std::size_t c = 0; c < slots(in.result + k); c++)
        at(body.parameters[k + 1], c) = carried[slot++];
    for (const instruction& inner : body.body) lower(inner);
    slot = 0;
    for (unsigned k = 0; k < in.results; k++)
      for (std::size_t c = 0; c < slots(in.result + k); c++)
        carried[slot++] = at(body.yields[k], c);
  }
  std::size_t slot = 0;
  for (unsigned k = 0; k < in.results; k++)
    for (std::size_t c = 0; c < slots(in.result + k); c++) at(in.result + k, c) = carried[slot++];
}

}  // namespace terrane::kernels::spirv

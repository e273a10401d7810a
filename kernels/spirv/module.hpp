// Writes the words of a SPIR-V module with one compute entry point. It knows the sections and their
// order, makes each type and constant once, and decorates float arithmetic. What the words mean is
// the lowering's matter. Not thread safe; finish() once.
//
// Source: the SPIR-V specification 1.5, section 2.4 (layout) and 2.3 (physical layout).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <spirv/unified1/spirv.hpp11>

namespace terrane::kernels::spirv {

using id = std::uint32_t;
using word_list = std::vector<std::uint32_t>;
using operands = std::initializer_list<std::uint32_t>;

// An enumerant or a mask as the word that stands for it.
template <class Enum>
constexpr std::uint32_t word(Enum e) {
  return static_cast<std::uint32_t>(e);
}

class module_writer {
 public:
  id fresh() { return next_++; }

  void capability(spv::Capability c) { capabilities_.insert(word(c)); }
  void extension(std::string name) { extensions_.insert(std::move(name)); }
  id extended_set();  // GLSL.std.450
  void execution_mode(spv::ExecutionMode mode, operands values);
  void decorate(id target, spv::Decoration decoration, operands values = {});
  void decorate_member(id type, std::uint32_t member, spv::Decoration decoration, operands values);

  // A type or constant: the same words give the same id.
  id type(spv::Op op, operands values) { return unique(op, 0, values); }
  id constant(id of_type, operands values) { return unique(spv::Op::OpConstant, of_type, values); }
  id distinct_type(spv::Op op, operands values);  // never shared: it carries decorations
  id u32() { return type(spv::Op::OpTypeInt, {32, 0}); }
  id u64() { return type(spv::Op::OpTypeInt, {64, 0}); }
  id f32() { return type(spv::Op::OpTypeFloat, {32}); }
  id boolean() { return type(spv::Op::OpTypeBool, {}); }
  id vector(id of, std::uint32_t n) { return type(spv::Op::OpTypeVector, {of, n}); }
  id pointer(spv::StorageClass storage, id to);
  id u32_constant(std::uint32_t v) { return constant(u32(), {v}); }
  id u64_constant(std::uint64_t v);
  id f32_constant(std::uint32_t bits) { return constant(f32(), {bits}); }

  id global_variable(spv::StorageClass storage, id of_type);
  id local_variable(id of_type, id initial);

  // Instructions of main. `once` puts one in the entry block, where every block sees it, and gives
  // the same id for the same words.
  id emit(spv::Op op, id of_type, std::span<const std::uint32_t> values);
  id emit(spv::Op op, id of_type, operands values) {
    return emit(op, of_type, std::span(values.begin(), values.size()));
  }
  id once(spv::Op op, id of_type, operands values);
  void statement(spv::Op op, operands values) { append(body_, op, values); }
  id float_op(spv::Op op, operands values);  // f32 arithmetic, decorated NoContraction

  void open_block(id label);  // the block before must have ended
  id current_block() const { return block_; }
  // A phi of one incoming edge now and one that is filled in later: returns where to write it.
  id phi(id of_type, id value, id from, std::size_t& second_edge);
  void set_edge(std::size_t edge, id value, id from);

  std::vector<std::uint32_t> finish();

 private:
  using key = std::vector<std::uint32_t>;
  static void append(word_list& to, spv::Op op, std::span<const std::uint32_t> values);
  static void append(word_list& to, spv::Op op, operands values) {
    append(to, op, std::span(values.begin(), values.size()));
  }
  id unique(spv::Op op, id of_type, operands values);

  id next_ = 3;  // 1 is main, 2 its entry block
  id block_ = 2;
  id extended_set_ = 0;
  std::set<std::uint32_t> capabilities_;
  std::set<std::string> extensions_;
  std::map<key, id> unique_, once_;
  std::vector<id> interface_;
  word_list modes_, annotations_, globals_, locals_, entry_, body_;
};

}  // namespace terrane::kernels::spirv

#include "kernels/spirv/module.hpp"

#include <cstring>

namespace terrane::kernels::spirv {

namespace {

constexpr id main_function = 1, entry_label = 2;

// A literal string: UTF-8, ended by a zero byte, padded to whole words.
word_list literal(const std::string& text) {
  word_list out(text.size() / 4 + 1, 0);
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

}  // namespace

void module_writer::append(word_list& to, spv::Op op, std::span<const std::uint32_t> values) {
  to.push_back(static_cast<std::uint32_t>(values.size() + 1) << 16 | word(op));
  to.insert(to.end(), values.begin(), values.end());
}

id module_writer::extended_set() {
  if (extended_set_ == 0) extended_set_ = fresh();
  return extended_set_;
}

void module_writer::execution_mode(spv::ExecutionMode mode, operands values) {
  word_list all = {main_function, word(mode)};
  all.insert(all.end(), values);
  append(modes_, spv::Op::OpExecutionMode, all);
}

void module_writer::decorate(id target, spv::Decoration decoration, operands values) {
  word_list all = {target, word(decoration)};
  all.insert(all.end(), values);
  append(annotations_, spv::Op::OpDecorate, all);
}

void module_writer::decorate_member(id type, std::uint32_t member, spv::Decoration decoration,
                                    operands values) {
  word_list all = {type, member, word(decoration)};
  all.insert(all.end(), values);
  append(annotations_, spv::Op::OpMemberDecorate, all);
}

id module_writer::unique(spv::Op op, id of_type, operands values) {
  key k = {word(op), of_type};
  k.insert(k.end(), values);
  auto [at, added] = unique_.try_emplace(std::move(k), 0);
  if (added) {
    at->second = fresh();
    word_list all;
    if (of_type != 0) all.push_back(of_type);
    all.push_back(at->second);
    all.insert(all.end(), values);
    append(globals_, op, all);
  }
  return at->second;
}

id module_writer::distinct_type(spv::Op op, operands values) {
  id made = fresh();
  word_list all = {made};
  all.insert(all.end(), values);
  append(globals_, op, all);
  return made;
}

id module_writer::pointer(spv::StorageClass storage, id to) {
  return type(spv::Op::OpTypePointer, {word(storage), to});
}

id module_writer::u64_constant(std::uint64_t v) {
  return constant(u64(), {static_cast<std::uint32_t>(v), static_cast<std::uint32_t>(v >> 32)});
}

id module_writer::global_variable(spv::StorageClass storage, id of_type) {
  id pointer_type = pointer(storage, of_type), made = fresh();
  append(globals_, spv::Op::OpVariable, {pointer_type, made, word(storage)});
  interface_.push_back(made);
  return made;
}

id module_writer::local_variable(id of_type, id initial) {
  auto storage = spv::StorageClass::Function;
  id pointer_type = pointer(storage, of_type), made = fresh();
  append(locals_, spv::Op::OpVariable, {pointer_type, made, word(storage), initial});
  return made;
}

id module_writer::emit(spv::Op op, id of_type, std::span<const std::uint32_t> values) {
  id made = fresh();
  body_.push_back(static_cast<std::uint32_t>(values.size() + 3) << 16 | word(op));
  body_.push_back(of_type);
  body_.push_back(made);
  body_.insert(body_.end(), values.begin(), values.end());
  return made;
}

id module_writer::once(spv::Op op, id of_type, operands values) {
  key k = {word(op), of_type};
  k.insert(k.end(), values);
  auto [at, added] = once_.try_emplace(std::move(k), 0);
  if (added) {
    at->second = fresh();
    word_list all = {of_type, at->second};
    all.insert(all.end(), values);
    append(entry_, op, all);
  }
  return at->second;
}

id module_writer::float_op(spv::Op op, operands values) {
  id made = emit(op, f32(), values);
  decorate(made, spv::Decoration::NoContraction);
  return made;
}

void module_writer::open_block(id label) {
  append(body_, spv::Op::OpLabel, {label});
  block_ = label;
}

id module_writer::phi(id of_type, id value, id from, std::size_t& second_edge) {
  id made = emit(spv::Op::OpPhi, of_type, {value, from, 0, 0});
  second_edge = body_.size() - 2;
  return made;
}

void module_writer::set_edge(std::size_t edge, id value, id from) {
  body_[edge] = value;
  body_[edge + 1] = from;
}

std::vector<std::uint32_t> module_writer::finish() {
  id nothing = type(spv::Op::OpTypeVoid, {});
  id function = type(spv::Op::OpTypeFunction, {nothing});
  // Header: magic, version 1.5, no registered generator, bound, schema.
  word_list out = {spv::MagicNumber, 0x00010500, 0, next_, 0};
  for (std::uint32_t c : capabilities_) append(out, spv::Op::OpCapability, {c});
  for (const std::string& name : extensions_) append(out, spv::Op::OpExtension, literal(name));
  if (extended_set_ != 0) {
    word_list import = {extended_set_};
    word_list name = literal("GLSL.std.450");
    import.insert(import.end(), name.begin(), name.end());
    append(out, spv::Op::OpExtInstImport, import);
  }
  append(out, spv::Op::OpMemoryModel,
         {word(spv::AddressingModel::PhysicalStorageBuffer64), word(spv::MemoryModel::Vulkan)});
  word_list entry_point = {word(spv::ExecutionModel::GLCompute), main_function};
  word_list name = literal("main");
  entry_point.insert(entry_point.end(), name.begin(), name.end());
  entry_point.insert(entry_point.end(), interface_.begin(), interface_.end());
  append(out, spv::Op::OpEntryPoint, entry_point);
  for (const word_list* section : {&modes_, &annotations_, &globals_})
    out.insert(out.end(), section->begin(), section->end());
  append(out, spv::Op::OpFunction, {nothing, main_function, 0, function});
  append(out, spv::Op::OpLabel, {entry_label});
  for (const word_list* section : {&locals_, &entry_, &body_})
    out.insert(out.end(), section->begin(), section->end());
  append(out, spv::Op::OpReturn, {});
  append(out, spv::Op::OpFunctionEnd, {});
  return out;
}

}  // namespace terrane::kernels::spirv

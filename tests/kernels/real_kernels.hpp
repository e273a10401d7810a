// The programs that devices really run, in small shapes, for tests of what a lowering makes of
// them.
#pragma once

#include <vector>

#include "kernels/contract/selftest.hpp"
#include "kernels/ops/ops.hpp"

namespace terrane::kernels {

// The kernels of a model, in every weight format.
inline std::vector<program> model_kernels() {
  std::vector<program> list;
  for (const weight_format* format : weight_formats()) {
    linear_spec spec;
    spec.k = 512;
    spec.matrices = {{format, 64, 0}, {format, 32, 64}};
    spec.output_stride = 96;
    spec.add_residual = true;
    spec.columns = 4;
    list.push_back(linear(spec));
    spec.columns = 1;
    spec.warps = 2;
    list.push_back(linear(spec));
    spec.in_parts = true;
    list.push_back(linear(spec));
    list.push_back(embedding(*format, 512));
  }
  for (activation_source source : {activation_source::plain, activation_source::rms_norm,
                                   activation_source::swiglu, activation_source::geglu}) {
    activation_spec spec;
    spec.source = source;
    spec.k = spec.up_offset = 512;
    spec.input_stride = 1024;
    for (activation_kind kind : {activation_kind::q8_by_32, activation_kind::q8_by_256,
                                 activation_kind::f16, activation_kind::f32})
      spec.outputs.add(kind);
    list.push_back(activation(spec));
    spec.parts = 2;
    list.push_back(activation(spec));
    spec.in_pairs = true;
    list.push_back(activation(spec));
    spec.in_pairs = false;
    spec.in_parts = true;
    list.push_back(activation(spec));
    spec.warps = 4;
    list.push_back(activation(spec));
  }
  const attention_shape shape{
      .heads = 4, .kv_heads = 2, .head_size = 64, .scale = 0.125f, .window = 0};
  rope_kv_spec rope;
  rope.shape = shape;
  rope.rotated = 64;
  rope.input_stride = 8 * 64;
  rope.k_offset = 4 * 64;
  rope.v_offset = 6 * 64;
  list.push_back(rope_kv(rope));
  rope.head_norms = true;
  list.push_back(rope_kv(rope));
  list.push_back(add_normalised({.k = 640, .eps = 1e-6f, .warps = 8}));
  list.push_back(attention_partial(shape));
  list.push_back(attention_partial(shape, {.warps = attention_warps(shape)}));
  list.push_back(attention_partial(shape, {.rows = attention_rows(shape)}));
  list.push_back(attention_combine(shape));
  list.push_back(whole_attention(shape));
  activation_spec attended;
  attended.k = shape.heads * shape.head_size;
  attended.in_parts = true;
  attended.outputs.add(activation_kind::q8_by_256);
  list.push_back(attended_activation(shape, attended));
  list.push_back(gather_rows(512));
  list.push_back(logits({.vocabulary = 1000, .stride = 1024, .in_pairs = true}));
  list.push_back(logits({.vocabulary = 992, .stride = 992}));
  return list;
}

// These and the programs of the contract's self-test.
inline std::vector<program> real_kernels() {
  std::vector<program> list = model_kernels();
  for (const contract_check& check : contract_checks()) list.push_back(check.make());
  return list;
}

}  // namespace terrane::kernels

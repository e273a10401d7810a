#include "engine/model/part_recorder.hpp"

#include <algorithm>
#include <sstream>

namespace terrane::engine {

namespace {

template <class... T>
std::string key_of(const T&... parts) {
  std::ostringstream s;
  ((s << parts << ' '), ...);
  return s.str();
}

std::string kinds_text(const kernels::activation_set& kinds) {
  return std::string(kinds.q8_by_32 ? "q8_32" : "") + (kinds.q8_by_256 ? "q8_256" : "") +
         (kinds.f16 ? "f16" : "") + (kinds.f32 ? "f32" : "");
}

}  // namespace

result<const device_kernel*> kernel_library::get(const std::string& key,
                                                 const std::function<kernels::program()>& make) {
  {
    std::lock_guard lock(guard_);
    if (auto found = kernels_.find(key); found != kernels_.end()) return found->second;
  }
  result<const device_kernel*> made = device_.compile(make());
  if (!made) return made;
  std::lock_guard lock(guard_);
  kernels_.emplace(key, *made);
  return made;
}

part_recorder::part_recorder(const workspace& w, kernel_library& library, const model& of,
                             step_size size)
    : workspace_(w), library_(&library), model_(of), tuning_(w.on().tuning()), size_(size) {}

part_recorder::part_recorder(const workspace& on_paper, const model& of, step_size size,
                             shape_listener listen)
    : workspace_(on_paper),
      library_(nullptr),
      listen_(std::move(listen)),
      model_(of),
      tuning_(on_paper.on().tuning()),
      size_(size) {}

kernel_layout part_recorder::layout_of(const kernel_shape& shape) const {
  if (listen_) listen_(shape);
  return tuning_->layout(shape);
}

void part_recorder::begin_part(const model_part& part, std::vector<resident_block_ptr> blocks) {
  part_ = &part;
  blocks_ = std::move(blocks);
}

const block_tensor& part_recorder::tensor(tensor_place p) const {
  return blocks_[p.block]->description->tensors[p.tensor];
}

std::uint64_t part_recorder::address(tensor_place p) const {
  return blocks_[p.block]->address(p.tensor);
}

kernels::activation_set part_recorder::kinds(std::initializer_list<tensor_place> readers) const {
  kernels::activation_set set;
  for (tensor_place p : readers) set.add(tensor(p).format->activations);
  return set;
}

void part_recorder::append(const std::string& key, const std::function<kernels::program()>& make,
                           kernels::grid grid, std::initializer_list<std::uint64_t> arguments,
                           dispatch like) {
  if (failure_ || library_ == nullptr) return;
  result<const device_kernel*> kernel = library_->get(key, make);
  if (!kernel) {
    failure_ = kernel.error();
    return;
  }
  dispatch d = std::move(like);
  d.kernel = *kernel;
  d.groups_x = grid.x;
  d.groups_y = grid.y;
  std::copy(arguments.begin(), arguments.end(), d.arguments.begin());
  phases_.push_back(d);
}

void part_recorder::embed(tensor_place matrix) {
  const block_tensor& t = tensor(matrix);
  const auto k = static_cast<std::uint32_t>(t.k);
  const float scale = model_.config().embedding_scale;
  append(key_of("embedding", t.format->name, k, scale),
         [&] { return kernels::embedding(*t.format, k, scale); },
         kernels::embedding_grid(k, size_.rows),
         {address(matrix), workspace_.tokens(), workspace_.address(workspace_.at().hidden)});
}

void part_recorder::select_rows() {
  const std::uint32_t k = model_.config().hidden;
  append(key_of("gather_rows", k), [&] { return kernels::gather_rows(k); },
         kernels::gather_rows_grid(k, size_.logits),
         {workspace_.address(workspace_.at().hidden), workspace_.logit_rows(),
          workspace_.address(workspace_.at().selected)});
}

void part_recorder::normalise(const workspace_area& from, std::uint32_t rows, tensor_place weight,
                              std::initializer_list<tensor_place> readers, bool in_pairs) {
  kernels::activation_spec spec;
  spec.source = kernels::activation_source::rms_norm;
  spec.k = model_.config().hidden;
  spec.input_stride = spec.k;
  spec.eps = model_.config().norm_epsilon;
  spec.outputs = kinds(readers);
  spec.in_pairs = in_pairs;
  spec.rows_together = kernels::rows_together(in_pairs ? 2 * rows : rows);
  spec = laid_out(spec, std::get<activation_layout>(layout_of({spec, rows})));
  made_in_parts_ = false;
  const workspace::areas& at = workspace_.at();
  append(
      key_of("rms_norm", spec.k, spec.eps, kinds_text(spec.outputs), spec.rows_together,
             spec.in_pairs, spec.warps, spec.parts),
      [&] { return kernels::activation(spec); }, kernels::activation_grid(spec, rows),
      {workspace_.address(from), address(weight), workspace_.address(at.q8_by_32),
       workspace_.address(at.f16), workspace_.address(at.f32), workspace_.address(at.q8_by_256)});
}

// A row in every kind that `readers` need, rounded in parts.
kernels::activation_spec part_recorder::rounded_for(std::initializer_list<tensor_place> readers) {
  made_in_parts_ = true;
  kernels::activation_spec spec;
  spec.k = static_cast<std::uint32_t>(tensor(*readers.begin()).k);
  spec.in_parts = true;
  spec.outputs = kinds(readers);
  spec.rows_together = kernels::rows_together(size_.rows);
  return spec;
}

void part_recorder::activate(kernels::activation_source source, const workspace_area& from,
                             std::uint32_t stride, std::uint32_t up_offset,
                             std::initializer_list<tensor_place> readers) {
  kernels::activation_spec spec = rounded_for(readers);
  spec.source = source;
  spec.input_stride = stride;
  spec.up_offset = up_offset;
  spec = laid_out(spec, std::get<activation_layout>(layout_of({spec, size_.rows})));
  const workspace::areas& at = workspace_.at();
  append(key_of("activation", static_cast<int>(source), spec.k, stride, up_offset,
                kinds_text(spec.outputs), spec.rows_together, spec.warps, spec.parts),
         [&] { return kernels::activation(spec); }, kernels::activation_grid(spec, size_.rows),
         {workspace_.address(from), 0, workspace_.address(at.q8_by_32), workspace_.address(at.f16),
          workspace_.address(at.f32), workspace_.address(at.q8_by_256)});
}

void part_recorder::multiply(std::initializer_list<tensor_place> matrices, const workspace_area& to,
                             std::uint32_t stride) {
  record({matrices, workspace_.address(to), stride, size_.rows});
}

void part_recorder::add_product(tensor_place matrix) {
  record({{matrix},
          workspace_.address(workspace_.at().hidden),
          workspace_.hidden_stride(),
          size_.rows,
          true});
}

void part_recorder::record(const product& p) {
  kernels::linear_spec spec;
  spec.output_stride = p.stride;
  spec.rows_together = kernels::rows_together(p.rows);
  spec.in_parts = made_in_parts_ && kinds(p.matrices).q8_by_256;
  spec.add_residual = p.added;
  const workspace::areas& at = workspace_.at();
  dispatch d;
  std::string key;
  std::uint32_t offset = 0;
  for (tensor_place m : p.matrices) {
    const block_tensor& t = tensor(m);
    spec.k = static_cast<std::uint32_t>(t.k);
    d.matrices[spec.matrices.size()] = {address(m), t.bytes,
                                        round_up_32(static_cast<std::uint32_t>(t.n)) / 32};
    spec.matrices.push_back({t.format, static_cast<std::uint32_t>(t.n), offset});
    offset += round_up_32(static_cast<std::uint32_t>(t.n));
    key += key_of(t.format->name, t.n);
  }
  const auto layout = std::get<linear_layout>(layout_of({spec, p.rows}));
  spec = laid_out(spec, layout, p.rows);
  d.order = layout.order;
  append(
      key_of("linear", spec.k, p.stride, p.added, spec.in_parts, spec.rows_together, spec.columns,
             spec.warps, spec.row_warps, spec.together, spec.fetch_ahead, key),
      [&] { return kernels::linear(spec); }, kernels::linear_grid(spec, p.rows),
      {workspace_.address(at.q8_by_32), workspace_.address(at.f16), workspace_.address(at.f32),
       p.to, p.to, d.matrices[0].address, d.matrices[1].address, d.matrices[2].address,
       workspace_.address(at.q8_by_256)},
      d);
}

void part_recorder::add_normalised(const workspace_area& from, tensor_place weight) {
  kernels::add_normalised_spec spec;
  spec.k = model_.config().hidden;
  spec.eps = model_.config().norm_epsilon;
  kernels::activation_spec like;  // it reads and folds rows as a norm does
  like.source = kernels::activation_source::rms_norm;
  like.k = spec.k;
  spec.warps = std::get<activation_layout>(tuning_->layout({like, size_.rows})).warps;
  append(key_of("add_normalised", spec.k, spec.eps, spec.warps),
         [&] { return kernels::add_normalised(spec); }, kernels::add_normalised_grid(size_.rows),
         {workspace_.address(from), address(weight), workspace_.address(workspace_.at().hidden)});
}

void part_recorder::rotate_and_store_kv(std::uint32_t layer, std::optional<head_norms> norms) {
  const model_config& c = model_.config();
  kernels::rope_kv_spec spec;
  spec.shape = c.attention;
  spec.rotated = c.rope_of(layer).rotated;
  spec.pairs = c.rope_of(layer).pairs;
  spec.input_stride = workspace_.qkv_stride();
  spec.k_offset = round_up_32(c.attention.heads * c.attention.head_size);
  spec.v_offset = spec.k_offset + round_up_32(c.attention.kv_heads * c.attention.head_size);
  spec.head_norms = norms.has_value();
  spec.eps = c.norm_epsilon;
  spec.warps = rope_warps(spec, workspace_.on().info());
  const workspace::areas& at = workspace_.at();
  append(key_of("rope_kv", spec.rotated, static_cast<int>(spec.pairs), spec.head_norms, spec.warps),
         [&] { return kernels::rope_kv(spec); }, kernels::rope_kv_grid(spec, size_.rows),
         {workspace_.address(at.qkv), workspace_.address(at.ropes[c.by_layer[layer].rope]),
          workspace_.positions(), workspace_.slots(), workspace_.rows_word(),
          workspace_.page_table(layer), workspace_.page_table_stride(), workspace_.address(at.q),
          norms ? address(norms->q) : 0, norms ? address(norms->k) : 0});
}

std::vector<row_range> part_recorder::attention_passes() const {
  const std::uint32_t together = workspace_.rows_attended_together(size_.rows, size_.chunks);
  std::vector<row_range> passes;
  for (std::uint32_t first = 0; first < size_.rows; first += together)
    passes.push_back({first, std::min(together, size_.rows - first)});
  return passes;
}

void part_recorder::attend_here(std::uint32_t layer, row_range rows) {
  const kernels::attention_shape shape = model_.config().attention_of(layer);
  const workspace::areas& at = workspace_.at();
  const auto tuning = std::get<kernels::attention_tuning>(layout_of({shape, rows.count}));
  append(key_of("attention_partial", shape.window, to_text(tuning)),
         [&] { return kernels::attention_partial(shape, tuning); },
         kernels::attention_partial_grid(shape, rows.count, size_.chunks, tuning),
         {workspace_.address(at.q), workspace_.positions(), workspace_.slots(),
          workspace_.rows_word(), workspace_.page_table(layer), workspace_.page_table_stride(),
          workspace_.address(at.partials), rows.count, rows.first});
}

// Where rows are few and nothing else needs the attended row, one kernel folds and rounds it.
bool part_recorder::rounds_while_combining() const {
  return workspace_.on().info().kind != device_kind::cpu && size_.rows <= few_rows;
}

void part_recorder::round_attended() {
  if (attention_is_rounded_) return;
  activate(kernels::activation_source::plain, workspace_.at().attended,
           workspace_.attended_stride(), 0, {reads_attention_});
}

void part_recorder::combine(std::uint32_t layer, row_range rows) {
  if (rounds_while_combining()) return combine_rounded(layer, rows);
  const kernels::attention_shape shape = model_.config().attention_of(layer);
  const workspace::areas& at = workspace_.at();
  append(key_of("attention_combine", shape.window),
         [&] { return kernels::attention_combine(shape); },
         kernels::attention_combine_grid(shape, rows.count),
         {workspace_.address(at.partials), workspace_.positions(), workspace_.rows_word(),
          workspace_.address(at.attended), rows.count, rows.first});
}

bool part_recorder::attends_at_once(std::uint32_t layer) const {
  return engine::attends_at_once(model_.config().attention_of(layer), workspace_.on().info(),
                                 size_.rows, size_.chunks);
}

void part_recorder::attend_at_once(std::uint32_t layer) {
  const kernels::attention_shape shape = model_.config().attention_of(layer);
  const workspace::areas& at = workspace_.at();
  append(key_of("attention", shape.window), [&] { return kernels::whole_attention(shape); },
         kernels::whole_attention_grid(shape, size_.rows),
         {workspace_.address(at.q), workspace_.positions(), workspace_.slots(),
          workspace_.rows_word(), workspace_.page_table(layer), workspace_.page_table_stride(),
          workspace_.address(at.attended)});
}

// A warp for each 32 elements: what folds them waits for memory, not for other warps.
void part_recorder::combine_rounded(std::uint32_t layer, row_range rows) {
  const kernels::attention_shape shape = model_.config().attention_of(layer);
  kernels::activation_spec spec = rounded_for({reads_attention_});
  attention_is_rounded_ = true;
  spec.warps = 8;
  spec.parts = (spec.k + 255) / 256;
  const workspace::areas& at = workspace_.at();
  append(key_of("attended_activation", shape.window, kinds_text(spec.outputs), spec.rows_together),
         [&] { return kernels::attended_activation(shape, spec); },
         kernels::activation_grid(spec, rows.count),
         {workspace_.address(at.partials), workspace_.positions(), workspace_.address(at.q8_by_32),
          workspace_.address(at.f16), workspace_.address(at.f32), workspace_.address(at.q8_by_256),
          workspace_.rows_word(), rows.count, rows.first});
}

void part_recorder::give_logits() {
  constexpr tensor_place norm{0, 0}, output{1, 0};
  select_rows();
  const std::uint32_t stride = workspace_.logits_stride(), rows = size_.logits;
  const kernels::activation_set read = kinds({output});
  const bool in_pairs = read.q8_by_32 || read.q8_by_256;
  normalise(workspace_.at().selected, rows, norm, {output}, in_pairs);
  const std::uint64_t products = workspace_.address(workspace_.at().products);
  record({{output}, products, stride, in_pairs ? 2 * rows : rows});
  const kernels::logits_spec spec{model_.config().vocabulary, stride, in_pairs};
  append(key_of("logits", spec.vocabulary, stride, in_pairs), [&] { return kernels::logits(spec); },
         kernels::logits_grid(spec, rows), {products, workspace_.logits(), workspace_.peaks()});
}

}  // namespace terrane::engine

#include "engine/tuning/kernel_trial.hpp"

#include <algorithm>
#include <cmath>

#include "engine/tuning/synthetic.hpp"

namespace terrane::engine {

namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t most_weight_bytes = std::size_t{48} << 20;  // of one launch
constexpr std::uint32_t context_tokens = 512;                     // that attention looks at
constexpr std::size_t far_apart = 7919;  // sets of weights between those of two launches
constexpr std::size_t least_groups = 8;  // of a share

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

using held = std::unique_ptr<device_memory>;

result<void> keep(result<held> made, held& in) {
  if (!made) return tl::unexpected<error>(made.error());
  in = std::move(*made);
  return {};
}

// ---- Matrices

class linear_trial final : public kernel_trial {
 public:
  linear_trial(device& on, kernels::linear_spec spec, std::uint32_t rows,
               const device_memory& read_over)
      : kernel_trial(on), spec_(std::move(spec)), rows_(rows), read_over_(read_over) {
    spec_.rows_together = kernels::rows_together(rows);
  }

  result<void> prepare() {
    result<void> ok = prepare_activations();
    if (ok) ok = prepare_weights();
    if (!ok) return ok;
    const std::uint32_t padded = (rows_ + 15) / 16 * 16;
    return keep(hold(std::size_t{padded} * spec_.output_stride * 4), out_);
  }

  kernels::program program(const kernel_layout& layout) const override {
    return kernels::linear(laid_out(spec_, std::get<linear_layout>(layout), rows_));
  }

 private:
  result<void> prepare_activations() {
    kernels::activation_set set;
    for (const kernels::linear_matrix& m : spec_.matrices) set.add(m.format->activations);
    const std::uint32_t padded = (rows_ + 15) / 16 * 16;
    result<void> ok;
    const auto quantised = [&](std::uint32_t block) {
      return hold(made_up_q8_rows(spec_.k, block, padded, spec_.rows_together));
    };
    if (set.q8_by_32) ok = keep(quantised(32), by_32_);
    if (ok && set.q8_by_256) ok = keep(quantised(256), by_256_);
    if (ok && (set.f16 || set.f32))
      ok = keep(hold(bytes_of(made_up_floats(std::size_t{padded} * spec_.k))), numbers_);
    return ok;
  }

  // The weights of the workgroups that are launched: the first, up to a number of bytes.
  result<void> prepare_weights() {
    std::size_t left = most_weight_bytes;
    std::vector<std::vector<std::byte>> group;  // of each matrix, to be repeated
    std::vector<std::size_t> groups;
    std::size_t whole = 0;  // matrices that are launched whole
    for (const kernels::linear_matrix& m : spec_.matrices) {
      group.push_back(made_up_weights(*m.format, spec_.k));
      const std::size_t all = (m.n + 31) / 32;
      const std::size_t fit = std::max<std::size_t>(left / group.back().size(), groups.empty());
      groups.push_back(groups.size() == whole ? std::min(all, fit) : 0);
      if (groups.back() == all) whole++;
      launched_ += static_cast<std::uint32_t>(groups.back());
      offsets_.push_back(bytes_);
      bytes_ += aligned(groups.back() * group.back().size());
      left -= std::min(left, groups.back() * group.back().size());
    }
    result<void> ok = keep(hold(bytes_), weights_);
    for (std::size_t m = 0; ok && m < groups.size(); m++)
      ok = repeat(group[m], groups[m], offsets_[m]);
    return ok;
  }

  result<void> repeat(const std::vector<std::byte>& what, std::size_t times, std::size_t at) {
    const std::size_t together = std::max<std::size_t>(1, (std::size_t{1} << 20) / what.size());
    std::vector<std::byte> piece;
    for (std::size_t k = 0; k < std::min(together, times); k++)
      piece.insert(piece.end(), what.begin(), what.end());
    for (std::size_t done = 0; done < times; done += together) {
      const std::size_t now = std::min(together, times - done);
      result<void> ok = device_.write(*weights_, at + done * what.size(),
                                      std::span(piece).first(now * what.size()));
      if (!ok) return ok;
    }
    return {};
  }

  dispatch phase(const kernel_layout& layout, std::uint32_t launch) const override {
    const kernels::linear_spec spec = laid_out(spec_, std::get<linear_layout>(layout), rows_);
    const std::size_t sets = read_over_.bytes() / bytes_;
    const std::uint64_t first = launch == 0 || sets < 2
                                    ? weights_->address()
                                    : read_over_.address() + launch * far_apart % sets * bytes_;
    dispatch d;
    d.order = std::get<linear_layout>(layout).order;
    d.groups_x = groups_of(share_of(launched_), static_cast<std::uint32_t>(spec.row_warps));
    d.groups_y = kernels::linear_grid(spec, rows_).y;
    const auto address = [](const held& m) { return m == nullptr ? 0 : m->address(); };
    d.arguments = {address(by_32_), address(numbers_), address(numbers_), out_->address(),
                   out_->address()};
    for (std::size_t m = 0; m < offsets_.size(); m++) d.arguments[5 + m] = first + offsets_[m];
    d.arguments[8] = address(by_256_);
    return d;
  }

  // Workgroups over so many groups of matrix rows. A kernel leaves rows out by itself only past the
  // end of the whole matrices.
  std::uint32_t groups_of(std::uint32_t row_groups, std::uint32_t together) const {
    const bool whole = row_groups == kernels::linear_grid(whole_spec(), rows_).x;
    return std::max(1U, (row_groups + (whole ? together - 1 : 0)) / together);
  }
  kernels::linear_spec whole_spec() const {
    kernels::linear_spec spec = spec_;
    spec.row_warps = 1;
    return spec;
  }

  kernels::linear_spec spec_;
  std::uint32_t rows_;
  const device_memory& read_over_;
  held by_32_, by_256_, numbers_, weights_;
  std::vector<std::size_t> offsets_;  // of the matrices
  std::size_t bytes_ = 0;             // of all of them
  std::uint32_t launched_ = 0;
};

// ---- Attention

class attention_trial final : public kernel_trial {
 public:
  attention_trial(device& on, const kernels::attention_shape& shape, std::uint32_t rows)
      : kernel_trial(on),
        shape_(shape),
        rows_(rows),
        chunks_((std::max(context_tokens, rows) + kernels::page_positions - 1) /
                kernels::page_positions) {}

  result<void> prepare() {
    const std::size_t page_bytes = kernels::page_bytes(shape_), rows = rows_;
    result<void> ok =
        keep(hold(bytes_of(made_up_halves(layers * chunks_ * page_bytes / 2))), pages_);
    if (!ok) return ok;
    std::vector<std::uint64_t> table(layers * chunks_);
    for (std::size_t p = 0; p < table.size(); p++) table[p] = pages_->address() + p * page_bytes;
    // Their number, then a position and a slot each.
    std::vector<std::int32_t> inputs(1 + 2 * rows, 0);
    inputs[0] = static_cast<std::int32_t>(rows_);
    for (std::uint32_t r = 0; r < rows_; r++)
      inputs[1 + r] = static_cast<std::int32_t>(chunks_ * kernels::page_positions - rows_ + r);
    ok = keep(hold(bytes_of(table)), tables_);
    if (ok) ok = keep(hold(bytes_of(inputs)), inputs_);
    if (ok) ok = keep(hold(bytes_of(made_up_floats(rows * shape_.heads * shape_.head_size))), q_);
    if (ok) ok = keep(hold(chunks_ * rows * kernels::partial_row_bytes(shape_)), out_);
    return ok;
  }

  kernels::program program(const kernel_layout& layout) const override {
    return kernels::attention_partial(shape_, std::get<kernels::attention_tuning>(layout));
  }

 private:
  static constexpr std::size_t layers = 4;

  dispatch phase(const kernel_layout& layout, std::uint32_t launch) const override {
    const kernels::grid g = kernels::attention_partial_grid(
        shape_, rows_, chunks_, std::get<kernels::attention_tuning>(layout));
    dispatch d;
    d.groups_x = g.x;
    d.groups_y = share_of(g.y);
    const std::uint64_t words = inputs_->address();
    d.arguments = {q_->address(),
                   words + 4,
                   words + 4 + std::uint64_t{4} * rows_,
                   words,
                   tables_->address() + launch % layers * chunks_ * 8,
                   chunks_,
                   out_->address(),
                   rows_};
    return d;
  }

  kernels::attention_shape shape_;
  std::uint32_t rows_, chunks_;
  held pages_, tables_, q_, inputs_;
};

// ---- Activations

class activation_trial final : public kernel_trial {
 public:
  activation_trial(device& on, const kernels::activation_spec& spec, std::uint32_t rows)
      : kernel_trial(on), spec_(spec), rows_(rows) {}

  result<void> prepare() {
    const std::size_t stride = std::max(spec_.input_stride, spec_.up_offset + spec_.k);
    result<void> ok = keep(hold(bytes_of(made_up_floats(rows_ * stride))), x_);
    if (ok) ok = keep(hold(bytes_of(made_up_floats(spec_.k))), w_);
    if (!ok) return ok;
    std::size_t bytes = 0;
    const auto area = [&](std::size_t row_bytes) {
      const std::size_t at = bytes;
      const std::uint32_t written = spec_.in_pairs ? 2 * rows_ : rows_;
      bytes += aligned((written + few_rows - 1) / few_rows * few_rows * row_bytes);
      return at;
    };
    by_32_ = area(kernels::q8_row_layout(spec_.k, 32).row_bytes());
    if (spec_.k % 256 == 0) by_256_ = area(kernels::q8_row_layout(spec_.k, 256).row_bytes());
    f16_ = area(std::size_t{4} * spec_.k);
    f32_ = area(std::size_t{4} * spec_.k);
    return keep(hold(bytes), out_);
  }

  kernels::program program(const kernel_layout& layout) const override {
    return kernels::activation(laid_out(spec_, std::get<activation_layout>(layout)));
  }

 private:
  dispatch phase(const kernel_layout& layout, std::uint32_t) const override {
    const kernels::grid g =
        kernels::activation_grid(laid_out(spec_, std::get<activation_layout>(layout)), rows_);
    dispatch d;
    d.groups_x = g.x;
    d.groups_y = g.y;
    const std::uint64_t out = out_->address();
    d.arguments = {x_->address(), w_->address(), out + by_32_,
                   out + f16_,    out + f32_,    out + by_256_};
    return d;
  }

  kernels::activation_spec spec_;
  std::uint32_t rows_;
  held x_, w_;
  std::size_t by_32_ = 0, by_256_ = 0, f16_ = 0, f32_ = 0;  // in the output
};

template <class Trial>
result<std::unique_ptr<kernel_trial>> prepared(std::unique_ptr<Trial> trial) {
  result<void> ok = trial->prepare();
  if (!ok) return tl::unexpected<error>(ok.error());
  return trial;
}

}  // namespace

result<std::unique_ptr<kernel_trial>> kernel_trial::make(device& on, const kernel_shape& shape,
                                                         const device_memory& read_over) {
  if (const auto* linear = std::get_if<kernels::linear_spec>(&shape.what))
    return prepared(std::make_unique<linear_trial>(on, *linear, shape.rows, read_over));
  if (const auto* attention = std::get_if<kernels::attention_shape>(&shape.what))
    return prepared(std::make_unique<attention_trial>(on, *attention, shape.rows));
  return prepared(std::make_unique<activation_trial>(
      on, std::get<kernels::activation_spec>(shape.what), shape.rows));
}

std::uint32_t kernel_trial::share_of(std::uint32_t groups) const {
  const auto wanted = static_cast<std::size_t>(std::ceil(share_ * groups));
  return static_cast<std::uint32_t>(std::min<std::size_t>(groups, std::max(wanted, least_groups)));
}

result<std::unique_ptr<device_memory>> kernel_trial::hold(std::size_t bytes) const {
  return device_.allocate(std::max<std::size_t>(bytes, 4), memory_use::staging);
}

result<std::unique_ptr<device_memory>> kernel_trial::hold(
    std::span<const std::byte> content) const {
  result<held> made = hold(content.size());
  if (!made) return made;
  result<void> ok = device_.write(**made, 0, content);
  if (!ok) return tl::unexpected<error>(ok.error());
  return made;
}

result<std::unique_ptr<command_list>> kernel_trial::record(const kernel_layout& layout,
                                                           const device_kernel* kernel) const {
  std::vector<dispatch> phases;
  for (std::uint32_t launch = 1; launch <= launches_; launch++) {
    phases.push_back(phase(layout, launch));
    phases.back().kernel = kernel;
  }
  return device_.record(phases);
}

result<std::vector<std::byte>> kernel_trial::output(const kernel_layout& layout,
                                                    const device_kernel* kernel) {
  std::vector<std::byte> bytes(out_->bytes());
  result<void> ok = device_.write(*out_, 0, bytes);
  if (!ok) return tl::unexpected<error>(ok.error());
  dispatch d = phase(layout, 0);
  d.kernel = kernel;
  result<std::unique_ptr<command_list>> list = device_.record({&d, 1});
  if (!list) return tl::unexpected<error>(list.error());
  ok = device_.submit(**list);
  if (ok) ok = device_.wait();
  if (ok) ok = device_.read(*out_, 0, bytes);
  if (!ok) return tl::unexpected<error>(ok.error());
  return bytes;
}

}  // namespace terrane::engine

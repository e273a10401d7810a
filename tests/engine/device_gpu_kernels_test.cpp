// The kernels of a transformer, random programs and the contract's self-test on every GPU:
// the interpreter's bits. Each case runs twice, on the interpreter over buffers of this process and
// on the device over copies of them; then all buffers must be equal.
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/device/self_test.hpp"
#include "kernels/contract/rope_table.hpp"
#include "kernels/interp/interpreter.hpp"
#include "kernels/ops/ops.hpp"
#include "tests/engine/gpu_test_device.hpp"
#include "tests/kernels/random_program.hpp"

namespace terrane::engine {
namespace {

using namespace terrane::kernels;

std::vector<activation_kind> every_kind(std::uint32_t k) {
  std::vector<activation_kind> kinds = {activation_kind::q8_by_32, activation_kind::f16,
                                        activation_kind::f32};
  if (k % 256 == 0) kinds.push_back(activation_kind::q8_by_256);
  return kinds;
}

class gpu_kernels : public every_gpu_test {
 protected:
  // A buffer on both sides. The interpreter wants host memory aligned like a device's.
  struct twin {
    std::vector<std::uint32_t> storage;
    std::uint32_t* words = nullptr;
    std::size_t count = 0;
    std::unique_ptr<device_memory> copy;
    bool compared = true;
    std::span<std::uint32_t> span() { return {words, count}; }
  };

  twin& buffer(std::size_t bytes) {
    auto made = std::make_unique<twin>();
    made->count = (bytes + 63) / 64 * 16;
    made->storage.resize(made->count + 64);
    auto start = reinterpret_cast<std::uintptr_t>(made->storage.data());
    made->words = reinterpret_cast<std::uint32_t*>((start + 255) / 256 * 256);
    made->copy = allocate(4 * made->count);
    twins_.push_back(std::move(made));
    return *twins_.back();
  }

  // Floats between 2^-6 and 2, either sign; as bytes, noise; as f16, finite.
  twin& noise(std::size_t bytes) {
    twin& t = buffer(bytes);
    for (std::uint32_t& w : t.span()) {
      auto bits = static_cast<std::uint32_t>(next_random(state_));
      w = (bits & 0x807fbfffu) | (0x79u + bits % 6) << 23;
    }
    return t;
  }
  // The same as a row of activations in f16 has them: rounded.
  twin& halves(std::size_t bytes) {
    twin& t = noise(bytes);
    for (std::uint32_t& w : t.span()) w &= 0xffffe000u;
    return t;
  }
  // A matrix of noise, packed as the engine does it.
  twin& matrix(const weight_format& format, std::uint32_t n, std::uint32_t k) {
    std::vector<std::byte> stored(std::size_t{n} * (k / format.block_elements) *
                                  format.block_bytes);
    const twin& from = noise(stored.size());
    std::memcpy(stored.data(), from.words, stored.size());
    twins_.pop_back();
    if (format.numbers.kind == number_kind::e8m0)  // whose NaN has the bits that a target gives it
      for (std::size_t at = format.numbers.source_offset; at < stored.size();
           at += format.block_bytes)
        stored[at] &= std::byte{0x7f};
    twin& t = buffer(packed_bytes(format, n, k));
    pack_rows(format, k, stored,
              std::as_writable_bytes(t.span()).first(packed_bytes(format, n, k)));
    return t;
  }
  twin& integers(std::vector<std::uint32_t> values) {
    twin& t = buffer(4 * values.size());
    std::copy(values.begin(), values.end(), t.words);
    return t;
  }

  struct slot {
    slot() = default;
    slot(twin& t) : buffer(&t) {}
    slot(std::uint32_t v) : value(v) {}
    twin* buffer = nullptr;
    std::uint64_t value = 0;
  };

  void upload() {
    for (auto& t : twins_) {
      if (!t->compared) continue;
      ASSERT_TRUE(gpu().write(*t->copy, 0, std::as_bytes(t->span())).has_value());
    }
  }

  // Runs on both sides; differences stay for compare().
  void run_both(const program& p, grid g, const std::vector<slot>& slots) {
    std::array<std::uint64_t, max_arguments> here{}, there{};
    for (std::size_t k = 0; k < slots.size(); k++) {
      const slot& s = slots[k];
      here[k] = s.buffer == nullptr ? s.value : reinterpret_cast<std::uint64_t>(s.buffer->words);
      there[k] = s.buffer == nullptr ? s.value : s.buffer->copy->address();
    }
    interpret(p, here, g.x, g.y);
    run(p, there, g.x, g.y);
  }

  void compare(const std::string& what) {
    std::size_t number = 0;
    for (auto& t : twins_) {
      number++;
      if (!t->compared) continue;
      std::vector<std::uint32_t> got(t->count);
      ASSERT_TRUE(gpu().read(*t->copy, 0, std::as_writable_bytes(std::span(got))).has_value());
      for (std::size_t k = 0; k < t->count; k++)
        ASSERT_EQ(got[k], t->words[k]) << what << ": word " << k << " of buffer " << number;
    }
    twins_.clear();
  }

  std::vector<std::unique_ptr<twin>> twins_;
  std::uint64_t state_ = 1;
};

TEST_P(gpu_kernels, linear_in_every_format) {
  for (const weight_format* format : weight_formats()) {
    struct {
      std::uint32_t k, n, columns;
      int warps;
    } shapes[] = {{format->block_elements == 32 ? 576u : 768u, 70, 1, 3}, {512, 33, 4, 1}};
    for (const auto& s : shapes) {
      linear_spec spec;
      spec.k = s.k;
      spec.matrices = {{format, s.n, 0}};
      spec.output_stride = (s.n + 31) / 32 * 32;
      spec.columns = s.columns;
      spec.warps = s.warps;
      spec.add_residual = s.columns > 1;
      spec.in_parts = s.columns > 1 && format->activations == activation_kind::q8_by_256;
      // A product is exact, fused or not, of factors as they come from the kernel before only.
      const std::size_t row_bytes = std::size_t{s.columns} * (8 * s.k + 1024);
      const bool rounded = format->activations == activation_kind::f16;
      twin& rows = rounded ? halves(row_bytes) : noise(row_bytes);
      twin& out = noise(4 * std::size_t{s.columns} * spec.output_stride);
      twin& weights = matrix(*format, s.n, s.k);
      upload();
      run_both(linear(spec), linear_grid(spec, s.columns),
               {rows, rows, rows, out, out, weights, 0u, 0u, rows});
      compare(std::string(format->name) + " of " + std::to_string(s.columns) + " columns");
    }
  }
}

TEST_P(gpu_kernels, embedding_rows_of_every_format) {
  for (const weight_format* format : weight_formats()) {
    constexpr std::uint32_t k = 512;
    twin& weights = matrix(*format, 40, k);
    twin& tokens = integers({39, 0, 17});
    twin& out = noise(4 * 3 * k);
    upload();
    run_both(embedding(*format, k), embedding_grid(k, 3), {weights, tokens, out});
    compare(format->name);
  }
}

TEST_P(gpu_kernels, activations_in_every_kind) {
  for (activation_source source : {activation_source::plain, activation_source::rms_norm,
                                   activation_source::swiglu, activation_source::geglu})
    for (std::uint32_t k : {576u, 768u}) {
      activation_spec spec;
      spec.source = source;
      spec.k = k;
      spec.input_stride = 2 * k;
      spec.up_offset = k;
      spec.eps = 1e-5f;
      spec.warps = k == 576 || source == activation_source::geglu ? 8 : 2;
      spec.parts = k == 576 ? 2 : 1;
      spec.in_pairs = source == activation_source::rms_norm;
      spec.in_parts = source == activation_source::geglu;
      for (activation_kind kind : every_kind(k)) spec.outputs.add(kind);
      twin& x = noise(4 * 2 * 3 * k);
      twin& w = noise(4 * k);
      auto out = [&]() -> twin& { return buffer(std::size_t{3} * (4 * k + 1024)); };
      twin &a = out(), &b = out(), &c = out(), &d = out();
      upload();
      run_both(activation(spec), activation_grid(spec, 3), {x, w, a, b, c, d});
      compare("source " + std::to_string(static_cast<int>(source)) + ", k " + std::to_string(k));
    }
}

TEST_P(gpu_kernels, a_normalised_row_comes_to_the_hidden_state) {
  const add_normalised_spec spec{640, 1e-6f, 8};
  twin &x = noise(std::size_t{4} * 3 * 640), &w = noise(std::size_t{4} * 640),
       &hidden = noise(std::size_t{4} * 3 * 640);
  upload();
  run_both(add_normalised(spec), add_normalised_grid(3), {x, w, hidden});
  compare("add_normalised");
}

// With a window and norms of heads, or without either.
TEST_P(gpu_kernels, attention_over_pages) {
  for (bool both : {false, true}) {
    const attention_shape shape{
        .heads = 6, .kv_heads = 2, .head_size = 64, .scale = 0.125f, .window = both ? 6U : 0U};
    const rope_kv_spec spec{.shape = shape,
                            .rotated = 64,
                            .pairs = rope_pairs::halves,
                            .input_stride = 10 * 64,
                            .k_offset = 6 * 64,
                            .v_offset = 8 * 64,
                            .head_norms = both,
                            .eps = 1e-6f};
    constexpr std::uint32_t rows = 3, chunks = 2, capacity = 4;
    twin& x = noise(4 * std::size_t{spec.input_stride} * rows);
    rope_parameters frequencies;
    frequencies.rotated = 64;
    std::vector<float> table = rope_table(frequencies, 128);
    twin& rope = buffer(4 * table.size());
    std::memcpy(rope.words, table.data(), 4 * table.size());
    twin& position = integers({68, 69, 70});
    twin& session = integers({0, 0, 0});
    twin& count = integers({rows});
    twin &first = noise(page_bytes(shape)), &second = noise(page_bytes(shape));
    for (twin* page : {&first, &second})  // keys of moderate size
      for (std::uint32_t& w : page->span()) w &= 0xbbffbbffu;
    twin& q = buffer(4 * std::size_t{rows} * 6 * 64);
    twin& partials = buffer(std::size_t{chunks} * capacity * partial_row_bytes(shape));
    twin& out = buffer(4 * std::size_t{rows} * 6 * 64);
    twin& at_once = buffer(4 * std::size_t{rows} * 6 * 64);
    twin& pages = buffer(16);
    twin& norm = noise(4 * std::size_t{64});
    twin &by_32 = buffer(std::size_t{rows} * 1024), &again = buffer(4 * std::size_t{rows} * 6 * 64);
    upload();
    pages.compared = false;  // its addresses differ
    std::array<std::uint64_t, 2> here = {reinterpret_cast<std::uint64_t>(first.words),
                                         reinterpret_cast<std::uint64_t>(second.words)};
    std::array<std::uint64_t, 2> there = {first.copy->address(), second.copy->address()};
    std::memcpy(pages.words, here.data(), sizeof here);
    ASSERT_TRUE(gpu().write(*pages.copy, 0, std::as_bytes(std::span(there))).has_value());

    run_both(rope_kv(spec), rope_kv_grid(spec, rows),
             {x, rope, position, session, count, pages, chunks, q, norm, norm});
    for (int warps : {1, attention_warps(shape)})
      run_both(attention_partial(shape, {.warps = warps}),
               attention_partial_grid(shape, rows, chunks),
               {q, position, session, count, pages, chunks, partials, capacity, 0});
    run_both(attention_combine(shape), attention_combine_grid(shape, rows),
             {partials, position, count, out, capacity, 0});
    run_both(whole_attention(shape), whole_attention_grid(shape, rows),
             {q, position, session, count, pages, chunks, at_once});
    activation_spec rounded;
    rounded.k = 6 * 64;
    rounded.outputs = {.q8_by_32 = true, .f32 = true};
    rounded.parts = 2;
    run_both(attended_activation(shape, rounded), activation_grid(rounded, rows),
             {partials, position, by_32, 0u, again, by_32, count, capacity, 0});
    compare("attention");
  }
}

// Seeds from 1000 on: lavapipe folds x - x and a product with a zero that it sees, which shows in
// the sign of a zero in programs that other seeds give.
TEST_P(gpu_kernels, random_programs) {
  random_options options;
  options.instructions = 30;
  options.denormals = false;
  for (std::uint64_t seed = 1000; seed < 1020; seed++) {
    random_case c = make_random_case(seed, options);
    auto input = allocate(c.input.size()), output = allocate(c.output_bytes), table = allocate(8);
    std::vector<std::byte> got(c.output_bytes, output_fill);
    std::uint64_t address = input->address();
    ASSERT_TRUE(gpu().write(*input, 0, c.input).has_value());
    ASSERT_TRUE(gpu().write(*output, 0, got).has_value());
    ASSERT_TRUE(gpu().write(*table, 0, std::as_bytes(std::span(&address, 1))).has_value());
    run(c.code, c.arguments(address, output->address(), table->address()), c.groups_x, c.groups_y);
    ASSERT_TRUE(gpu().read(*output, 0, got).has_value());
    EXPECT_EQ(got, interpreted_output(c)) << "seed " << seed << "\n" << to_text(c.code);
  }
}

TEST_P(gpu_kernels, the_contract_holds) {
  result<void> passed = self_test(gpu(), "");
  EXPECT_TRUE(passed.has_value()) << to_string(passed.error());
}

INSTANTIATE_TEST_SUITE_P(on, gpu_kernels,
                         testing::Values(gpu_target::vulkan, gpu_target::early_vulkan,
                                         gpu_target::cuda),
                         name_of_gpu_case);

}  // namespace
}  // namespace terrane::engine

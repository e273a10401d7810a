// The contract's reference hashes through the kernels of the engine: packed weights, quantised
// rows, pages of keys and values instead of the self-test's little programs. On the host's machine
// code.
#include <gtest/gtest.h>

#include "kernels/contract/selftest.hpp"
#include "tests/kernels/contract_inputs.hpp"
#include "tests/kernels/program_runner.hpp"

namespace terrane::kernels {
namespace {

using reference::random_word;
using reference::with_exponent;

std::uint64_t reference_hash(int op) {
  for (const contract_check& check : contract_checks())
    if (check.op == op) return check.full.hash;
  ADD_FAILURE() << "no operation " << op;
  return 0;
}

std::uint64_t hash_of(std::span<const float> values) {
  return contract_hash({reinterpret_cast<const std::uint32_t*>(values.data()), values.size()},
                       true);
}

// One activation row of a token in every kind.
struct token_row {
  token_row(std::uint32_t row_elements, std::uint32_t block)
      : k(row_elements), layout(k, block), q8(layout.tile_bytes), halves(k) {}
  void fill(std::uint32_t token) {
    std::uint32_t scales = k / layout.block;
    for (std::uint32_t i = 0; i < k; i++) {
      q8[i] = static_cast<std::byte>(reference::activation(token, i));
      halves[i] = reference::f16(with_exponent(random_word(471, token, i), -8, 4));
    }
    for (std::uint32_t b = 0; b < scales; b++) {
      // The reference has a scale for each 256 elements where K allows: finer blocks repeat it.
      std::uint32_t shared = k % 256 == 0 ? 256 / layout.block : 1;
      float d = reference::activation_scale(token, b / shared);
      std::memcpy(&q8[layout.scale_at(0, b)], &d, 4);
    }
    for (std::uint32_t s = 0; s < k / 16; s++) {
      std::int32_t sum = 0;
      for (std::uint32_t i = 16 * s; i < 16 * s + 16; i++) sum += reference::activation(token, i);
      std::memcpy(&q8[layout.sum_at(0, s)], &sum, 4);
      if (layout.block == 256) {
        q8[layout.low_sum_at(0, s)] = static_cast<std::byte>(sum & 127);
        q8[layout.high_sum_at(0, s)] = static_cast<std::byte>(sum >> 7);
      }
    }
  }
  std::uint32_t k;
  q8_row_layout layout;
  aligned_buffer<std::byte> q8;
  aligned_buffer<float> halves;
};

// Row r of the reference meets token r / 1024: a matrix of 1024 rows a token.
std::uint64_t linear_hash(const char* name, std::uint32_t rows, std::uint32_t k, int warps) {
  const weight_format* format = nullptr;
  for (const weight_format* f : weight_formats())
    if (std::string(f->name) == name) format = f;
  linear_spec spec{.k = k, .matrices = {{format, 1024, 0}}, .output_stride = 1024, .warps = warps};
  program p = linear(spec);
  group_function code = host_code(p);
  token_row x(k, format->block_elements == 256 ? 256 : 32);
  std::vector<float> out(rows);
  aligned_buffer<std::byte> weights(packed_bytes(*format, 1024, k));
  for (std::uint32_t token = 0; token < rows / 1024; token++) {
    std::vector<std::byte> stored;
    stored.reserve(weights.size());
    reference::block_writer writer(stored);
    for (std::uint32_t r = 0; r < 1024; r++) writer.row(name, token * 1024 + r, k);
    pack_rows(*format, k, stored, weights.span());
    x.fill(token);
    std::vector<argument_slot> arguments = {x.q8.data(),        x.halves.data(), argument_slot(),
                                            &out[token * 1024], argument_slot(), weights.data(),
                                            argument_slot(),    argument_slot(), x.q8.data()};
    run_host_code(code, p, arguments, linear_grid(spec, 1));
  }
  return hash_of(out);
}

TEST(reference_hashes, rows_of_weights_through_linear) {
  EXPECT_EQ(linear_hash("Q8_0", 262144, 1024, 1), reference_hash(60));
  EXPECT_EQ(linear_hash("Q4_0", 262144, 1024, 1), reference_hash(61));
  EXPECT_EQ(linear_hash("Q4_1", 262144, 1024, 4), reference_hash(62));
  EXPECT_EQ(linear_hash("Q4_K", 262144, 1024, 1), reference_hash(64));
  EXPECT_EQ(linear_hash("Q5_K", 262144, 1024, 1), reference_hash(65));
  EXPECT_EQ(linear_hash("Q6_K", 262144, 1024, 2), reference_hash(66));
  EXPECT_EQ(linear_hash("F16", 65536, 1024, 1), reference_hash(67));
  EXPECT_EQ(linear_hash("BF16", 65536, 1024, 1), reference_hash(69));
  EXPECT_EQ(linear_hash("Q8_0", 262144, 576, 1), reference_hash(70));
  EXPECT_EQ(linear_hash("Q4_1", 262144, 576, 2), reference_hash(72));
}

// 1024 or 512 rows of attention, four rows on the keys of one slot. `together`: the four are the
// query heads of one K/V head, else rows of their own (with numbers of keys of their own).
std::uint64_t attention_hash(std::uint32_t rows, std::uint32_t size, bool together,
                             bool two_devices) {
  attention_shape shape{together ? 4u : 1u, 1, size, size == 64 ? 0.125f : 8.8388347648318447e-2f,
                        0};
  constexpr std::uint32_t chunks = 10;
  std::uint32_t slots = rows / 4, steps = together ? slots : rows;
  aligned_buffer<std::byte> pages(std::size_t{slots} * chunks * page_bytes(shape));
  aligned_buffer<std::uint64_t> here(slots * chunks), there(slots * chunks);
  for (std::uint32_t s = 0; s < slots; s++)
    for (std::uint32_t t = 0; t < 64 * chunks; t++) {
      std::size_t page = std::size_t{s} * chunks + t / 64;
      std::byte* at = pages.data() + page * page_bytes(shape);
      bool elsewhere = two_devices && t / 64 % 3 == 1;
      (elsewhere ? there : here)[page] = reinterpret_cast<std::uint64_t>(at);
      auto* k = reinterpret_cast<std::uint16_t*>(at);
      std::uint16_t* v = k + 64 * size;
      for (std::uint32_t d = 0; d < size; d++) {
        k[d * 64 + t % 64] = static_cast<std::uint16_t>(
            reference::float_to_half(with_exponent(random_word(501, s, t * 128 + d), -4, 1)));
        v[t % 64 * size + d] = static_cast<std::uint16_t>(
            reference::float_to_half(with_exponent(random_word(502, s, t * 128 + d), -26, 1)));
      }
    }
  aligned_buffer<float> q(std::size_t{rows} * size), out(std::size_t{rows} * size);
  aligned_buffer<std::int32_t> position(steps), slot(steps), count(1, static_cast<int>(steps));
  for (std::uint32_t r = 0; r < rows; r++) {
    int spread = static_cast<int>(2 * (r % 4));
    for (std::uint32_t d = 0; d < size; d++)
      q[r * size + d] =
          reference::f16(with_exponent(random_word(500, r, d), spread - 4, spread + 1));
    std::uint32_t keys = size == 64 ? 593 : 1 + random_word(503, r, 0) % 593;
    position[together ? r / 4 : r] = static_cast<std::int32_t>(keys - 1);
    slot[together ? r / 4 : r] = static_cast<std::int32_t>(r / 4);
  }
  aligned_buffer<float> partials(std::size_t{chunks} * steps * partial_row_bytes(shape) / 4);
  for (std::uint64_t* table : {here.data(), there.data()}) {
    std::vector<argument_slot> part = {q.data(),        position.data(), slot.data(),
                                       count.data(),    table,           chunks,
                                       partials.data(), steps,           0u};
    run_program(test_target::host, attention_partial(shape), part,
                attention_partial_grid(shape, steps, chunks));
  }
  std::vector<argument_slot> fold = {partials.data(), position.data(), count.data(),
                                     out.data(),      steps,           0u};
  run_program(test_target::host, attention_combine(shape), fold,
              attention_combine_grid(shape, steps));
  return hash_of(out.span());
}

TEST(reference_hashes, attention_through_pages) {
  EXPECT_EQ(attention_hash(1024, 64, true, false), reference_hash(80));
  EXPECT_EQ(attention_hash(1024, 64, false, true),
            reference_hash(80));  // 82: partials from elsewhere
  EXPECT_EQ(attention_hash(512, 128, false, false), reference_hash(83));
}

std::uint64_t norm_hash(std::uint32_t rows, std::uint32_t n, int warps) {
  activation_spec spec{.source = activation_source::rms_norm,
                       .k = n,
                       .input_stride = n,
                       .eps = 1e-5f,
                       .outputs = {.f32 = true},
                       .warps = warps};
  aligned_buffer<float> x(std::size_t{rows} * n), w(n), out(std::size_t{rows} * n);
  for (std::uint32_t i = 0; i < n; i++) w[i] = with_exponent(random_word(311, 0, i), -3, 1);
  for (std::uint32_t r = 0; r < rows; r++)
    for (std::uint32_t i = 0; i < n; i++)
      x[std::size_t{r} * n + i] = with_exponent(random_word(310, r, i), -10, 4);
  std::vector<argument_slot> arguments = {x.data(), w.data(), argument_slot(), argument_slot(),
                                          out.data()};
  run_program(test_target::host, activation(spec), arguments, activation_grid(spec, rows));
  return hash_of(out.span());
}

TEST(reference_hashes, norms_through_activation) {
  EXPECT_EQ(norm_hash(1024, 4096, 8), reference_hash(90));
  EXPECT_EQ(norm_hash(4096, 576, 4), reference_hash(91));
}

TEST(reference_hashes, silu_through_swiglu) {
  constexpr std::uint32_t k = 4096, rows = 1u << 12;
  activation_spec spec{.source = activation_source::swiglu,
                       .k = k,
                       .input_stride = 2 * k,
                       .up_offset = k,
                       .outputs = {.f32 = true},
                       .warps = 4};
  // One row of ones follows the gates: a stride of 0 is not offered, so `up` is each row's own
  // half.
  spec.input_stride = 2 * k;
  spec.up_offset = k;
  aligned_buffer<float> x(2 * k, 1.0f);
  std::vector<float> out(std::size_t{rows} * k);
  program p = activation(spec);
  for (std::uint32_t r = 0; r < rows; r++) {
    for (std::uint32_t i = 0; i < k; i++) {
      float unit = static_cast<float>(random_word(24, r * k + i, 0) >> 8) * 0x1p-23f - 1.0f;
      x[i] = unit * 200.0f;
    }
    std::vector<argument_slot> arguments = {x.data(), argument_slot(), argument_slot(),
                                            argument_slot(), &out[std::size_t{r} * k]};
    run_program(test_target::host, p, arguments, activation_grid(spec, 1));
  }
  EXPECT_EQ(hash_of(out), reference_hash(24));
}

// Each block as a row of its own.
std::uint64_t quantise_hash(std::uint32_t stream, std::uint32_t blocks, std::uint32_t n,
                            std::uint32_t exponent_word, std::uint32_t exponents, int lowest) {
  activation_spec spec{.source = activation_source::plain,
                       .k = n,
                       .input_stride = n,
                       .outputs = {.q8_by_32 = n == 32, .q8_by_256 = n == 256},
                       .warps = 1};
  program p = activation(spec);
  q8_row_layout layout(n, n);
  constexpr std::uint32_t batch = 1024;
  aligned_buffer<float> x(std::size_t{batch} * n);
  aligned_buffer<std::byte> q8(std::size_t{batch} * layout.tile_bytes);
  std::vector<std::uint32_t> words;
  for (std::uint32_t first = 0; first < blocks; first += batch) {
    for (std::uint32_t i = first; i < first + batch; i++) {
      int top = static_cast<int>(random_word(stream, i, exponent_word) % exponents) + lowest;
      for (std::uint32_t k = 0; k < n; k++)
        x[std::size_t{i - first} * n + k] =
            reference::sanit(with_exponent(random_word(stream, i, k), top - 8, top));
    }
    std::vector<argument_slot> arguments = {x.data(),        argument_slot(), q8.data(),
                                            argument_slot(), argument_slot(), q8.data()};
    run_program(test_target::host, p, arguments, activation_grid(spec, batch));
    for (std::uint32_t i = 0; i < batch; i++) {
      const std::byte* row = q8.data() + std::size_t{i} * layout.tile_bytes;
      std::uint32_t h;
      std::memcpy(&h, row + layout.scales_offset, 4);
      bool zero_block = h == 0;
      for (std::uint32_t k = 0; k < n && !zero_block; k++)
        h = reference::hash32(h ^ static_cast<std::uint32_t>(row[k])) + k;
      words.push_back(h);
    }
  }
  return contract_hash(words, false);
}

TEST(reference_hashes, quantised_rows_through_activation) {
  EXPECT_EQ(quantise_hash(260, 1048576, 32, 99, 40, -30), reference_hash(26));
  EXPECT_EQ(quantise_hash(261, 131072, 256, 999, 100, -70), reference_hash(27));
}

}  // namespace
}  // namespace terrane::kernels

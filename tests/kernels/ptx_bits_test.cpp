// What the PTX of a program computes, on a machine that runs the text on this CPU: the
// interpreter's bits. For devices with byte products only (sm_75) and with int8 tensor cores
// (sm_90).
#include <array>
#include <bit>
#include <cstring>

#include <gtest/gtest.h>

#include "kernels/contract/selftest.hpp"
#include "kernels/interp/interpreter.hpp"
#include "kernels/ptx/emit_ptx.hpp"
#include "tests/kernels/program_runner.hpp"
#include "tests/kernels/ptx_machine.hpp"
#include "tests/kernels/random_program.hpp"
#include "tests/kernels/real_kernels.hpp"
#include "tests/kernels/sample_programs.hpp"

namespace terrane::kernels {
namespace {

using buffer = aligned_buffer<std::uint32_t>;

void run_ptx(const program& p, unsigned sm, std::span<const std::uint64_t> arguments, grid g) {
  ptx_options options;
  options.sm = sm;
  result<std::string> text = emit_ptx(p, options);
  ASSERT_TRUE(text.has_value()) << text.error().message;
  ptx_machine machine(*text, p.warps, ptx_shared_bytes(p, options));
  ASSERT_EQ(machine.fault(), "") << p.name;
  machine.run(arguments, g.x, g.y);
  ASSERT_EQ(machine.fault(), "") << p.name;
}

// Equal bits; in floats any NaN is as good as another, because no target promises which it gives.
void expect_equal(std::span<const std::uint32_t> wanted, std::span<const std::uint32_t> got,
                  bool floats, const std::string& what) {
  auto is_nan = [](std::uint32_t w) { return (w & 0x7fffffffu) > 0x7f800000u; };
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < wanted.size(); k++) {
    if (wanted[k] == got[k] || (floats && is_nan(wanted[k]) && is_nan(got[k]))) continue;
    if (wrong++ < 3)
      ADD_FAILURE() << what << ", word " << k << ": " << std::hex << got[k] << " instead of "
                    << wanted[k];
  }
  EXPECT_EQ(wrong, 0u) << what;
}

class ptx_bits : public testing::TestWithParam<unsigned> {};

TEST_P(ptx_bits, of_every_instruction) {
  buffer input(samples::input_bytes / 4);
  std::vector<std::uint32_t> words = samples::input(1);
  std::copy(words.begin(), words.end(), input.data());
  const std::size_t count = samples::output_bytes / 4;
  for (const program& p : samples::all()) {
    std::array<buffer, 4> out = {buffer(count, 7), buffer(count, 7), buffer(count, 7),
                                 buffer(count, 7)};
    auto arguments = [&](std::size_t first) {
      std::vector<argument_slot> slots = {input.data(), out[first].data(), out[first + 1].data(),
                                          3u, std::bit_cast<std::uint32_t>(0.625f)};
      return argument_bits(slots);
    };
    interpret(p, arguments(0), samples::groups_x, samples::groups_y);
    run_ptx(p, GetParam(), arguments(2), {samples::groups_x, samples::groups_y});
    std::string what = p.name + ", " + std::to_string(p.warps) + " warps";
    expect_equal(out[0].span(), out[2].span(), false, what + ", integers");
    expect_equal(out[1].span(), out[3].span(), true, what + ", floats");
  }
}

TEST_P(ptx_bits, of_random_programs) {
  for (std::uint64_t seed = 0; seed < 40; seed++) {
    random_case c = make_random_case(seed);
    aligned_buffer<std::uint64_t> input(c.input.size() / 8 + 33), output(c.output_bytes / 8 + 1);
    auto at = (reinterpret_cast<std::uintptr_t>(input.data()) + 255) / 256 * 256;
    std::memcpy(reinterpret_cast<void*>(at), c.input.data(), c.input.size());
    std::memset(output.data(), static_cast<int>(output_fill), 8 * output.size());
    std::uint64_t table = at;
    std::vector<std::uint64_t> arguments(max_arguments);
    auto given = c.arguments(at, reinterpret_cast<std::uint64_t>(output.data()),
                             reinterpret_cast<std::uint64_t>(&table));
    std::copy(given.begin(), given.end(), arguments.begin());
    run_ptx(c.code, GetParam(), arguments, {c.groups_x, c.groups_y});
    EXPECT_EQ(std::memcmp(interpreted_output(c).data(), output.data(), c.output_bytes), 0)
        << "seed " << seed;
  }
}

TEST_P(ptx_bits, of_the_numeric_contract) {
  auto run = [](const program& p, grid groups, std::span<const std::uint32_t> input,
                std::span<std::uint32_t> output) -> result<void> {
    buffer in(input.size() + 1), out(output.size());
    std::copy(input.begin(), input.end(), in.data());
    std::vector<argument_slot> slots = {out.data(), in.data()};
    run_ptx(p, GetParam(), argument_bits(slots), groups);
    std::copy(out.span().begin(), out.span().end(), output.begin());
    return {};
  };
  if (GetParam() != 90) GTEST_SKIP() << "once is enough: no check holds a tile";
  result<void> checked = check_contract(run);
  EXPECT_TRUE(checked.has_value()) << checked.error().message;
}

// Floats between 2^-6 and 2, either sign; as bytes, noise; as f16, finite.
void fill_with_noise(std::span<std::uint32_t> words, std::uint64_t& state) {
  for (std::uint32_t& w : words) {
    auto bits = static_cast<std::uint32_t>(next_random(state));
    w = (bits & 0x807fbfffu) | (0x79u + bits % 6) << 23;
  }
}

TEST_P(ptx_bits, of_matrices_in_every_format) {
  struct shape {
    std::uint32_t columns;
    int warps;
  };
  std::vector<shape> shapes = {{1, 2}, {4, 1}};
  if (GetParam() >= 80) shapes = {{1, 1}, {8, 2}, {16, 1}};
  std::uint64_t state = 1;
  buffer rows(1u << 16), halves(1u << 16), weights(1u << 16), residual(1u << 12);
  for (buffer* b : {&rows, &halves, &weights, &residual}) fill_with_noise(b->span(), state);
  for (std::uint32_t& w : halves.span()) w &= 0xffffe000u;  // what an f16 holds
  for (const weight_format* format : weight_formats())
    for (shape s : shapes) {
      linear_spec spec;
      spec.k = 512;
      spec.matrices = {{format, 32, 0}, {format, 32, 32}};
      spec.output_stride = 64;
      spec.add_residual = true;
      spec.columns = s.columns;
      spec.warps = s.warps;
      program p = linear(spec);
      grid g = linear_grid(spec, 16);
      buffer wanted(1u << 11, 7), got(1u << 11, 7);
      auto arguments = [&](buffer& out) {
        std::vector<argument_slot> slots = {
            rows.data(),    halves.data(),         rows.data(), out.data(), residual.data(),
            weights.data(), weights.data() + 8192, 0u,          rows.data()};
        return argument_bits(slots);
      };
      interpret(p, arguments(wanted), g.x, g.y);
      run_ptx(p, GetParam(), arguments(got), g);
      expect_equal(wanted.span(), got.span(), true,
                   std::string(format->name) + " by " + std::to_string(s.columns));
    }
}

INSTANTIATE_TEST_SUITE_P(devices, ptx_bits, testing::Values(75u, 90u),
                         [](const testing::TestParamInfo<unsigned>& which) {
                           return "sm_" + std::to_string(which.param);
                         });

}  // namespace
}  // namespace terrane::kernels

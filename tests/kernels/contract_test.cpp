// The numeric contract: every operation of its reference table gives the reference hash, through
// the interpreter at the quick count, through the host's machine code at the full one; the RoPE
// tables and the host's scalars too.
#include <bit>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "kernels/contract/generator.hpp"
#include "kernels/contract/host.hpp"
#include "kernels/contract/rope_table.hpp"
#include "kernels/contract/scalars.hpp"
#include "kernels/contract/selftest.hpp"
#include "tests/kernels/program_runner.hpp"

namespace terrane::kernels {
namespace {

std::uint64_t hash_of(test_target target, const contract_check& check,
                      const contract_extent& extent) {
  std::vector<std::uint32_t> words(check.words(extent)), input = contract_input(check);
  std::vector<argument_slot> arguments = {words.data(), input.data()};
  run_program(target, check.make(), arguments, check.groups(extent));
  return contract_hash(words, check.floats);
}

TEST(contract, every_operation_gives_its_quick_hash_on_every_target) {
  for (test_target target : test_targets())
    for (const contract_check& check : contract_checks())
      EXPECT_EQ(hash_of(target, check, check.quick), check.quick.hash) << check.op << check.name;
}

TEST(contract, every_operation_gives_the_reference_hash_on_the_host) {
  if (test_targets().back() == test_target::interpreter)
    GTEST_SKIP() << "too slow for the interpreter";
  for (const contract_check& check : contract_checks())
    EXPECT_EQ(hash_of(test_targets().back(), check, check.full), check.full.hash)
        << check.op << check.name;
}

TEST(contract, a_device_that_computes_otherwise_is_named_with_its_operation) {
  auto run = [](const program& p, grid groups, std::span<const std::uint32_t> input,
                std::span<std::uint32_t> output) -> result<void> {
    std::vector<argument_slot> arguments = {output.data(), input.data()};
    run_program(test_target::interpreter, p, arguments, groups);
    if (p.name == "check_store_rule") output[77] ^= 1u;  // the device rounds one word otherwise
    return {};
  };
  result<void> r = check_contract(run);
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(r.error().code, error_code::contract);
  EXPECT_NE(r.error().message.find("store rule"), std::string::npos) << r.error().message;
}

TEST(contract, errors_of_the_device_pass_through) {
  auto run = [](const program&, grid, std::span<const std::uint32_t>,
                std::span<std::uint32_t>) -> result<void> {
    return fail(error_code::device_fault, "gone");
  };
  result<void> r = check_contract(run);
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(r.error().code, error_code::device_fault);
}

std::uint64_t table_hash(const rope_parameters& parameters) {
  std::vector<std::uint32_t> positions, words;
  for (std::uint32_t k = 0; k < 4096; k++)
    positions.push_back(k < 2048 ? k : 2047 + (k - 2047) * 509);
  for (float x : rope_table(parameters, positions))
    words.push_back(std::bit_cast<std::uint32_t>(x));
  return contract_hash(words, true);
}

rope_parameters rope(double theta, std::uint32_t rotated) {
  rope_parameters p;
  p.theta = theta;
  p.rotated = rotated;
  return p;
}

TEST(rope_table, gives_the_reference_hashes) {
  EXPECT_EQ(table_hash(rope(1e4, 128)), 0xecc9d6046d33f195u);
  EXPECT_EQ(table_hash(rope(5e5, 128)), 0xb2acb71e24cee8c0u);
  EXPECT_EQ(table_hash(rope(1e6, 128)), 0xfc168eb318573167u);
  EXPECT_EQ(table_hash(rope(1e4, 80)), 0xa86b5d3b335b916cu);
  rope_parameters llama3 = rope(5e5, 128);
  llama3.llama3 = rope_llama3_rule{};
  EXPECT_EQ(table_hash(llama3), 0x2e1862402d9072cbu);
  // The same stretch given as a file's f32 factors.
  rope_parameters factors = rope(5e5, 128);
  std::vector<double> plain = rope_frequencies(factors), slow = rope_frequencies(llama3);
  for (std::size_t i = 0; i < plain.size(); i++)
    factors.factors.push_back(static_cast<float>(plain[i] / slow[i]));
  EXPECT_EQ(table_hash(factors), 0x8cc83be333a77bb7u);
}

TEST(rope_table, follows_the_factors_of_a_file_and_linear_scaling) {
  rope_parameters plain = rope(1e4, 8), factors = plain, linear = plain;
  factors.factors = {2, 2, 2, 2};
  linear.linear_factor = 2;
  std::vector<float> a = rope_table(plain, 64), b = rope_table(factors, 128);
  EXPECT_EQ(b, rope_table(linear, 128));
  for (std::uint32_t p = 0; p < 64; p++)
    for (std::uint32_t i = 0; i < 8; i++)
      EXPECT_EQ(a[p * 8 + i], b[2 * p * 8 + i]) << p << " " << i;
  for (std::uint32_t i = 0; i < 8; i += 2) {
    EXPECT_EQ(a[i], 1.0f);
    EXPECT_EQ(a[i + 1], 0.0f);
    EXPECT_NEAR(a[5 * 8 + i], std::cos(5 * std::pow(1e4, -static_cast<double>(i) / 8)), 1e-6);
  }
}

TEST(host_scalars, equal_the_kernels) {
  auto body = [](builder& b, val i) {
    val x = contract::with_exponent(contract::random_word(1, i, 0), -30, 8);
    return b.select(eq(i & b.i32(1), b.i32(0)), contract::exp(x), contract::rcp(x));
  };
  auto input = [](builder&, val i) {
    return contract::with_exponent(contract::random_word(1, i, 0), -30, 8);
  };
  std::vector<float> out(32768), x(32768);
  std::vector<argument_slot> to_out = {out.data()}, to_x = {x.data()};
  run_program(test_target::interpreter, contract::word_per_lane("scalars", body), to_out,
              {1024, 1});
  run_program(test_target::interpreter, contract::word_per_lane("inputs", input), to_x, {1024, 1});
  for (std::size_t i = 0; i < out.size(); i++) {
    float expected = i % 2 == 0 ? contract::exp(x[i]) : contract::rcp(x[i]);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(expected)) << x[i];
  }
  EXPECT_EQ(contract::exp(0.0f), 1.0f);
  EXPECT_EQ(contract::exp(-0.0f), 1.0f);
}

}  // namespace
}  // namespace terrane::kernels

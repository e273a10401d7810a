#include "kernels/contract/selftest.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "kernels/contract/generator.hpp"
#include "kernels/contract/rope_table.hpp"
#include "kernels/contract/selftest_programs.hpp"
#include "kernels/mix_bits.hpp"

namespace terrane::kernels {

namespace {

using namespace contract;

constexpr std::uint32_t all = 1u << 24, some = 1u << 16;
constexpr bool floats = true, integers = false, lane_each = false, group_each = true;

// clang-format off
constexpr std::array checks = {
  contract_check{1, "multiply", floats, 1, lane_each,
                 {all, 0x5f2503cb94b5a578}, {some, 0x027f9500bfe3f179}, check_multiply},
  contract_check{2, "add", floats, 1, lane_each,
                 {all, 0x9ec2282494391417}, {some, 0x1ef32c6eaf631769}, check_add},
  contract_check{3, "multiply then add", floats, 1, lane_each,
                 {all, 0xe842acf81d734d02}, {some, 0x0b3533efedda3917}, check_multiply_add},
  contract_check{4, "store rule", floats, 1, lane_each,
                 {all, 0x137d47b237af2091}, {some, 0x2f70d0c53a94a056}, check_store_rule},
  contract_check{10, "f32 to f16", integers, 1, lane_each,
                 {all, 0x24ef5824562e835b}, {some, 0x7b104ed36a780479}, check_f32_to_f16},
  contract_check{12, "f16 to f32, every half", floats, 1, lane_each,
                 {65536, 0xe76dd893fa9ed78f}, {some, 0xe76dd893fa9ed78f}, check_f16_to_f32},
  contract_check{14, "round to integral", floats, 1, lane_each,
                 {all, 0x71351e8f7ff03af6}, {some, 0x5afc735d87146c75}, check_round_integral},
  contract_check{16, "round to int", integers, 1, lane_each,
                 {all, 0x21a85a0f29ceeb9f}, {some, 0x151e26c2ff73538e}, check_round_to_int},
  contract_check{17, "int8 dot4, written out", integers, 1, lane_each,
                 {all, 0x6aa98de232586875}, {some, 0xc227c8d8c8be4c8f}, check_dot4_written_out},
  contract_check{18, "int8 dot4, the instruction", integers, 1, lane_each,
                 {all, 0x6aa98de232586875}, {some, 0xc227c8d8c8be4c8f}, check_dot4},
  contract_check{19, "exp", floats, 1, lane_each,
                 {all, 0xe6369af571d4fc60}, {some, 0x6cdeaa14723b9ec8}, check_exp},
  contract_check{21, "rcp, 2^-60..2^60", floats, 1, lane_each,
                 {all, 0x8ce5115bc8980862}, {some, 0x17e0d9cffccdb2ef}, check_rcp},
  contract_check{22, "rsqrt, 2^-60..2^60", floats, 1, lane_each,
                 {all, 0x82a97804bda16f8c}, {some, 0x040eb4b841d72eb0}, check_rsqrt},
  contract_check{23, "rcp, 2^-100..2^100", floats, 1, lane_each,
                 {all, 0x66c7ae1a2bb6e7fe}, {some, 0x6771460f3e7050bd}, check_rcp_wide},
  contract_check{24, "silu", floats, 1, lane_each,
                 {all, 0x367291c462147f74}, {some, 0x34069730c201c6bd}, check_silu},
  contract_check{25, "rsqrt, 2^-100..2^100", floats, 1, lane_each,
                 {all, 0xe406da68280d74a8}, {some, 0x288b5bc0b3ac6828}, check_rsqrt_wide},
  contract_check{26, "quantise, block 32", integers, 1, lane_each,
                 {1048576, 0xfe0547cdb13a4897}, {16384, 0x321504048a737b00}, check_quantise_32},
  contract_check{27, "quantise, block 256", integers, 1, lane_each,
                 {131072, 0x3c2d9b0cc526d0f2}, {2048, 0xa5752c59f9bdb7da}, check_quantise_256},
  contract_check{33, "int to f32, below 2^24", floats, 1, lane_each,
                 {all, 0xef11852cca9407bc}, {some, 0x76185a87a260f20f}, check_int_to_float_small},
  contract_check{34, "int to f32, the instruction", floats, 1, lane_each,
                 {all, 0xbfcca20ff9f0370f}, {some, 0xe08c2042946e5927}, check_int_to_float},
  contract_check{35, "int to f32, from halves", floats, 1, lane_each,
                 {all, 0xbfcca20ff9f0370f}, {some, 0xe08c2042946e5927}, check_int_to_float_halves},
  contract_check{36, "sigmoid", floats, 1, lane_each,
                 {all, 0xebb364a3681ed3d4}, {some, 0xdef71ddb05af8dfe}, check_sigmoid},
  contract_check{37, "tanh", floats, 1, lane_each,
                 {all, 0xed89f4c06fb09564}, {some, 0x2b9e4c5561716823}, check_tanh},
  contract_check{38, "gelu", floats, 1, lane_each,
                 {all, 0x56a119dc209dd2b1}, {some, 0xf5246d2b91acec50}, check_gelu},
  contract_check{39, "softmax of 128", integers, 1, lane_each,
                 {65536, 0x53fee140cfb86ee3}, {1024, 0x510ef76c32464b05}, check_softmax},
  contract_check{40, "attention fold", floats, 1, lane_each,
                 {1048576, 0x3248bfa7a6ccff19}, {16384, 0xeafc36b6b09a3a42}, check_attention_fold},
  contract_check{60, "Q8_0 row, K 1024", floats, 1, lane_each,
                 {262144, 0x6ff49d97b0592ca7}, {4096, 0xaf128bbcbbdaf432}, check_q8_0_row},
  contract_check{61, "Q4_0 row, K 1024", floats, 1, lane_each,
                 {262144, 0x12363d99e7045c0a}, {4096, 0x08c5ed6d9c072f88}, check_q4_0_row},
  contract_check{62, "Q4_1 row, K 1024", floats, 1, lane_each,
                 {262144, 0xd9bf6563b6d67349}, {4096, 0xbb53a801192e5b5a}, check_q4_1_row},
  contract_check{64, "Q4_K row, K 1024", floats, 1, lane_each,
                 {262144, 0x2b67a65a0f617657}, {4096, 0x20a6916259efb8f1}, check_q4_k_row},
  contract_check{65, "Q5_K row, K 1024", floats, 1, lane_each,
                 {262144, 0x110bb55daef86f19}, {4096, 0x5f2dac6c32e261c4}, check_q5_k_row},
  contract_check{66, "Q6_K row, K 1024", floats, 1, lane_each,
                 {262144, 0x129f83e59e900aa4}, {4096, 0xbefed756d762f614}, check_q6_k_row},
  contract_check{67, "F16 row, K 1024", floats, 1, lane_each,
                 {65536, 0xf1f07accdca02913}, {1024, 0xbea89ff09b66527f}, check_f16_row},
  contract_check{68, "F16 row, K 1024, fused", floats, 1, lane_each,
                 {65536, 0xf1f07accdca02913}, {1024, 0xbea89ff09b66527f}, check_f16_row_fused},
  contract_check{69, "BF16 row, K 1024", floats, 1, lane_each,
                 {65536, 0xce37345cb55c6bcb}, {1024, 0x3cda344c3fb92838}, check_bf16_row},
  contract_check{70, "Q8_0 row, K 576", floats, 1, lane_each,
                 {262144, 0x48eea37e307b5a9c}, {4096, 0xb2673cf5a02866ac}, check_q8_0_short_row},
  contract_check{72, "Q4_1 row, K 576", floats, 1, lane_each,
                 {262144, 0x021664bf93a5ee2b}, {4096, 0xe59d03dc80bc9de3}, check_q4_1_short_row},
  contract_check{80, "attention, D 64, 593 keys", floats, 64, group_each,
                 {1024, 0x829cb4dbc0dc4be1}, {16, 0xf8f6d939de6abb52}, check_attention_64},
  contract_check{83, "attention, D 128, 1..593 keys", floats, 128, group_each,
                 {512, 0x8ac3c453f94d57e8}, {16, 0x71045cc6d3bb704f}, check_attention_128},
  contract_check{90, "RMS norm, n 4096", floats, 4096, group_each,
                 {1024, 0x4fb05443024e2e52}, {32, 0x7445a3c993ee37f2}, check_norm_4096},
  contract_check{91, "RMS norm, n 576", floats, 576, group_each,
                 {4096, 0xddbf3ebd73f9628f}, {64, 0x893d7ec905d1f278}, check_norm_576},
  contract_check{92, "RMS norm, n 80", floats, 80, group_each,
                 {4096, 0xb7dfe211d298cdb2}, {64, 0xde90cc7ff687218f}, check_norm_80},
  contract_check{95, "RoPE rotation", floats, 2, lane_each,
                 {262144, 0x3cae7c6724cdc9a6}, {16384, 0x3756b344ead4bd72}, check_rotation},
};
// clang-format on

std::string hex(std::uint64_t h) {
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, h);
  return text;
}

}  // namespace

grid contract_check::groups(const contract_extent& extent) const {
  std::uint32_t count = group_per_input ? extent.inputs : extent.inputs / warp_lanes;
  std::uint32_t x = std::min(count, groups_in_x);
  return {x, count / x};
}

std::span<const contract_check> contract_checks() { return checks; }

std::vector<std::uint32_t> contract_input(const contract_check& check) {
  if (check.op != 95) return {};
  // Positions 0..2047 one by one, then 509 apart.
  std::vector<std::uint32_t> positions;
  for (std::uint32_t k = 0; k < 4096; k++)
    positions.push_back(k < 2048 ? k : 2047 + (k - 2047) * 509);
  rope_parameters parameters;
  parameters.theta = 500000;
  parameters.rotated = 128;
  parameters.llama3 = rope_llama3_rule{};
  std::vector<std::uint32_t> words;
  for (float x : rope_table(parameters, positions))
    words.push_back(std::bit_cast<std::uint32_t>(x));
  return words;
}

std::uint64_t contract_hash(std::span<const std::uint32_t> words, bool are_floats) {
  std::uint64_t sum = 0, index = 0;
  for (std::uint32_t w : words) {
    if (are_floats && (w & 0x7fffffffu) > 0x7f800000u) w = 0x7fc00000u;
    sum += mix_bits(w + ++index * 0x9e3779b97f4a7c15u);
  }
  return sum;
}

result<void> check_contract(const contract_runner& run) {
  for (const contract_check& check : checks) {
    std::vector<std::uint32_t> words(check.words(check.quick));
    result<void> ran = run(check.make(), check.groups(check.quick), contract_input(check), words);
    if (!ran) return ran;
    std::uint64_t hash = contract_hash(words, check.floats);
    if (hash != check.quick.hash) {
      return fail(error_code::contract,
                  "operation " + std::to_string(check.op) + " of the numeric contract (" +
                      check.name + ") gave hash " + hex(hash) + ", not " + hex(check.quick.hash) +
                      ": this device and driver round otherwise, so no part of a model may be "
                      "placed there");
    }
  }
  return {};
}

}  // namespace terrane::kernels

// The self-test of the numeric contract: small programs that make their own inputs, compute one
// operation of the contract each and give words whose hash is known. A device whose hash differs
// does not compute what the contract says and must not hold a part of a model.
//
// The numbers of the operations, their inputs and the hashes of the full counts are those of the
// contract's reference table; the quick counts are for opening a device. Pure data and functions;
// any thread. The RoPE tables of the reference (96 to 101) are host code: see rope_table.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/lang/program.hpp"
#include "kernels/ops/ops.hpp"

namespace terrane::kernels {

// How many inputs of an operation are computed, and the hash of the words that they give.
struct contract_extent {
  std::uint32_t inputs = 0;
  std::uint64_t hash = 0;
};

struct contract_check {
  int op = 0;                         // number in the reference table
  const char* name = "";              // for messages: "exp"
  bool floats = true;                 // the words are f32, all NaN alike
  std::uint32_t words_per_input = 1;  // word w of input i stands at i * words_per_input + w
  bool group_per_input = false;       // a workgroup an input, else a lane an input
  contract_extent full, quick;
  // The program. 0: out, u32 words  1: contract_input(), where there is one
  program (*make)() = nullptr;

  std::size_t words(const contract_extent& extent) const {
    return std::size_t{extent.inputs} * words_per_input;
  }
  grid groups(const contract_extent& extent) const;
};

std::span<const contract_check> contract_checks();

// What the program reads besides its own inputs: the RoPE table of operation 95; else empty.
std::vector<std::uint32_t> contract_input(const contract_check& check);

// The hash that a check gives for its words, in their order; of floats, every NaN counts as the
// same.
std::uint64_t contract_hash(std::span<const std::uint32_t> words, bool floats);

// Runs a program on a device: copies `input` there (if not empty), runs, copies `output` back.
using contract_runner =
    std::function<result<void>(const program& p, grid groups, std::span<const std::uint32_t> input,
                               std::span<std::uint32_t> output)>;

// Runs every check's quick extent. An error of code `contract` names the operation, what it gave
// and what is right; errors of the runner pass through.
result<void> check_contract(const contract_runner& run);

}  // namespace terrane::kernels

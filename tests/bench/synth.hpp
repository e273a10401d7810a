// Makes a GGUF model of a published shape with random weights, for benches and tests that need a
// model's size and structure but not its knowledge: nothing is downloaded, and one seed gives the
// same file on every machine. Weights are about N(0, 1/sqrt(K)) and norms about 1, so activations
// stay finite and of order 1.
//
// Shapes: llama-3.2-1b, llama-3.2-3b, llama-3.1-8b as published; tiny (3 layers, K = 576 and 1504,
// so with a short last segment and no K-quants, 515 tokens, tied) and tiny-k (2 layers, K a
// multiple of 256, so with K-quants, 517 tokens, not tied), tiny-gemma3 (3 layers, the first and
// last with a window of 100 keys). Quantisations: every weight format (kernels/formats), which is
// then the format of every matrix; Q4_K_M mixes Q4_K and Q6_K as llama.cpp does. Where a row is not
// a multiple of 256, Q2_K and Q3_K become Q4_0, Q4_K Q5_0, Q5_K Q5_1, Q6_K Q8_0 and IQ4_XS IQ4_NL,
// as there. Stateless; may be called from any thread, and uses all cores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "kernels/result.hpp"

namespace terrane::bench {

std::span<const std::string_view> synth_shapes();
std::span<const std::string_view> synth_quants();

// Told of the bytes of tensor data made so far and in all; from one thread at a time, rising.
using synth_progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// Writes the model to `path`, which is replaced only when the whole file is there. Errors:
// invalid_input for an unknown shape or quantisation, naming the known ones; io.
result<void> synthesize(std::string_view shape, std::string_view quant,
                        const std::filesystem::path& path, std::uint64_t seed,
                        const synth_progress& progress = {});

}  // namespace terrane::bench

// Tiny models for tests: made once a process, in a folder that goes with it. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/bench_model.hpp"

namespace terrane::test {

// Where models of this process lie.
const std::filesystem::path& test_folder();

// A synthetic model's file: shape "tiny" (K = 576) or "tiny-k" (K-quants).
std::string tiny_model(const std::string& shape, const std::string& quant);

// A copy of `file` with a byte changed at `offset` of the data of `tensor`.
std::string with_bytes(const std::string& file, const std::string& tensor, std::size_t offset,
                       const std::vector<unsigned char>& bytes);

// A copy of `file` whose header gives a matrix another shape (columns, rows), its data as it was.
std::string with_shape(const std::string& file, const std::string& tensor,
                       const std::array<std::uint64_t, 2>& shape);

// The CPU and, where there is one, a Vulkan device; else a second CPU, so that moves are always
// tested.
std::vector<std::string> two_devices();
bool has_vulkan();

// Such tokens as a prompt, and so many of a reply, each with the hash of its logits.
engine::generate_request request(const engine::inference_engine& e, std::size_t prompt,
                                 std::uint32_t tokens);

// An engine on the tiny model and two CPUs, all on the first. `second` makes a device of the test's
// of the other.
std::unique_ptr<engine::inference_engine> engine_on_two_cpus(
    const std::function<std::unique_ptr<engine::device>(std::unique_ptr<engine::device>)>& second,
    engine::engine_options options = {});

// An engine on the tiny model, all on the first device.
std::unique_ptr<engine::inference_engine> tiny_engine(const std::string& shape = "tiny",
                                                      const std::string& quant = "Q4_1",
                                                      std::uint32_t context_tokens = 512);

}  // namespace terrane::test

// SPIR-V modules are valid and keep the numeric contract's form. What they compute is compared with
// the interpreter in tests/engine/device_vulkan_test.cpp.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>
#include <unistd.h>

#include "kernels/formats/format.hpp"
#include "kernels/ops/ops.hpp"
#include "kernels/spirv/emit_spirv.hpp"
#include "tests/kernels/random_program.hpp"
#include "tests/kernels/real_kernels.hpp"
#include "tests/kernels/sample_programs.hpp"
#include "tests/kernels/spirv_scan.hpp"

namespace terrane::kernels {
namespace {

namespace fs = std::filesystem;

// Every way a device may make the emitter go.
std::vector<spirv_options> every_way() {
  std::vector<spirv_options> ways(5);
  ways[1].subgroup_lanes = 8;
  ways[1].lavapipe = true;
  ways[1].short_distances = true;
  ways[1].float_controls = true;
  ways[2].subgroup_lanes = 32;
  ways[2].integer_dot = true;
  ways[2].float_controls = true;
  ways[2].fuse_exact = true;
  ways[2].unpack_half = true;
  ways[2].load_early = true;
  ways[3].subgroup_lanes = 64;
  ways[3].short_distances = true;
  ways[4].subgroup_lanes = 16;
  ways[4].integer_dot = true;
  return ways;
}

class module_folder {
 public:
  module_folder()
      : path_(fs::temp_directory_path() / ("terrane_spirv_" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~module_folder() { fs::remove_all(path_); }
  std::string write(const std::vector<std::uint32_t>& module, std::size_t number) const {
    fs::path file = path_ / (std::to_string(number) + ".spv");
    std::ofstream out(file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(module.data()),
              static_cast<std::streamsize>(4 * module.size()));
    return file.string();
  }

 private:
  fs::path path_;
};

TEST(spirv, modules_pass_the_validator) {
  if (std::system("spirv-val --version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "spirv-val is not installed (package spirv-tools)";
  module_folder folder;
  std::size_t number = 0;
  auto validate = [&](const program& p, const spirv_options& way) {
    std::string file = folder.write(emit_spirv(p, way), number++);
    std::string command = "spirv-val --target-env vulkan1.2 " + file;
    EXPECT_EQ(std::system(command.c_str()), 0)
        << p.name << ", " << p.warps << " warps, subgroups of " << way.subgroup_lanes;
  };
  const std::vector<spirv_options> ways = every_way();
  for (const spirv_options& way : ways)
    for (const program& p : samples::all()) validate(p, way);
  // The rest in one way each, in turn: a process a module takes its time.
  for (const program& p : real_kernels()) validate(p, ways[number % ways.size()]);
  for (std::uint64_t seed = 0; seed < 40; seed++)
    validate(make_random_case(seed).code, ways[seed % ways.size()]);
}

TEST(spirv, every_float_operation_is_protected) {
  std::size_t operations = 0;
  auto scan = [&](const std::vector<program>& programs) {
    for (const spirv_options& way : every_way())
      for (const program& p : programs) {
        spirv_findings found = scan_spirv(emit_spirv(p, way));
        EXPECT_TRUE(found.faults.empty()) << p.name << ": " << found.faults.front();
        operations += found.float_operations;
      }
  };
  scan(samples::all());
  EXPECT_GT(operations, 1000u);
  scan(real_kernels());
}

TEST(spirv, the_scan_finds_a_missing_decoration) {
  std::vector<std::uint32_t> module = emit_spirv(samples::floats(1), {});
  for (std::size_t at = 5; at < module.size(); at += module[at] >> 16)
    if ((module[at] & 0xffffu) == static_cast<std::uint32_t>(spv::Op::OpDecorate) &&
        module[at + 2] == static_cast<std::uint32_t>(spv::Decoration::NoContraction)) {
      module[at + 2] = static_cast<std::uint32_t>(spv::Decoration::RelaxedPrecision);
      break;
    }
  EXPECT_EQ(scan_spirv(module).faults.size(), 1u);
}

TEST(spirv, float_controls_are_declared_where_offered) {
  auto declares = [](const std::vector<std::uint32_t>& module, spv::ExecutionMode mode) {
    for (std::size_t at = 5; at < module.size(); at += module[at] >> 16)
      if ((module[at] & 0xffffu) == static_cast<std::uint32_t>(spv::Op::OpExecutionMode) &&
          module[at + 2] == static_cast<std::uint32_t>(mode) && module[at + 3] == 32)
        return true;
    return false;
  };
  spirv_options with;
  with.float_controls = true;
  for (spv::ExecutionMode mode :
       {spv::ExecutionMode::RoundingModeRTE, spv::ExecutionMode::SignedZeroInfNanPreserve}) {
    EXPECT_TRUE(declares(emit_spirv(samples::floats(1), with), mode));
    EXPECT_FALSE(declares(emit_spirv(samples::floats(1), {}), mode));
  }
}

// Vectors of so many words that a module loads from global memory.
std::size_t vector_loads(const std::vector<std::uint32_t>& module, std::uint32_t words) {
  std::map<std::uint32_t, std::uint32_t> components;  // by type
  std::size_t loads = 0;
  for (std::size_t at = 5; at < module.size(); at += module[at] >> 16) {
    const auto op = static_cast<spv::Op>(module[at] & 0xffffu);
    if (op == spv::Op::OpTypeVector) components[module[at + 1]] = module[at + 3];
    if (op == spv::Op::OpLoad) loads += components[module[at + 1]] == words;
  }
  return loads;
}

TEST(spirv, words_are_loaded_together_as_they_are_aligned) {
  const auto module_of = [](std::int64_t bytes, int words) {
    builder b("words", 1);
    const vals loaded = b.load_words(b.offset(b.argument_ptr(0), bytes), words);
    b.store(memory_type::i32, b.argument_ptr(1), loaded.back());
    return emit_spirv(b.finish(), {});
  };
  EXPECT_EQ(vector_loads(module_of(16, 8), 4), 2U);
  EXPECT_EQ(vector_loads(module_of(8, 8), 4), 0U);
  EXPECT_EQ(vector_loads(module_of(8, 8), 2), 4U);
  EXPECT_EQ(vector_loads(module_of(16, 7), 4), 1U);
  EXPECT_EQ(vector_loads(module_of(16, 7), 2), 1U);
  EXPECT_EQ(vector_loads(module_of(4, 8), 4) + vector_loads(module_of(4, 8), 2), 0U);
}

// An address from a table leads to what is as aligned as an argument.
TEST(spirv, words_behind_a_table_are_loaded_together) {
  builder b("table", 1);
  const val page = b.load(memory_type::ptr, b.argument_ptr(0));
  b.store(memory_type::i32, b.argument_ptr(1), b.load_words(page, 4).back());
  EXPECT_EQ(vector_loads(emit_spirv(b.finish(), {}), 4), 1U);
}

// A matrix of K = 512 (two segments).
std::vector<std::uint32_t> matrix_module(std::uint32_t ggml_type, std::uint32_t columns,
                                         bool early) {
  linear_spec spec;
  spec.k = 512;
  spec.output_stride = 32;
  spec.matrices = {{find_weight_format(ggml_type), 32, 0}};
  spec.columns = columns;
  spec.warps = 2;
  spirv_options way;
  way.subgroup_lanes = 32;
  way.integer_dot = true;
  way.load_early = early;
  return emit_spirv(linear(spec), way);
}

// Loads of four words before the first product.
std::size_t loads_in_front(std::uint32_t ggml_type, std::uint32_t columns, bool early) {
  std::vector<std::uint32_t> module = matrix_module(ggml_type, columns, early);
  for (std::size_t at = 5; at < module.size(); at += module[at] >> 16) {
    const auto op = static_cast<spv::Op>(module[at] & 0xffffu);
    if (op != spv::Op::OpSDot && op != spv::Op::OpSUDot) continue;
    module.resize(at);
    break;
  }
  return vector_loads(module, 4);
}

// A segment of Q4_K is one load of scales and eight of weights, one of Q6_K one and twelve; those
// of activations come with the products.
TEST(spirv, weights_are_loaded_before_the_first_product) {
  constexpr std::uint32_t q4_k = 12, q6_k = 14;
  EXPECT_GE(loads_in_front(q4_k, 1, true), 9U);
  EXPECT_LT(loads_in_front(q4_k, 1, false), 9U);
  EXPECT_GE(loads_in_front(q6_k, 1, true), 13U);
  EXPECT_LT(loads_in_front(q6_k, 1, false), 13U);
  EXPECT_EQ(loads_in_front(q4_k, 8, true), loads_in_front(q4_k, 8, false))
      << "many columns need the registers";
}

// A load in front of the products asks for all of a segment's activations; its first word is used.
TEST(spirv, activations_are_asked_for_beside_the_weights) {
  constexpr std::uint32_t q8_0 = 8, q4_k = 12, q6_k = 14;
  const auto count_of = [](spv::Op op, const std::vector<std::uint32_t>& module) {
    std::size_t count = 0;
    for (std::size_t at = 5; at < module.size(); at += module[at] >> 16)
      if (static_cast<spv::Op>(module[at] & 0xffffu) == op) count++;
    return count;
  };
  const auto shuffles = [&](std::uint32_t type, std::uint32_t columns, bool early) {
    return count_of(spv::Op::OpGroupNonUniformShuffle, matrix_module(type, columns, early));
  };
  // Lanes of which each asks for something that lies elsewhere.
  const auto apart = [&](std::uint32_t type) {
    return count_of(spv::Op::OpIEqual, matrix_module(type, 1, true)) -
           count_of(spv::Op::OpIEqual, matrix_module(type, 1, false));
  };
  EXPECT_EQ(apart(q8_0), 2U) << "scales and sums";
  EXPECT_EQ(apart(q4_k), 3U) << "the scale, low and high bytes of sums";
  for (std::uint32_t type : {q8_0, q4_k, q6_k}) EXPECT_EQ(shuffles(type, 1, true), 1U) << type;
  EXPECT_EQ(shuffles(q4_k, 2, true), 1U);
  EXPECT_EQ(shuffles(q4_k, 1, false), 0U);
  EXPECT_EQ(shuffles(q4_k, 8, true), 0U) << "many columns need the registers";
}

TEST(spirv, a_reduction_takes_scratch_only_where_lanes_cannot_shuffle) {
  spirv_options whole;
  whole.subgroup_lanes = 32;
  EXPECT_EQ(spirv_shared_bytes(samples::reductions(2), whole), 0u);
  EXPECT_EQ(spirv_shared_bytes(samples::reductions(2), {}), 4u * 2 * 64);
  EXPECT_EQ(spirv_shared_bytes(samples::integers(2), {}), 0u);
}

}  // namespace
}  // namespace terrane::kernels

// Every program becomes PTX that keeps the numeric contract's form and that ptxas, where it is
// installed, assembles for each kind of device. What it computes is compared with the interpreter
// in tests/engine, on a device.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "kernels/ptx/emit_ptx.hpp"
#include "tests/kernels/ptx_scan.hpp"
#include "tests/kernels/random_program.hpp"
#include "tests/kernels/real_kernels.hpp"
#include "tests/kernels/sample_programs.hpp"

namespace terrane::kernels {
namespace {

namespace fs = std::filesystem;

std::string ptx_of(const program& p, unsigned sm) {
  ptx_options options;
  options.sm = sm;
  result<std::string> text = emit_ptx(p, options);
  EXPECT_TRUE(text.has_value()) << p.name << ": " << text.error().message;
  return text.value_or("");
}

// The path of ptxas, or "".
std::string assembler() {
  for (const char* path : {"ptxas", "/usr/local/cuda/bin/ptxas"})
    if (std::system((std::string(path) + " --version > /dev/null 2>&1").c_str()) == 0) return path;
  return "";
}

// Kernels of many programs as one text, so that one process assembles them all.
class ptx_collection {
 public:
  void add(std::string text) {
    std::string number = std::to_string(count_++);
    replace(text, ptx_entry, "kernel_" + number + "_");
    replace(text, "shared_words", "shared_" + number);
    std::size_t body = text.find(".address_size");
    body = text.find('\n', body) + 1;
    text_ += count_ == 1 ? text : text.substr(body);
  }
  const std::string& text() const { return text_; }

 private:
  static void replace(std::string& text, const std::string& from, const std::string& to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }
  std::string text_;
  std::size_t count_ = 0;
};

class assembly_folder {
 public:
  assembly_folder()
      : path_(fs::temp_directory_path() / ("terrane_ptx_" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~assembly_folder() { fs::remove_all(path_); }

  // What ptxas says against a text; "" if it assembles it.
  std::string assemble(const std::string& ptxas, const std::string& text,
                       const std::string& target) const {
    std::ofstream(path_ / "text.ptx") << text;
    std::string command = ptxas + " -O1 -arch=" + target + " -o " + (path_ / "code").string() +
                          " " + (path_ / "text.ptx").string() + " > " +
                          (path_ / "messages").string() + " 2>&1";
    if (std::system(command.c_str()) == 0) return "";
    std::ifstream in(path_ / "messages");
    std::string messages((std::istreambuf_iterator<char>(in)), {});
    return "for " + target + ": " + messages.substr(0, 2000);
  }

 private:
  fs::path path_;
};

struct device_generation {
  unsigned sm;                       // what the text is written for
  std::vector<std::string> targets;  // what it is assembled for
};

const std::vector<device_generation> generations = {{75, {"sm_75"}},
                                                    {80, {"sm_80"}},
                                                    {86, {"sm_86"}},
                                                    {89, {"sm_89"}},
                                                    {90, {"sm_90", "sm_100", "sm_120"}}};

// Programs that are not a model's: each is assembled for one generation, in turn.
std::vector<program> other_programs() {
  std::vector<program> list = samples::all();
  for (const contract_check& check : contract_checks()) list.push_back(check.make());
  for (std::uint64_t seed = 0; seed < 40; seed++) list.push_back(make_random_case(seed).code);
  return list;
}

class ptx_assembly : public testing::TestWithParam<std::size_t> {};

TEST_P(ptx_assembly, takes_every_program) {
  std::string ptxas = assembler();
  if (ptxas.empty()) GTEST_SKIP() << "ptxas is not installed (the CUDA toolkit has it)";
  const device_generation& generation = generations[GetParam()];
  ptx_collection collection;
  for (const program& p : model_kernels()) collection.add(ptx_of(p, generation.sm));
  const std::vector<program> others = other_programs();
  for (std::size_t k = GetParam(); k < others.size(); k += generations.size())
    collection.add(ptx_of(others[k], generation.sm));
  assembly_folder folder;
  for (const std::string& target : generation.targets)
    EXPECT_EQ(folder.assemble(ptxas, collection.text(), target), "");
}

INSTANTIATE_TEST_SUITE_P(generations, ptx_assembly,
                         testing::Range(std::size_t{0}, generations.size()),
                         [](const testing::TestParamInfo<std::size_t>& which) {
                           return generations[which.param].targets[0];
                         });

TEST(ptx, every_float_operation_rounds_as_written) {
  std::size_t operations = 0, fused = 0;
  auto scan = [&](const std::vector<program>& programs) {
    for (const program& p : programs) {
      ptx_findings found = scan_ptx(ptx_of(p, 90));
      EXPECT_TRUE(found.faults.empty()) << p.name << ": " << found.faults.front();
      if (!uses(p.body, opcode::fma_exact)) {
        EXPECT_EQ(found.fused, 0u) << p.name;
      }
      operations += found.float_operations;
      fused += found.fused;
    }
  };
  scan(model_kernels());
  scan(other_programs());
  EXPECT_GT(operations, 4000u);
  EXPECT_GT(fused, 100u);
}

TEST(ptx, the_scan_finds_what_is_forbidden) {
  for (const char* line :
       {"\tadd.f32 \t%f1, %f2, %f3;", "\tmul.rn.ftz.f32 \t%f1, %f2, %f3;",
        "\t@%p1 div.approx.f32 \t%f1, %f2, %f3;", "\tfma.rz.f32 \t%f1, %f2, %f3, %f4;",
        "\tsqrt.rn.f32 \t%f1, %f2;", "\tcvt.rz.f16.f32 \t%rs1, %f1;", "\tmax.f32 \t%f1, %f2, %f3;"})
    EXPECT_EQ(scan_ptx(line).faults.size(), 1u) << line;
  for (const char* line : {"\tadd.rn.f32 \t%f1, %f2, %f3;", "\tdiv.u32 \t%r1, %r2, %r3;",
                           "\tcvt.rn.f32.s32 \t%f1, %r1;", "\tsetp.lt.f32 \t%p1, %f1, %f2;"})
    EXPECT_TRUE(scan_ptx(line).faults.empty()) << line;
}

linear_spec q4_k_matrix(std::uint32_t columns) {
  linear_spec spec;
  spec.k = 512;
  spec.matrices = {{find_weight_format(12), 32, 0}};
  spec.output_stride = 32;
  spec.columns = columns;
  return spec;
}

TEST(ptx, wide_loads_and_byte_products_are_single_instructions) {
  std::string text = ptx_of(linear(q4_k_matrix(1)), 90);
  EXPECT_NE(text.find("dp4a.u32.s32"), std::string::npos);
  EXPECT_NE(text.find("ld.global.v4.u32"), std::string::npos);
  EXPECT_EQ(text.find(".local"), std::string::npos) << "an array in local memory";
}

// A header and four times two units of 16 bytes.
TEST(ptx, the_weights_of_a_segment_are_under_way_before_the_first_product) {
  std::string text = ptx_of(linear(q4_k_matrix(1)), 90);
  std::string before = text.substr(0, text.find("dp4a"));
  std::size_t meeting = before.find("bar.warp.sync"), loads = 0;
  ASSERT_NE(meeting, std::string::npos);
  for (std::size_t at = 0; (at = before.find("ld.global.v4", at)) < meeting; at++) loads++;
  EXPECT_GE(loads, 9u);
}

// out = a table's word, which is settled, plus a word that a phase before wrote.
program looks_up(bool settled) {
  builder b("looks_up");
  const val table = b.offset(b.argument_ptr(0), b.group_x(), 4);
  const auto load = [&] { return b.load(memory_type::i32, table); };
  const val word = settled ? b.settled(load) : load();
  b.store(memory_type::i32, b.argument_ptr(2), word + b.load(memory_type::i32, b.argument_ptr(1)));
  return b.finish();
}

TEST(ptx, what_is_settled_is_loaded_before_the_wait) {
  const auto loads_before_the_wait = [](const std::string& text) {
    const std::size_t wait = text.find("griddepcontrol.wait");
    return wait != std::string::npos && text.find("ld.global") < wait;
  };
  EXPECT_TRUE(loads_before_the_wait(ptx_of(looks_up(true), 90)));
  EXPECT_FALSE(loads_before_the_wait(ptx_of(looks_up(false), 90)));
  EXPECT_NE(fingerprint(looks_up(true)), fingerprint(looks_up(false)));
}

TEST(ptx, eight_columns_go_through_the_tensor_cores_where_there_are_some) {
  program p = linear(q4_k_matrix(8));
  constexpr const char* product = "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32";
  EXPECT_NE(ptx_of(p, 80).find(product), std::string::npos);
  EXPECT_EQ(ptx_of(p, 80).find("dp4a"), std::string::npos);
  EXPECT_EQ(ptx_of(p, 75).find("mma"), std::string::npos);
  EXPECT_EQ(ptx_of(linear(q4_k_matrix(4)), 80).find("mma"), std::string::npos);
}

TEST(ptx, what_is_not_known_is_refused) {
  ptx_options options;
  options.sm = 61;
  result<std::string> text = emit_ptx(samples::integers(1), options);
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().code, error_code::unsupported);
  EXPECT_NE(text.error().message.find("sm_61"), std::string::npos);
}

TEST(ptx, shared_memory_is_the_programs_own_and_the_fragments) {
  program p = samples::shared_memory(2);
  EXPECT_EQ(ptx_shared_bytes(p, {}), 4 * p.shared_words);
  EXPECT_EQ(ptx_shared_bytes(samples::reductions(2), {}), 0u);
  // Fragments take 1 KiB a warp.
  linear_spec spec = q4_k_matrix(8);
  spec.warps = 2;
  program shared = linear(spec);
  EXPECT_EQ(ptx_shared_bytes(shared, {.sm = 75}), 4 * shared.shared_words);
  EXPECT_EQ(ptx_shared_bytes(shared, {.sm = 80}), 4 * shared.shared_words + 2048);
}

}  // namespace
}  // namespace terrane::kernels

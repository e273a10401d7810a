#include "engine/gguf/ggml_type.hpp"

#include <gtest/gtest.h>

namespace terrane::engine::gguf {
namespace {

struct expectation {
  std::uint32_t id;
  const char* name;
  std::uint32_t elements;
  std::uint32_t bytes;
};

// From the published format definitions, by their fields: scales, minima, quantised values.
constexpr expectation published[] = {
    {0, "F32", 1, 4},
    {1, "F16", 1, 2},
    {2, "Q4_0", 32, 2 + 16},
    {3, "Q4_1", 32, 2 + 2 + 16},
    {6, "Q5_0", 32, 2 + 4 + 16},
    {7, "Q5_1", 32, 2 + 2 + 4 + 16},
    {8, "Q8_0", 32, 2 + 32},
    {9, "Q8_1", 32, 2 + 2 + 32},
    {10, "Q2_K", 256, 16 + 64 + 2 + 2},
    {11, "Q3_K", 256, 32 + 64 + 12 + 2},
    {12, "Q4_K", 256, 2 + 2 + 12 + 128},
    {13, "Q5_K", 256, 2 + 2 + 12 + 32 + 128},
    {14, "Q6_K", 256, 128 + 64 + 16 + 2},
    {15, "Q8_K", 256, 4 + 256 + 32},
    {16, "IQ2_XXS", 256, 2 + 64},
    {17, "IQ2_XS", 256, 2 + 64 + 8},
    {18, "IQ3_XXS", 256, 2 + 96},
    {19, "IQ1_S", 256, 2 + 32 + 16},
    {20, "IQ4_NL", 32, 2 + 16},
    {21, "IQ3_S", 256, 2 + 64 + 8 + 32 + 4},
    {22, "IQ2_S", 256, 2 + 64 + 8 + 8},
    {23, "IQ4_XS", 256, 2 + 2 + 4 + 128},
    {24, "I8", 1, 1},
    {25, "I16", 1, 2},
    {26, "I32", 1, 4},
    {27, "I64", 1, 8},
    {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 32 + 16 + 8},
    {30, "BF16", 1, 2},
    {34, "TQ1_0", 256, 48 + 4 + 2},
    {35, "TQ2_0", 256, 64 + 2},
    {39, "MXFP4", 32, 1 + 16},
    {40, "NVFP4", 64, 4 + 32},
    {41, "Q1_0", 128, 2 + 16},
};

TEST(ggml_type, every_published_id_has_its_name_and_block) {
  for (const expectation& e : published) {
    const auto type = ggml_type_of(e.id);
    ASSERT_TRUE(type) << e.name;
    EXPECT_EQ(static_cast<std::uint32_t>(*type), e.id);
    EXPECT_EQ(to_string(*type), e.name);
    EXPECT_EQ(describe(*type).block_elements, e.elements) << e.name;
    EXPECT_EQ(describe(*type).block_bytes, e.bytes) << e.name;
  }
}

TEST(ggml_type, all_other_ids_are_unknown) {
  for (std::uint32_t id = 0; id < 300; ++id) {
    bool known = false;
    for (const expectation& e : published) {
      known = known || e.id == id;
    }
    EXPECT_EQ(ggml_type_of(id).has_value(), known) << id;
  }
  EXPECT_FALSE(ggml_type_of(0xFFFFFFFF));
}

TEST(ggml_type, withdrawn_ids_are_told_apart_from_unknown_ones) {
  for (const std::uint32_t id : {4U, 5U, 31U, 32U, 33U, 36U, 37U, 38U}) {
    EXPECT_FALSE(ggml_type_of(id)) << id;
    EXPECT_FALSE(withdrawn_type_name(id).empty()) << id;
  }
  EXPECT_TRUE(withdrawn_type_name(99).empty());
  EXPECT_TRUE(withdrawn_type_name(2).empty());
}

}  // namespace
}  // namespace terrane::engine::gguf

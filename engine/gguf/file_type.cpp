#include "engine/gguf/file_type.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace terrane::engine::gguf {

namespace {

using number_and_name = std::pair<std::uint32_t, std::string_view>;
constexpr std::array<number_and_name, 21> names = {{
    {0, "F32"},     {1, "F16"},     {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},    {8, "Q5_0"},
    {9, "Q5_1"},    {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"}, {13, "Q3_K_L"}, {14, "Q4_K_S"},
    {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"}, {18, "Q6_K"},   {21, "Q2_K_S"}, {25, "IQ4_NL"},
    {30, "IQ4_XS"}, {32, "BF16"},   {38, "MXFP4"},
}};

}  // namespace

std::string_view file_type_name(const metadata& of) {
  const result<std::uint32_t> number = of.integer<std::uint32_t>("general.file_type");
  if (!number) return {};
  const auto at = std::ranges::find(names, *number, &number_and_name::first);
  return at == names.end() ? std::string_view() : at->second;
}

}  // namespace terrane::engine::gguf

#include "engine/tuning/tuning_file.hpp"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <sstream>

#include "engine/tuning/layout_fields.hpp"
#include "kernels/cache/code_cache.hpp"
#include "kernels/llvm/compile.hpp"
#include "kernels/mix_bits.hpp"
#include "kernels/ptx/emit_ptx.hpp"
#include "kernels/spirv/emit_spirv.hpp"

namespace terrane::engine {

namespace {

constexpr std::uint32_t file_version = 1;

kernels::code_key key_of(const device_info& on) {
  return {"tuning " + on.name + ", " + on.description + ", " + on.driver, file_version, 0};
}

template <class Number>
bool parse(const std::string& text, Number& to) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), to);
  return fault == std::errc() && end == text.data() + text.size();
}

// A value of an enum is known by its name.
template <class Enum>
bool parse_name(const std::string& text, Enum a, Enum b, Enum& to) {
  if (text != field_text(a) && text != field_text(b)) return false;
  to = text == field_text(a) ? a : b;
  return true;
}
bool parse(const std::string& text, group_order& to) {
  return parse_name(text, group_order::x_first, group_order::y_first, to);
}
bool parse(const std::string& text, kernels::lane_keys& to) {
  return parse_name(text, kernels::lane_keys::neighbours, kernels::lane_keys::halves, to);
}

bool is_power_of_two_to(std::uint32_t value, std::uint32_t most) {
  return std::has_single_bit(value) && value <= most;
}
bool is_power_of_two_to(int value, int most) {
  return value > 0 &&
         is_power_of_two_to(static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(most));
}

// What a kernel can be made with.
bool is_possible(const linear_layout& l) {
  return is_power_of_two_to(l.columns, 64U) && is_power_of_two_to(l.together, 4) && l.warps >= 1 &&
         l.warps <= 16 && is_power_of_two_to(l.row_warps, 8) &&
         (l.warps == 1 || (l.row_warps == 1 && l.columns <= 16)) &&
         l.fetch_ahead <= kernels::most_fetched_ahead;
}
bool is_possible(const kernels::attention_tuning& l) {
  return is_power_of_two_to(l.dimensions, 32) && is_power_of_two_to(l.values, 16) && l.warps >= 1 &&
         l.warps <= 32 && is_power_of_two_to(l.rows, 4U) && (l.warps == 1 || l.rows == 1);
}
bool is_possible(const activation_layout& l) {
  return is_power_of_two_to(l.warps, 8) && l.parts >= 1 && l.parts <= 4096;
}

// The fields in their order, as to_text() writes them.
template <class Layout>
std::optional<kernel_layout> read_layout(const std::string& text) {
  std::string words = text;
  std::erase(words, ',');
  std::istringstream in(words);
  Layout layout;
  bool good = true;
  each_field(layout, [&](const char* name, auto& field) {
    std::string read_name, value;
    good = good && (in >> read_name >> value) && read_name == name && parse(value, field);
  });
  std::string more;
  if (!good || in >> more || !is_possible(layout)) return std::nullopt;
  return layout;
}

std::optional<kernel_layout> read_layout(const std::string& key, const std::string& text) {
  if (key.starts_with("linear: ")) return read_layout<linear_layout>(text);
  if (key.starts_with("attention: ")) return read_layout<kernels::attention_tuning>(text);
  if (key.starts_with("activation: ")) return read_layout<activation_layout>(text);
  return std::nullopt;
}

}  // namespace

std::uint64_t program_version(const kernels::program& by_default) {
  // With each lowering the same program may become other code, on which other layouts are best.
  std::uint64_t version = kernels::fingerprint(by_default);
  for (const std::uint32_t lowering :
       {kernels::llvm_lowering_version, kernels::ptx_lowering_version,
        kernels::spirv_lowering_version})
    version = mix_bits(version + lowering);
  return version;
}

std::string line_of(const std::string& key, const tuned_kernel& kernel) {
  std::ostringstream out;
  out << key << '\t' << std::hex << kernel.version << std::dec << '\t' << kernel.default_us << '\t'
      << kernel.chosen_us << '\t' << to_text(kernel.by_default) << '\t' << to_text(kernel.chosen);
  return out.str();
}

std::optional<std::pair<std::string, tuned_kernel>> read_line(const std::string& line) {
  std::istringstream in(line);
  std::array<std::string, 6> parts;
  for (std::string& part : parts)
    if (!std::getline(in, part, '\t')) return std::nullopt;
  const auto& [key, version, default_us, chosen_us, by_default, chosen] = parts;
  tuned_kernel kernel;
  const std::from_chars_result read =
      std::from_chars(version.data(), version.data() + version.size(), kernel.version, 16);
  if (read.ec != std::errc() || read.ptr != version.data() + version.size()) return std::nullopt;
  if (!parse(default_us, kernel.default_us) || !parse(chosen_us, kernel.chosen_us))
    return std::nullopt;
  if (!std::isfinite(kernel.default_us) || !std::isfinite(kernel.chosen_us)) return std::nullopt;
  const auto usual = read_layout(key, by_default), best = read_layout(key, chosen);
  if (!usual || !best || in.peek() != std::istringstream::traits_type::eof()) return std::nullopt;
  kernel.by_default = *usual;
  kernel.chosen = *best;
  return std::pair(key, kernel);
}

tuned_kernels remembered_kernels(const std::string& cache_folder, const device_info& on) {
  tuned_kernels found;
  const auto bytes = kernels::code_cache(cache_folder).get(key_of(on));
  if (!bytes) return found;
  std::istringstream in(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
  for (std::string line; std::getline(in, line);)
    if (auto kernel = read_line(line)) found.insert_or_assign(kernel->first, kernel->second);
  return found;
}

void remember_kernels(const std::string& cache_folder, const device_info& on,
                      const tuned_kernels& found) {
  tuned_kernels all = remembered_kernels(cache_folder, on);
  for (const auto& [key, kernel] : found) all.insert_or_assign(key, kernel);
  std::string text;
  for (const auto& [key, kernel] : all) text += line_of(key, kernel) + "\n";
  kernels::code_cache(cache_folder).put(key_of(on), std::as_bytes(std::span(text)));
}

}  // namespace terrane::engine

#include "ipc/terranectl/option_values.hpp"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "ipc/terranectl/words.hpp"

namespace terrane::ipc::ctl {
namespace {

// The whole text as a number in decimal, or nothing. One sign of plus is taken, as people write it.
template <class Number>
std::optional<Number> read(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) {
    text.remove_prefix(1);
  }
  Number value{};
  const char* last = text.data() + text.size();
  const auto [end, wrong] = std::from_chars(text.data(), last, value);
  return wrong == std::errc() && end == last ? std::optional(value) : std::nullopt;
}

std::string refused(const std::string& wanted, const std::string& text) {
  return "must be " + wanted + ", not " + (text.empty() ? "empty" : printable(text));
}

std::string range_text(std::int64_t least, std::int64_t most) {
  using all = std::numeric_limits<std::int64_t>;
  if (most != all::max()) {
    return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  }
  return least == all::min() ? "a whole number from -2^63 to 2^63 - 1"
                             : "a whole number of at least " + std::to_string(least);
}

}  // namespace

CLI::Validator whole_number(const std::string& type_name, std::int64_t least, std::int64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) {
        const auto value = read<std::int64_t>(text);
        if (!value || *value < least || *value > most) {
          return refused(range_text(least, most), text);
        }
        text = std::to_string(*value);
        return std::string();
      },
      type_name);
}

CLI::Validator real_number(const std::string& type_name) {
  return CLI::Validator(
      [](std::string& text) {
        const auto value = read<double>(text);
        return value && std::isfinite(*value) ? std::string() : refused("a number", text);
      },
      type_name);
}

}  // namespace terrane::ipc::ctl

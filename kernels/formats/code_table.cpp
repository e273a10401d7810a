#include "kernels/formats/code_table.hpp"

namespace terrane::kernels {

namespace {

byte_table bytes_of(const code_table& table) {
  byte_table bytes{};
  for (std::size_t code = 0; code < bytes.size(); code++)
    bytes[code] = static_cast<std::uint8_t>(table.unsigned_value(code));
  return bytes;
}

}  // namespace

vals look_up(builder& b, const code_table& table, const vals& codes) {
  const byte_table bytes = bytes_of(table);
  vals words;
  for (val w : codes) words.push_back(b.look_up(bytes, w));
  return words;
}

val look_up_one(builder& b, const code_table& table, val code) {
  return (b.look_up(bytes_of(table), code) & b.i32(255)) - b.i32(1 << table.offset_bits);
}

}  // namespace terrane::kernels

#include "kernels/formats/code_table.hpp"

namespace terrane::kernels {

vals look_up(builder& b, const code_table& table, const vals& codes) {
  byte_table bytes{};
  for (std::size_t code = 0; code < bytes.size(); code++)
    bytes[code] = static_cast<std::uint8_t>(table.unsigned_value(code));
  vals words;
  for (val w : codes) words.push_back(b.look_up(bytes, w));
  return words;
}

val look_up_one(builder& b, const code_table& table, val code) {
  std::array<val, 4> words;
  for (std::size_t k = 0; k < 4; k++) {
    std::uint32_t four = 0;
    for (std::size_t j = 0; j < 4; j++) four |= table.unsigned_value(4 * k + j) << (8 * j);
    words[k] = b.u32(four);
  }
  val low = b.select(lt(code, b.i32(4)), words[0], words[1]);
  val high = b.select(lt(code, b.i32(12)), words[2], words[3]);
  val four = b.select(lt(code, b.i32(8)), low, high);
  val byte = b.binary(opcode::ilshr, four, (code & b.i32(3)) << 3) & b.i32(255);
  return byte - b.i32(1 << table.offset_bits);
}

}  // namespace terrane::kernels

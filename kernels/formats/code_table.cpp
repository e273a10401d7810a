#include "kernels/formats/code_table.hpp"

namespace terrane::kernels {

namespace {

constexpr std::uint32_t every_byte = 0x01010101u;

// All bits of each byte whose code has `bit`.
val byte_mask(builder& b, val codes, int bit) {
  val ones = (bit == 0 ? codes : lshr(codes, bit)) & b.u32(every_byte);
  return (ones << 8) - ones;  // times 255, without a carry between the bytes
}

// Each byte from `set` where the mask is, else from `clear`.
val choose(val mask, val clear, val set) { return clear ^ (mask & (clear ^ set)); }

// A binary tree over the code's bits, four bytes at a time: no target need have a table.
val look_up_word(builder& b, const code_table& table, val codes) {
  std::array<val, 4> masks;
  for (int bit = 0; bit < 4; bit++) masks[static_cast<std::size_t>(bit)] = byte_mask(b, codes, bit);
  vals level;
  for (std::size_t code = 0; code < 16; code += 2) {
    std::uint32_t clear = table.unsigned_value(code), set = table.unsigned_value(code + 1);
    level.push_back(b.u32(clear * every_byte) ^ (masks[0] & b.u32((clear ^ set) * every_byte)));
  }
  for (std::size_t bit = 1; bit < 4; bit++) {
    vals next;
    for (std::size_t k = 0; k < level.size(); k += 2)
      next.push_back(choose(masks[bit], level[k], level[k + 1]));
    level = next;
  }
  return level[0];
}

}  // namespace

vals look_up(builder& b, const code_table& table, const vals& codes) {
  vals words;
  for (val w : codes) words.push_back(look_up_word(b, table, w));
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

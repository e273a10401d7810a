// What the host says of a step's rows and of KV pages, as the kernels that write and attend pages
// read it.
#pragma once

#include "kernels/lang/builder.hpp"

namespace terrane::kernels {

// Word `index` of an input of the step (how many rows it has, their positions, their slots).
inline val step_input(builder& b, int slot, val index) {
  return b.settled(
      [&] { return b.load(memory_type::i32, b.offset(b.argument_ptr(slot), index, 4)); });
}
inline val step_rows(builder& b, int slot) {
  return b.settled([&] { return b.load(memory_type::i32, b.argument_ptr(slot)); });
}

// Entry (slot, page) of a table of u64 addresses, `pages_per_slot` a slot; 0 means that the page is
// not on this device. Tables change between steps alone.
class page_entry {
 public:
  page_entry(builder& b, val table, val slot, val pages_per_slot, val page)
      : b_(b), entry_(b.offset(table, slot * pages_per_slot + page, 8)) {}

  val present() {
    const vals words = b_.settled([&] { return b_.load_words(entry_, 2); });
    return ne(words[0] | words[1], b_.i32(0));
  }
  val address() {
    return b_.settled([&] { return b_.load(memory_type::ptr, entry_); });
  }

 private:
  builder& b_;
  val entry_;
};

}  // namespace terrane::kernels

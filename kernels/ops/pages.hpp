// The table of KV pages as kernels read it, for the kernels that write and attend pages.
#pragma once

#include "kernels/lang/builder.hpp"

namespace terrane::kernels {

// Entry (slot, page) of a table of u64 addresses, `pages_per_slot` a slot; 0 means that the page is
// not on this device.
class page_entry {
 public:
  page_entry(builder& b, val table, val slot, val pages_per_slot, val page)
      : b_(b), entry_(b.offset(table, slot * pages_per_slot + page, 8)) {}

  val present() {
    vals words = b_.load_words(entry_, 2);
    return ne(words[0] | words[1], b_.i32(0));
  }
  val address() { return b_.load(memory_type::ptr, entry_); }

 private:
  builder& b_;
  val entry_;
};

}  // namespace terrane::kernels

// Compiles kernel programs for the processor that this runs on and keeps the code in memory.
//
// Objects come from a code cache where it has them. The code of a program is made once and lives as
// long as its compiler. Any thread may call compile(), several at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cache/code_cache.hpp"
#include "kernels/lang/program.hpp"

namespace terrane::kernels {

// Runs workgroups (x_begin..x_end-1, y) one after another on the calling thread, whose float
// environment must be the default one (round to nearest, denormals kept). `shared` has room for the
// program's shared words, 64-byte aligned.
using group_function = void (*)(const std::uint64_t* arguments, std::uint32_t x_begin,
                                std::uint32_t x_end, std::uint32_t y, void* shared);

class host_compiler {
 public:
  // `cache` may be null; it must outlive the compiler. `processor`: if not empty, LLVM's name of
  // the processor whose instructions are used instead of the host's own ("x86-64-v3"); the host
  // must have them.
  static result<std::unique_ptr<host_compiler>> make(const code_cache* cache,
                                                     const std::string& processor = {});
  ~host_compiler();
  host_compiler(const host_compiler&) = delete;
  host_compiler& operator=(const host_compiler&) = delete;

  result<group_function> compile(const program& p);
  // LLVM's version, the processor and its features: what the code depends on besides the program.
  const std::string& identity() const;
  // What suits the processor in linear_spec: columns at most, and blocks taken together.
  unsigned product_columns() const;
  int product_blocks() const;

 private:
  class state;
  explicit host_compiler(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace terrane::kernels

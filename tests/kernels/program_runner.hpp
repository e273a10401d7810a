// Runs a kernel program over buffers of this process, on the interpreter or on the host's machine
// code, for the tests of what kernels compute.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/interp/interpreter.hpp"
#include "kernels/llvm/host_compiler.hpp"
#include "kernels/ops/ops.hpp"

namespace terrane::kernels {

// An 8-byte slot of a program's arguments.
struct argument_slot {
  std::uint64_t bits = 0;
  argument_slot() = default;
  template <class T>
  argument_slot(T* pointer) : bits(reinterpret_cast<std::uint64_t>(pointer)) {}
  argument_slot(std::uint32_t value) : bits(value) {}
};

// A vector's buffer that starts on 64 bytes, as devices' buffers do.
template <class T>
class aligned_buffer {
 public:
  explicit aligned_buffer(std::size_t count, T fill = T{}) : count_(count) {
    bytes_.resize(count * sizeof(T) + 64);
    auto at = reinterpret_cast<std::uintptr_t>(bytes_.data());
    data_ = reinterpret_cast<T*>((at + 63) / 64 * 64);
    for (std::size_t k = 0; k < count; k++) data_[k] = fill;
  }
  aligned_buffer(aligned_buffer&&) = default;  // the bytes stay where they are
  aligned_buffer(const aligned_buffer&) = delete;
  aligned_buffer& operator=(const aligned_buffer&) = delete;
  T* data() { return data_; }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t k) { return data_[k]; }
  std::span<T> span() { return {data_, count_}; }

 private:
  std::vector<std::byte> bytes_;
  T* data_;
  std::size_t count_;
};

// Targets that a test may run on; the interpreter first.
enum class test_target { interpreter, host };
inline std::vector<test_target> test_targets() {
  return {test_target::interpreter, test_target::host};
}

// Compiles for this host, once per program.
inline group_function host_code(const program& p) {
  static std::unique_ptr<host_compiler> compiler = [] {
    auto made = host_compiler::make(nullptr);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return std::move(*made);
  }();
  auto code = compiler->compile(p);
  EXPECT_TRUE(code.has_value()) << code.error().message;
  return *code;
}

inline std::vector<std::uint64_t> argument_bits(std::span<const argument_slot> slots) {
  std::vector<std::uint64_t> arguments(max_arguments);  // slots that are not given are 0
  for (std::size_t k = 0; k < slots.size(); k++) arguments[k] = slots[k].bits;
  return arguments;
}

// Runs the host's code of a program, the workgroups one row of the grid after another.
inline void run_host_code(group_function code, const program& p,
                          std::span<const argument_slot> slots, grid g) {
  aligned_buffer<std::uint32_t> shared(p.shared_words + 1, 0xffffffffu);
  std::vector<std::uint64_t> arguments = argument_bits(slots);
  for (std::uint32_t y = 0; y < g.y; y++) code(arguments.data(), 0, g.x, y, shared.data());
}

inline void run_program(test_target target, const program& p, std::span<const argument_slot> slots,
                        grid g) {
  if (target == test_target::interpreter)
    interpret(p, argument_bits(slots), g.x, g.y);
  else
    run_host_code(host_code(p), p, slots, g);
}

}  // namespace terrane::kernels

// What is known of the integers and addresses of a program without running it: powers of two that
// divide them, and an upper bound. It tells where words may be loaded or stored 8 or 16 bytes
// at a time.
// Belongs to one program; one thread. For lowerings.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/lang/program.hpp"

namespace terrane::kernels {

class known_values {
 public:
  explicit known_values(const program& p);

  // A power of two, at most 16, that divides an i32 or an address.
  std::uint32_t divisor(value_id v) const { return divisors_[v]; }
  // No i32 is larger, as a signed number.
  std::int32_t most(value_id v) const { return most_[v]; }

 private:
  void visit(const region& r);

  std::uint32_t divisor_of(const instruction& in) const;
  std::int32_t most_of(const instruction& in) const;

  std::vector<std::uint32_t> divisors_;
  std::vector<std::int32_t> most_;
  std::vector<std::optional<std::uint32_t>> constants_;
  const program& p_;
};

}  // namespace terrane::kernels

#include "engine/device/vulkan/half_probe.hpp"

#include <bit>
#include <cmath>
#include <vector>

#include "kernels/lang/builder.hpp"

namespace terrane::engine::vulkan {

namespace {

constexpr std::uint32_t halves = 1U << 16;

// Word i of argument 0 becomes the number that half i is.
kernels::program every_half() {
  kernels::builder b("every_half");
  const kernels::val first = b.group_x() << 5;
  b.store_lanes(kernels::memory_type::f32, b.offset(b.argument_ptr(0), first, 4),
                b.half_number(first + b.lane()));
  return b.finish();
}

// IEEE 754 binary16.
float number_of(std::uint32_t half) {
  const int exponent = static_cast<int>(half >> 10 & 31U);
  const auto mantissa = static_cast<float>(half & 1023U);
  float size =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  if (exponent == 31) size = mantissa == 0 ? INFINITY : NAN;
  return (half & 0x8000U) != 0 ? -size : size;
}

bool is_number(float given, float exact) {
  if (std::isnan(exact)) return std::isnan(given);
  return std::bit_cast<std::uint32_t>(given) == std::bit_cast<std::uint32_t>(exact);
}

result<std::vector<float>> computed(device& on) {
  std::vector<float> out(halves);
  auto memory = on.allocate(4 * halves, memory_use::staging);
  if (!memory) return tl::unexpected<error>(memory.error());
  result<const device_kernel*> kernel = on.compile(every_half());
  if (!kernel) return tl::unexpected<error>(kernel.error());
  dispatch d;
  d.kernel = *kernel;
  d.groups_x = halves / kernels::warp_lanes;
  d.arguments[0] = (*memory)->address();
  auto list = on.record({&d, 1});
  if (!list) return tl::unexpected<error>(list.error());
  result<void> ok = on.submit(**list);
  if (ok) ok = on.wait();
  if (ok) ok = on.read(**memory, 0, std::as_writable_bytes(std::span(out)));
  if (!ok) return tl::unexpected<error>(ok.error());
  return out;
}

}  // namespace

result<bool> halves_are_exact(device& on) {
  const result<std::vector<float>> given = computed(on);
  if (!given) return tl::unexpected<error>(given.error());
  for (std::uint32_t h = 0; h < halves; h++)
    if (!is_number((*given)[h], number_of(h))) return false;
  return true;
}

}  // namespace terrane::engine::vulkan

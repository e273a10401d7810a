// What a workgroup may take of shared memory anywhere. Internal to kernels/ops.
#pragma once

#include <cstdint>

namespace terrane::kernels {

inline constexpr std::uint32_t shared_limit_words = 4096;  // 16 KiB: what every Vulkan device has

}  // namespace terrane::kernels

// CUDA devices: what the machine has, and opening one.
//
// The driver library (libcuda.so.1) is opened when first asked for; a machine without it gives an
// error value and nothing else changes. A build without cuda.h offers the same functions, which
// then say so. Both may be called from any thread; the device keeps the thread rules of
// engine/device/device.hpp.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/device/device.hpp"

namespace terrane::engine {

struct cuda_options {
  std::filesystem::path cache_folder;  // compiled kernels are kept here; empty: nowhere
};

// A card that the driver offers. `refused` says why it cannot be used, or is empty.
struct cuda_candidate {
  device_info info;
  std::string refused;
};

// All cards, usable or not, in the driver's order. Fails with `unsupported` where there is no
// driver, it is too old, or it finds no card, and in a build without CUDA.
result<std::vector<cuda_candidate>> list_cuda_devices();

// Opens a card by the name that list_cuda_devices() gave: "cuda:" and the card's UUID. not_found if
// there is no such card, unsupported with the reason if it is refused.
result<std::unique_ptr<device>> open_cuda_device(const std::string& name,
                                                 const cuda_options& options = {});

}  // namespace terrane::engine

// Compiled kernels of one card.
//
// A program becomes PTX here, machine code in the driver's linker, and then an entry of the code
// cache on disk under the driver's version, the card's kind and the program, so that a later start
// compiles nothing. A kept entry that the driver refuses is made anew. The store owns all kernels
// until it goes; any thread, compilations run side by side.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/device/cuda/context.hpp"
#include "kernels/cache/code_cache.hpp"

namespace terrane::engine::cuda {

// A kernel on the card, ready to run: loaded, its launch limits checked.
class kernel : public device_kernel {
 public:
  kernel(const context& card, CUmodule module) : card_(card), module_(module) {}
  ~kernel() override;
  CUfunction function = nullptr;
  std::uint32_t threads = 0;       // of a workgroup
  std::uint32_t shared_bytes = 0;  // given at launch

 private:
  const context& card_;
  CUmodule module_;
};

class kernel_store {
 public:
  // An empty folder: nothing is kept on disk.
  kernel_store(const context& card, const std::filesystem::path& folder);

  result<const kernel*> get(const kernels::program& p);

 private:
  result<void> check_limits(const kernels::program& p) const;
  result<std::unique_ptr<kernel>> make(const kernels::program& p, std::uint64_t fingerprint) const;
  result<std::unique_ptr<kernel>> load(const kernels::program& p,
                                       const std::vector<std::byte>& code) const;
  result<std::vector<std::byte>> compile(const kernels::program& p) const;

  const context& card_;
  kernels::code_cache disk_;
  std::mutex access_;
  std::map<std::uint64_t, std::unique_ptr<kernel>> kernels_;  // by the program's fingerprint
};

}  // namespace terrane::engine::cuda

// Compiled pipelines of one device, and the driver's own cache of them on disk.
//
// The file is keyed by the driver's cache UUID; it is written beside and renamed into place, and
// checked by length and hash before a driver sees it. A file that does not fit is ignored. The
// store owns all pipelines until it goes; any thread, compilations run side by side.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "engine/device/vulkan/logical_device.hpp"
#include "kernels/cache/code_cache.hpp"

namespace terrane::engine::vulkan {

class pipeline : public device_kernel {
 public:
  pipeline(logical_device& device, VkPipeline handle) : device_(device), handle_(handle) {}
  ~pipeline() override;
  VkPipeline handle() const { return handle_; }
  // Whether a list with it was submitted.
  bool ran() const { return ran_.load(); }
  void set_ran() const { ran_.store(true); }

 private:
  logical_device& device_;
  VkPipeline handle_;
  mutable std::atomic<bool> ran_{false};
};

class pipeline_store {
 public:
  // An empty folder: nothing is kept on disk.
  static result<std::unique_ptr<pipeline_store>> open(logical_device& device,
                                                      const std::filesystem::path& folder);
  ~pipeline_store();
  pipeline_store(const pipeline_store&) = delete;
  pipeline_store& operator=(const pipeline_store&) = delete;

  result<const pipeline*> get(const kernels::program& p);
  VkPipelineLayout layout() const { return layout_; }

 private:
  pipeline_store(logical_device& device, const std::filesystem::path& folder)
      : device_(device), disk_(folder.string()) {}
  result<void> prepare();
  result<void> check_limits(const kernels::program& p) const;
  result<VkPipeline> compile(const kernels::program& p);
  result<void> warm_up(VkPipeline made);
  void save();

  logical_device& device_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  kernels::code_cache disk_;
  std::mutex access_, saving_;
  std::size_t saved_bytes_ = 0;
  std::map<std::uint64_t, std::unique_ptr<pipeline>> pipelines_;  // by the program's fingerprint
};

}  // namespace terrane::engine::vulkan

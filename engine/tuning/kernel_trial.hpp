// A kernel over made-up numbers on a device, in whatever layout: what the tuner runs and times.
// Owns its memory on the device, which outlives it. One thread, while nothing else submits there.
#pragma once

#include <memory>
#include <vector>

#include "engine/tuning/device_tuning.hpp"

namespace terrane::engine {

class kernel_trial {
 public:
  // `read_over`: memory of plain_byte that stands for the weights of other layers, so that those of
  // one launch are not in a cache when the next begins. It outlives the trial.
  static result<std::unique_ptr<kernel_trial>> make(device& on, const kernel_shape& shape,
                                                    const device_memory& read_over);
  virtual ~kernel_trial() = default;

  virtual kernels::program program(const kernel_layout& layout) const = 0;

  // Launches of one timed list: enough of them that starting a list costs little.
  void set_launches(std::uint32_t n) { launches_ = n; }
  std::uint32_t launches() const { return launches_; }
  // Runs only about this share (0..1) of the workgroups: a large kernel shows as much by a part.
  void run_share(double share) { share_ = share; }

  result<std::unique_ptr<command_list>> record(const kernel_layout& layout,
                                               const device_kernel* kernel) const;
  // What one launch writes, on memory that was zero before.
  result<std::vector<std::byte>> output(const kernel_layout& layout, const device_kernel* kernel);

 protected:
  explicit kernel_trial(device& on) : device_(on) {}
  // The `launch`-th of a list; the first reads what was made up, the others what they may.
  virtual dispatch phase(const kernel_layout& layout, std::uint32_t launch) const = 0;
  std::uint32_t share_of(std::uint32_t groups) const;
  result<std::unique_ptr<device_memory>> hold(std::size_t bytes) const;
  result<std::unique_ptr<device_memory>> hold(std::span<const std::byte> content) const;

  device& device_;
  std::unique_ptr<device_memory> out_;

 private:
  std::uint32_t launches_ = 1;
  double share_ = 1;
};

}  // namespace terrane::engine

// What kernels were timed, and what was chosen. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe/class.hpp>

namespace terrane::ipc {

struct tuned_kernel_info {
  std::string device;
  std::string kernel;
  std::string shape;
  std::string by_default;
  std::string chosen;
  double default_us = 0;
  double gain = 0;
};
BOOST_DESCRIBE_STRUCT(tuned_kernel_info, (),
                      (device, kernel, shape, by_default, chosen, default_us, gain))

struct tuning_reply {
  std::vector<tuned_kernel_info> kernels;
};
BOOST_DESCRIBE_STRUCT(tuning_reply, (), (kernels))

struct tune_request {
  std::optional<std::string> device;
};
BOOST_DESCRIBE_STRUCT(tune_request, (), (device))

struct tune_reply {
  std::string timing;
  std::int64_t done = 0;
  std::int64_t total = 0;
  std::vector<tuned_kernel_info> kernels;
  bool ended_early = false;
};
BOOST_DESCRIBE_STRUCT(tune_reply, (), (timing, done, total, kernels, ended_early))

}  // namespace terrane::ipc

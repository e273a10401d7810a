// The CPU as a device: kernels compiled by LLVM for this host, run by worker threads.
//
// A command list is run by a coordinator thread, which is itself one of the workers: submit() only
// queues it. Each worker has its share of a phase's workgroups and helps with others'
// (worker_pool.hpp).
//
// The device owns its threads and ends them, after the submitted lists, when destroyed. submit()
// and wait() allocate nothing. Memory is this process's own, so device_memory::host() is never
// null.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/device/device.hpp"

namespace terrane::engine {

struct cpu_device_options {
  unsigned threads = 0;  // workers, the coordinator included; 0: all cores of this process
  std::uint64_t budget_bytes = 0;  // limit on allocations; 0: what the machine has
  std::string cache_folder;        // of compiled kernels; empty: none are kept on disk
};

// What the device will say of itself, but for its driver.
device_info describe_cpu(const cpu_device_options& options = {});

// Fails with unsupported when LLVM has no target for this host, with io when threads cannot start.
// A cache folder that cannot be used is no error: kernels are then compiled again.
result<std::unique_ptr<device>> make_cpu_device(const cpu_device_options& options = {});

}  // namespace terrane::engine

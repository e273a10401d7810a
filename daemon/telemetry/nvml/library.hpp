// NVIDIA's management library, opened at run time, and what of its interface is used here. Its
// header is not needed: the declarations below follow the NVML API reference of driver 525 and
// later (docs.nvidia.com/deploy/nvml-api), whose binary interface is versioned by function. Any
// thread; a call may take as long as the driver likes.
#pragma once

#include <string>

#include "kernels/result.hpp"

namespace terrane::daemon::nvml {

// nvmlReturn_t, as far as it is told apart.
inline constexpr int success = 0, invalid_argument = 2, not_supported = 3, not_found = 6,
                     insufficient_size = 7, gpu_is_lost = 15, reset_required = 16,
                     version_mismatch = 18, no_data = 21;

struct device_handle;  // nvmlDevice_t points to one
using device = device_handle*;

struct memory_info {  // nvmlMemory_t, bytes
  unsigned long long total, free, used;
};
struct utilisation_rates {  // nvmlUtilization_t, percent of the last sample period
  unsigned gpu, memory;
};
struct process_info {  // nvmlProcessInfo_t of the functions _v2 and _v3
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
inline constexpr unsigned long long not_available = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE

inline constexpr int die_sensor = 0;                              // nvmlTemperatureSensors_t
inline constexpr int shutdown_threshold = 0, slow_threshold = 1;  // nvmlTemperatureThresholds_t
// nvmlClocksEventReason...: why clocks are lower than they might be.
inline constexpr unsigned long long software_power_cap = 0x4, hardware_slowdown = 0x8,
                                    software_thermal = 0x20, hardware_thermal = 0x40,
                                    hardware_power_brake = 0x80;

using number_of = int(device, unsigned*);
using processes_of = int(device, unsigned* count, process_info* into);

// Functions that the library lacks are null, init and handle_by_uuid never.
struct library {
  int (*init)() = nullptr;
  int (*handle_by_uuid)(const char* uuid, device*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*memory)(device, memory_info*) = nullptr;
  int (*temperature)(device, int sensor, unsigned*) = nullptr;
  int (*temperature_threshold)(device, int which, unsigned*) = nullptr;
  number_of* power_mw = nullptr;
  number_of* power_limit_mw = nullptr;
  int (*utilisation)(device, utilisation_rates*) = nullptr;
  int (*throttle_reasons)(device, unsigned long long*) = nullptr;
  number_of* fan_percent = nullptr;
  processes_of* compute_processes = nullptr;
  processes_of* graphics_processes = nullptr;

  std::string lacking;  // names of what it lacks, for people; empty: nothing

  std::string text_of(int error) const;
};

inline constexpr const char* library_name = "libnvidia-ml.so.1";

// Stays open until the process ends. Fails with unsupported: it is not there, or too old.
result<library> open_library(const std::string& path);

}  // namespace terrane::daemon::nvml

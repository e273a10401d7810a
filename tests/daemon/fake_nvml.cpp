#include "tests/daemon/fake_nvml.hpp"

#include <algorithm>
#include <cstring>

using terrane::daemon::fake_nvml;
using terrane::daemon::fake_nvml_card;

namespace {

// Never destroyed: a call may hang to the end of the process.
fake_nvml& state = *new fake_nvml;

// What every call does first.
[[maybe_unused]] std::unique_lock<std::mutex> enter() {
  std::unique_lock lock(state.guard);
  const unsigned test = state.test;
  state.hanging++;
  state.changed.notify_all();
  state.changed.wait(lock, [&] { return !state.hang && state.test == test; });
  state.hanging--;
  return lock;
}

// Fills in from the card, unless it is to answer with an error.
template <class F>
int answer(void* device, const char* function, F fill) {
  const auto lock = enter();
  const auto number = reinterpret_cast<std::size_t>(device) - 1;
  if (number >= state.cards.size()) return 2;
  const fake_nvml_card& card = state.cards[number];
  for (const char* name : {"all", function})
    if (const auto at = card.answers.find(name); at != card.answers.end()) return at->second;
  return fill(card);
}

struct process {  // nvmlProcessInfo_t
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};

[[maybe_unused]] int list(const std::vector<terrane::daemon::fake_process>& all, unsigned* count,
                          process* into) {
  const unsigned room = *count;
  *count = static_cast<unsigned>(all.size());
  if (room < *count) return 7;
  for (unsigned k = 0; k < *count; k++) into[k] = {all[k].pid, all[k].bytes, 0, 0};
  return 0;
}

}  // namespace

extern "C" {

fake_nvml* fake_nvml_state() { return &state; }

#ifdef FAKE_NVML_TOO_OLD
int nvmlInit() { return 0; }
#else
int nvmlInit_v2() {
  const auto lock = enter();
  return state.init;
}

const char* nvmlErrorString(int r) {
  return r == 15 ? "GPU is lost" : r == 3 ? "Not Supported" : r == 9 ? "Driver Not Loaded" : "";
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  const auto lock = enter();
  for (std::size_t k = 0; k < state.cards.size(); k++) {
    if (state.cards[k].uuid != uuid) continue;
    *device = reinterpret_cast<void*>(k + 1);
    const auto at = state.cards[k].answers.find("handle");
    return at == state.cards[k].answers.end() ? 0 : at->second;
  }
  return 6;
}

int nvmlDeviceGetMemoryInfo(void* d, unsigned long long* info) {
  return answer(d, "memory", [&](const fake_nvml_card& c) {
    info[0] = c.total, info[1] = c.total - c.used, info[2] = c.used;
    return 0;
  });
}

int nvmlDeviceGetTemperature(void* d, int sensor, unsigned* to) {
  return answer(d, "temperature", [&](const fake_nvml_card& c) {
    *to = c.temp;
    return sensor == 0 ? 0 : 2;
  });
}

int nvmlDeviceGetTemperatureThreshold(void* d, int which, unsigned* to) {
  return answer(d, "threshold", [&](const fake_nvml_card& c) {
    *to = which == 0 ? c.shutdown : c.slowdown;
    return which <= 1 ? 0 : 2;
  });
}

int nvmlDeviceGetPowerUsage(void* d, unsigned* to) {
  return answer(d, "power", [&](const fake_nvml_card& c) { return *to = c.power_mw, 0; });
}

int nvmlDeviceGetEnforcedPowerLimit(void* d, unsigned* to) {
  return answer(d, "limit", [&](const fake_nvml_card& c) { return *to = c.limit_mw, 0; });
}

int nvmlDeviceGetUtilizationRates(void* d, unsigned* to) {
  return answer(d, "use", [&](const fake_nvml_card& c) { return to[0] = c.busy, to[1] = 1, 0; });
}

// The name before driver 535.
int nvmlDeviceGetCurrentClocksThrottleReasons(void* d, unsigned long long* to) {
  return answer(d, "reasons", [&](const fake_nvml_card& c) { return *to = c.reasons, 0; });
}

#ifndef FAKE_NVML_LACKS_FAN
int nvmlDeviceGetFanSpeed(void* d, unsigned* to) {
  return answer(d, "fan", [&](const fake_nvml_card& c) { return *to = c.fan, 0; });
}
#endif

int nvmlDeviceGetComputeRunningProcesses_v3(void* d, unsigned* count, process* into) {
  return answer(d, "processes",
                [&](const fake_nvml_card& c) { return list(c.computing, count, into); });
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void* d, unsigned* count, process* into) {
  return answer(d, "processes",
                [&](const fake_nvml_card& c) { return list(c.drawing, count, into); });
}
#endif
}

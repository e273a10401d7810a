// A library that passes for NVIDIA's management library (tests/daemon/fake_nvml.cpp): tests open it
// as the daemon does and say what it answers. One state for the process, found by the symbol
// fake_nvml_state. Another build of it lacks what drivers before 525 lack.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace terrane::daemon {

struct fake_process {
  unsigned pid;
  unsigned long long bytes;
};

struct fake_nvml_card {
  std::string uuid;  // as NVML writes it: "GPU-..."
  unsigned long long total = 1000, used = 600;
  unsigned temp = 61, slowdown = 90, shutdown = 95, power_mw = 250'500, limit_mw = 700'000;
  unsigned busy = 80, fan = 33;
  unsigned long long reasons = 0;
  std::vector<fake_process> computing, drawing;
  std::map<std::string, int> answers;  // by function: an error in place of its answer
};

struct fake_nvml {
  std::mutex guard;
  std::condition_variable changed;
  int init = 0;          // what nvmlInit_v2 returns
  bool hang = false;     // every call waits until this is false again
  unsigned hanging = 0;  // calls that wait
  unsigned test = 0;     // calls that hang when it changes do so for good
  std::vector<fake_nvml_card> cards;
};

}  // namespace terrane::daemon

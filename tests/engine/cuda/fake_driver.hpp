// A CUDA driver for tests: the table of entry points that engine/device/cuda calls, over memory of
// this process. It keeps what was asked for, in order, and fails where a test says so. Kernels are
// not run; that they were launched, with what, can be seen. One for the whole process, because
// entry points are plain functions: reset() before each test. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/device/cuda/driver.hpp"

namespace terrane::engine::cuda {

struct fake_card {
  std::string name = "Fake card";
  unsigned char uuid = 1;  // its first byte
  int capability = 90;
  std::size_t bytes = std::size_t{1} << 30;
  int compute_mode = CU_COMPUTEMODE_DEFAULT;
  bool memory_mapping = true, exports = true, peers = true;
};

struct fake_launch {
  std::string kernel;  // the name of the module that it is from
  unsigned groups_x = 0, groups_y = 0, threads = 0, shared_bytes = 0;
  std::vector<std::uint64_t> arguments;
};

class fake_driver {
 public:
  static fake_driver& get();
  void reset();

  // A table of this driver's functions.
  driver table() const;

  int version = 13000;
  std::vector<fake_card> cards = {fake_card{}};
  // A call by its name (without a version) fails so, once or from now on.
  std::map<std::string, CUresult> fail_once, fail_always;
  std::string compiler_says;  // into the error log of a link that fails
  int most_threads = 1024;    // of any kernel
  bool peer_damages = false;  // copies between cards lose a bit

  std::vector<std::string> calls;
  std::vector<fake_launch> run;                  // launches of graphs that were launched
  std::vector<std::size_t> copies;               // bytes of each
  std::set<std::pair<int, std::uint64_t>> seen;  // card, start of memory it may use
  std::string linked;                            // the last PTX
  // What is held and was not given back.
  std::size_t held_bytes(int card) const;
  std::size_t things = 0;  // allocations, reservations, mappings, streams, events, graphs, modules
  std::size_t pinned_bytes = 0;
  std::size_t exportable_bytes = 0;

  std::size_t count(const std::string& call) const;
  // The calls between two moments without the harmless ones (cuCtxSetCurrent and the like).
  std::vector<std::string> calls_since(std::size_t start) const;
};

}  // namespace terrane::engine::cuda

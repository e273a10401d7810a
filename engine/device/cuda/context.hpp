// An open card: its context, the stream of the step loop, and what went wrong with it.
//
// Every other part of the device works through one of these. A thread calls enter() before its
// first driver call of an operation; events are waited for here. The first failure other than a
// lack of memory is kept: the device is lost for good in this process, and every later call gets
// the same error. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "engine/device/cuda/physical.hpp"

namespace terrane::engine::cuda {

class context {
 public:
  static result<std::unique_ptr<context>> open(const driver& d, const physical_device& p);
  ~context();
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  const driver_functions& functions() const { return driver_.functions; }
  const physical_device& physical() const { return physical_; }
  CUcontext handle() const { return handle_; }
  CUstream steps() const { return steps_; }
  // Whether a launch may begin before the one ahead of it has ended, also in a graph. Code for such
  // cards waits where it must.
  bool starts_early() const {
    constexpr int capability = 90, with_graphs = 12030;
    return physical_.capability >= capability && driver_.version >= with_graphs;
  }

  // Makes the card the calling thread's own, if it is not lost.
  result<void> enter() const;

  // A call's outcome as a value: no_room for a lack of memory; else device_fault, kept.
  result<void> check(CUresult r, const char* call) const;
  // The same for calls that may refuse what they are given and leave the card whole (compilation,
  // access between cards): `unsupported` for such a refusal.
  result<void> check_refusal(CUresult r, const std::string& call) const;
  result<void> fault() const;  // the kept failure
  // Whether the driver still answers for this card; makes it the calling thread's own.
  bool answers() const;

  result<CUstream> make_stream(bool urgent) const;
  result<CUevent> make_event() const;
  // Until an event has happened. Looks for a short while, then sleeps.
  result<void> wait(CUevent event) const;

 private:
  context(const driver& d, const physical_device& p) : driver_(d), physical_(p) {}
  result<void> create();
  void probe_memory();
  bool can_map_memory() const;

  const driver driver_;
  physical_device physical_;  // fixed once the context is open
  CUcontext handle_ = nullptr;
  CUstream steps_ = nullptr;
  mutable std::mutex fault_access_;
  mutable std::optional<error> fault_;
};

}  // namespace terrane::engine::cuda

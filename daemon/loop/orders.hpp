// What people have ordered and policies have to go by: devices that are to be given back, policies
// that are switched off. Each snapshot carries them, so that what is decided of them is explained
// and replayed as anything else. Any thread; who waits for a device is told on the control loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/device.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::daemon {

// leaving: it goes on. freed: nothing of ours is left. stays: something is, and no longer waited
// for. ended: the order was taken back before all had left. ran_out: its time was over before.
enum class yield_progress { leaving, freed, stays, ended, ran_out };

struct yield_outcome {
  yield_progress progress = yield_progress::leaving;
  std::uint64_t bytes = 0;  // given back, of `freed`; else still there
  // Of `freed`: in use by everybody, as the driver says; 0: it does not say.
  std::uint64_t driver_bytes = 0;
};

class orders {
 public:
  using told = std::function<void(const yield_outcome&)>;

  void switch_policy(const std::string& name, bool enabled);
  bool is_disabled(const std::string& name) const;
  std::vector<std::string> disabled() const;
  // Those in force at that time.
  std::vector<policies::yield_order> yields(std::int64_t now_ms) const;

  // Another order for the same device replaces the first. Returns what of ours is on the device
  // now.
  std::uint64_t yield(policies::yield_order order, const engine::device& device);
  // `tell` is called with each look, and for the last time when nothing of ours is left on `device`
  // and what it kept has been given back, or at `until_ms`, or when the order has ended, by itself
  // at `over_ms` (reading::never: not by itself). `before_bytes`: as yield() returned it.
  void await(engine::device& device, std::uint64_t before_bytes, std::int64_t until_ms,
             std::int64_t over_ms, told tell);
  // Of one device, or of all; returns which.
  std::vector<std::string> end_yield(const std::optional<std::string>& device);

  // As they were before the daemon was started anew.
  void resume(std::vector<std::string> disabled, std::vector<policies::yield_order> yields);

  // Ends what has run out by then and lists the others; the snapshot may be an older one.
  void put_into(policies::snapshot& s, std::int64_t now_ms);
  // Tells those who wait what became of it.
  void look(std::int64_t now_ms);

 private:
  struct waiting {
    std::string name;
    engine::device* device;
    std::uint64_t before_bytes;
    std::int64_t until_ms;
    std::int64_t over_ms;
    told tell;
  };

  mutable std::mutex guard_;
  std::vector<std::string> disabled_;
  std::vector<policies::yield_order> yields_;
  std::vector<waiting> waiting_;
};

}  // namespace terrane::daemon

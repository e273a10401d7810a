// Who may take what room in one tick. Starts from each device's free bytes less its reserve, less
// what planned moves that have not started will take, and less what would set off another policy
// there; then each planned move is booked. So no plan counts the same bytes twice. One tick, one
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policies/pipeline/state.hpp"
#include "policies/rule/rule.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

// Whether a rule exists to bring something down on its device: a device like that is no refuge.
bool relieves(const rule& r);
// Whether a condition is met when something is too high, or its room too low.
bool relieves(const term& t);

class ledger {
 public:
  // All of them outlive the ledger.
  ledger(const snapshot& now, const std::vector<rule>& rules, const pipeline_state& state);

  // Bytes that may still be planned onto a device; nothing when its free memory is not known.
  std::optional<double> room(const device_state& d) const;
  // What bounds the room, as a clause: "free after its reserve of 1 GiB", ...
  const std::string& bound(const device_state& d) const;
  void book(const device_state& d, double bytes);

  // A rule that is relieving the device now; null when there is none.
  const rule* relieved_by(const device_state& d) const { return of(d).relieved_by; }

 private:
  struct account {
    std::optional<double> room;
    std::string bound;
    const rule* relieved_by = nullptr;
  };

  account open(const device_state& d, const std::vector<rule>& rules) const;
  void bound_by_rules(account& a, const device_state& d, const std::vector<rule>& rules) const;
  const account& of(const device_state& d) const;

  const snapshot& now_;
  std::vector<account> accounts_;  // in the order of the snapshot's devices
};

}  // namespace terrane::policies

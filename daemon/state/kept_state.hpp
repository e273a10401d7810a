// What outlives the daemon: the memory of the policies (latches, holds, back-offs, pins for
// flapping, numbers of decisions), policies that are switched off, and devices that yield. As one
// text, and back. Sessions and moves end with the daemon and are not in it.
//
// Times. The snapshots' clock is the kernel's monotonic one: it begins anew when the machine does,
// so what it showed means nothing to the next boot. The text therefore carries three clocks of the
// same instant, and times come back as far from now as they were from then, plus what has passed
// since: within one boot that is what CLOCK_BOOTTIME counted (it goes on while the machine sleeps,
// and nobody can set it); after a reboot what the wall clock says, but never less than nothing and
// at most a week, for that clock may have been wrong on either side. So a restart shortens no hold,
// cool-down or pin but by time that has passed, and a yield of two hours ends two hours after it
// was ordered.
//
// Pure but for now(); any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "policies/pipeline/state.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::daemon {

struct kept_state {
  policies::pipeline_state memory;
  std::vector<std::string> disabled;
  std::vector<policies::yield_order> yields;  // times on the snapshots' clock
};

// One instant on every clock, in milliseconds.
struct instant {
  std::string boot;              // names the boot of the machine; empty: not known
  std::int64_t boottime_ms = 0;  // since the boot, with the time it slept
  std::int64_t unix_ms = 0;
  std::int64_t clock_ms = 0;  // the snapshots'
};
instant now(std::int64_t clock_ms);

// What has passed from one to the other, as said above.
std::int64_t passed_ms(const instant& then, const instant& now);

// `model` names the model whose parts the memory is about.
std::string to_text(const kept_state& kept, const instant& at, const std::string& model);

// On the clock of `at`. Yields that have run out meanwhile are gone. Of another model, only what is
// not about parts comes back. The error is a clause: it is damaged, foreign, or of another version.
tl::expected<kept_state, std::string> from_text(std::string_view text, const instant& at,
                                                const std::string& model);

}  // namespace terrane::daemon

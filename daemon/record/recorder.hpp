// Records what the policies see and decide, tick by tick, into files that `terranectl policy
// replay` takes (policies/trace). Each file stands for itself: it begins with the policies and
// their state. The control loop is never held up: files are written on another thread, and when
// that fails, or does not keep up, recording rests for a minute and goes on in a new file, which
// replays by itself; meanwhile trouble() says why. Belongs to the control loop's thread.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/record/trace_files.hpp"
#include "policies/trace/trace.hpp"

namespace terrane::daemon {

class recorder {
 public:
  explicit recorder(record_settings settings, trace_files::write_call write = {});

  // Around each evaluate(): with the state that it begins with, and with what came of it.
  // `unix_offset_ms` takes the snapshots' clock to the time of day.
  void before_tick(const policies::policy_set& set, const policies::pipeline_state& state,
                   std::int64_t now_ms, std::int64_t unix_offset_ms);
  void after_tick(const policies::policy_set& set, const policies::snapshot& seen,
                  const policies::decision& made);

  // Why nothing is being recorded; empty when it is.
  const std::string& trouble() const { return trouble_; }

 private:
  void look_at_files(std::int64_t now_ms);

  const std::uint64_t file_bytes_;
  trace_files files_;
  policies::trace::writer writer_;
  bool recording_ = false;
  std::uint64_t bytes_ = 0;  // of the file
  std::int64_t retry_ms_ = 0;
  std::string trouble_;
};

}  // namespace terrane::daemon

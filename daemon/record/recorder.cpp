#include "daemon/record/recorder.hpp"

namespace terrane::daemon {

namespace {

constexpr std::int64_t rest_ms = 60'000;

}  // namespace

recorder::recorder(record_settings settings, trace_files::write_call write)
    : file_bytes_(settings.file_bytes), files_(std::move(settings), std::move(write)) {}

void recorder::look_at_files(std::int64_t now_ms) {
  if (!recording_) return;
  const trace_files::progress p = files_.look();
  if (p.of == trace_files::outcome::written) trouble_.clear();
  if (p.of == trace_files::outcome::removed) {
    recording_ = false;  // the next file begins at once
    trouble_ = "record: " + p.why + " while it was written; another file is begun";
    retry_ms_ = now_ms;
  }
  if (p.of != trace_files::outcome::failed) return;
  recording_ = false;
  retry_ms_ = now_ms + rest_ms;
  trouble_ = "record: " + p.why + "; decisions are not recorded, it is tried again each minute";
}

void recorder::before_tick(const policies::policy_set& set, const policies::pipeline_state& state,
                           std::int64_t now_ms, std::int64_t unix_offset_ms) {
  look_at_files(now_ms);
  if (recording_ && bytes_ < file_bytes_) return;
  if (!recording_ && !trouble_.empty() && now_ms < retry_ms_) return;
  std::string text = writer_.begin(set, state, unix_offset_ms);
  bytes_ = text.size();
  files_.begin(std::move(text));
  recording_ = true;
}

void recorder::after_tick(const policies::policy_set& set, const policies::snapshot& seen,
                          const policies::decision& made) {
  if (!recording_) return;
  std::string line = writer_.tick(set, seen, made);
  bytes_ += line.size();
  files_.add(std::move(line));
}

}  // namespace terrane::daemon

// Numbers and times as people read them. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ipc/control/amount_text.hpp"
#include "ipc/control/types.hpp"

namespace terrane::ipc::ctl {

std::string ms_text(double milliseconds);      // "1.25 ms"
std::string value_text(double value, unit u);  // "97.0 %", "1.5 GiB", "61.0 C", "22:00"
std::string clock_text(std::int64_t unix_ms);  // local time, "2026-01-31 12:00:05.250"
// "file:3:7"; a line or column of 0 is not known and left out.
std::string place_text(const std::string& file, std::int64_t line, std::int64_t column);

// "bytes 1.00, time 1.12 (measured over predicted, 12 moves)": medians, how good predictions were.
std::string predictions_text(const std::vector<prediction_info>& all);

// "until 2026-01-31 12:00:05"; without an end "until someone ends that".
std::string until_text(std::optional<std::int64_t> until_unix_ms);
// "until 2026-01-31 12:00:05 (another 12m 00s), asked for by user 1000", of a device that yields.
// `now_unix_ms`: the client's clock.
std::string yield_text(const yield_info& order, std::int64_t now_unix_ms);

// How wide a UTF-8 text is, in characters.
std::size_t width_of(std::string_view text);
// At most `width` characters, the last one "…" when something was cut.
std::string cut(std::string_view text, std::size_t width);

// Without control characters but newline and tab: what a model or a file says cannot drive the
// terminal.
std::string printable(std::string_view text);

// Long device names cut after eight characters of their identity ("vulkan:0d1e2f30") as long as
// that still tells them apart; the daemon's full names otherwise.
class device_names {
 public:
  explicit device_names(std::vector<std::string> all);
  std::string brief(const std::string& name) const;
  bool any_cut() const { return cut_; }

 private:
  bool cut_ = false;
};

// The one device that the text names: in full, or the only one that begins so. Otherwise the text
// itself, which the daemon will refuse with the names that it knows.
std::string resolve_device(const std::string& text, const std::vector<std::string>& known);

}  // namespace terrane::ipc::ctl

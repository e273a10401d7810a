// What the daemon tells the administrator: to the journal with its fields when systemd runs it,
// else as lines on stderr. Any thread.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace terrane::daemon {

enum class log_level {
  error = 3,
  warning = 4,
  notice = 5,
  info = 6,
  debug = 7
};  // syslog's numbers

// A journal field beside MESSAGE, such as {"TERRANE_POLICY", "vram-pressure"}.
struct log_field {
  std::string_view name;
  std::string value;
};

void log(log_level level, const std::string& message, std::initializer_list<log_field> fields = {});

}  // namespace terrane::daemon

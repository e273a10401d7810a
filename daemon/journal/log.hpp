// What the daemon tells the administrator: to the journal with its fields when systemd runs it,
// else as lines on stderr. Any thread.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "policies/diagnostic.hpp"

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

// A fault in a file, at its level: "file:line:column: message".
void log(const policies::diagnostic& fault);

}  // namespace terrane::daemon

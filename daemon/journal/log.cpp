#include "daemon/journal/log.hpp"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

namespace terrane::daemon {

namespace {

// systemd says in JOURNAL_STREAM which device and inode the journal's stream is. Children inherit
// the variable, a terminal's shell among them, so only a stderr that still is that stream counts
// (systemd.exec(5)).
bool in_journal() {
  static const bool yes = [] {
    const char* stream = std::getenv("JOURNAL_STREAM");
    struct stat ours {};
    return stream != nullptr && fstat(STDERR_FILENO, &ours) == 0 &&
           std::to_string(ours.st_dev) + ":" + std::to_string(ours.st_ino) == stream;
  }();
  return yes;
}

}  // namespace

void log(log_level level, const std::string& message, std::initializer_list<log_field> fields) {
  std::vector<std::string> lines = {"MESSAGE=" + message,
                                    "PRIORITY=" + std::to_string(static_cast<int>(level)),
                                    "SYSLOG_IDENTIFIER=terraned"};
  for (const log_field& f : fields)
    if (!f.value.empty()) lines.push_back(std::string(f.name) + "=" + f.value);
  if (in_journal()) {
    std::vector<iovec> parts;
    parts.reserve(lines.size());
    for (std::string& l : lines) parts.push_back({l.data(), l.size()});
    if (sd_journal_sendv(parts.data(), static_cast<int>(parts.size())) == 0) return;
  }
  std::fprintf(stderr, "terraned: %s%s\n",
               level == log_level::error     ? "error: "
               : level == log_level::warning ? "warning: "
                                             : "",
               message.c_str());
}

void log(const policies::diagnostic& fault) {
  const std::string where = policies::to_string(fault.where);
  log(fault.level == policies::severity::error ? log_level::error : log_level::warning,
      (where.empty() ? "" : where + ": ") + fault.message);
}

}  // namespace terrane::daemon

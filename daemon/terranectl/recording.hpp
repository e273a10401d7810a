// What the offline commands read: one moment of a recording, or of what `terranectl snapshot`
// wrote.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ipc/terranectl/context.hpp"
#include "policies/trace/moment.hpp"

namespace terrane::daemon::ctl {

// Nothing, with `code` set and a message printed, when the file gives none.
std::optional<policies::trace::moment> read_moment(const ipc::ctl::context& with,
                                                   const std::string& file,
                                                   std::optional<std::uint64_t> number, int& code);

}  // namespace terrane::daemon::ctl

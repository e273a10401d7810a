// What the offline commands read: recordings, the folders that the daemon writes them to, and one
// moment of either or of what `terranectl snapshot` wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ipc/terranectl/context.hpp"
#include "policies/trace/moment.hpp"

namespace terrane::daemon::ctl {

// A file itself; of a folder its recordings, oldest first.
std::vector<std::filesystem::path> recordings_of(const std::filesystem::path& path);

// The snapshot of that number, or the last one; of a folder, that of all its recordings. Where the
// newest file has just been begun, the last one is in an older file, as one with a number may be;
// which file that is is printed. Nothing, with `code` set and a message printed, when there is
// none.
std::optional<policies::trace::moment> read_moment(const ipc::ctl::context& with,
                                                   const std::string& path,
                                                   std::optional<std::uint64_t> number, int& code);

}  // namespace terrane::daemon::ctl

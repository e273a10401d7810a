#include "daemon/terranectl/recording.hpp"

#include <filesystem>
#include <fstream>

namespace terrane::daemon::ctl {

std::optional<policies::trace::moment> read_moment(const ipc::ctl::context& with,
                                                   const std::string& file,
                                                   std::optional<std::uint64_t> number, int& code) {
  std::ifstream in(file, std::ios::binary);
  std::error_code fault;
  if (!in.is_open() || std::filesystem::is_directory(file, fault)) {
    code = with.fail("cannot read " + file);
    return std::nullopt;
  }
  auto found = policies::trace::moment_of(in, number);
  if (!found) {
    code = with.fail(file + ": " + found.error());
    return std::nullopt;
  }
  return std::move(*found);
}

}  // namespace terrane::daemon::ctl

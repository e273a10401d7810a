#include "daemon/terranectl/recording.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "ipc/terranectl/words.hpp"

namespace terrane::daemon::ctl {

namespace {

namespace fs = std::filesystem;
using policies::trace::moment;
using policies::trace::no_moment;

// The error is a sentence without its full stop, with the file's name.
tl::expected<moment, no_moment> moment_in(const fs::path& file,
                                          std::optional<std::uint64_t> number) {
  std::ifstream in(file, std::ios::binary);
  if (!in.is_open()) return tl::unexpected(no_moment{"cannot read " + file.string()});
  auto found = policies::trace::moment_of(in, number);
  if (!found) found.error().why = file.string() + ": " + found.error().why;
  return found;
}

}  // namespace

std::vector<fs::path> recordings_of(const fs::path& path) {
  std::error_code fault;
  std::vector<fs::path> files;
  if (!fs::is_directory(path, fault)) return {path};
  for (fs::directory_iterator at(path, fault), end; !fault && at != end; at.increment(fault))
    if (at->path().extension() == ".jsonl") files.push_back(at->path());
  std::ranges::sort(files);
  return files;
}

std::optional<moment> read_moment(const ipc::ctl::context& with, const std::string& path,
                                  std::optional<std::uint64_t> number, int& code) {
  std::vector<fs::path> files = recordings_of(path);
  std::string why = path + " holds no recordings (*.jsonl)";
  for (std::size_t i = files.size(); i-- > 0;) {
    const bool is_newest = i + 1 == files.size();
    auto found = moment_in(files[i], number);
    if (found) {
      if (!is_newest)
        with.err() << ipc::ctl::printable(why + "; taken from " + files[i].string()) << "\n";
      return std::move(*found);
    }
    if (is_newest) why = found.error().why;
    // What was last is in no older file, unless the newer ones have only just been begun.
    if (!number && !found.error().has_just_begun) {
      why = found.error().why;
      break;
    }
    if (i == 0 && !is_newest) why += "; nor does any older file of that folder have it";
  }
  code = with.fail(why);
  return std::nullopt;
}

}  // namespace terrane::daemon::ctl

#include "daemon/terranectl/recording.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace terrane::daemon::ctl {

namespace {

namespace fs = std::filesystem;
using policies::trace::moment;

// The error is a sentence without its full stop, with the file's name.
tl::expected<moment, std::string> moment_in(const fs::path& file,
                                            std::optional<std::uint64_t> number) {
  std::ifstream in(file, std::ios::binary);
  if (!in.is_open()) return tl::unexpected("cannot read " + file.string());
  auto found = policies::trace::moment_of(in, number);
  if (!found) return tl::unexpected(file.string() + ": " + found.error());
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
  // The newest may just have been begun.
  for (std::size_t i = files.size(); i-- > 0;) {
    auto found = moment_in(files[i], number);
    if (found) return std::move(*found);
    if (i + 1 == files.size()) why = found.error();
  }
  if (files.size() > 1) why += "; nor does any older file of that folder have it";
  code = with.fail(why);
  return std::nullopt;
}

}  // namespace terrane::daemon::ctl

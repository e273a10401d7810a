// Compiled code on disk, so that a program is compiled once per machine and not once per start.
//
// An entry is one file, written whole under another name and then renamed; it holds its key and a
// checksum, and a file that is torn, damaged or of another key counts as absent. The folder is kept
// below a size by deleting what was used longest ago. Nothing here fails: a folder that cannot be
// used is an empty cache. Any thread, several processes at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace terrane::kernels {

struct code_key {
  std::string target;  // device, driver and compiler: all the code depends on outside the program
  std::uint32_t lowering = 0;  // version of the lowering that made it
  std::uint64_t program = 0;   // fingerprint()
};

class code_cache {
 public:
  // An empty folder name: nothing is kept.
  explicit code_cache(std::string folder, std::uint64_t max_bytes = 256u << 20);

  std::optional<std::vector<std::byte>> get(const code_key& key) const;
  void put(const code_key& key, std::span<const std::byte> code) const;

  const std::string& folder() const { return folder_; }

 private:
  std::string path(const code_key& key) const;
  void drop_oldest() const;

  std::string folder_;
  std::uint64_t max_bytes_;
};

// $XDG_CACHE_HOME/terrane, else ~/.cache/terrane, else /var/cache/terrane (a service of root).
std::string default_cache_folder();

}  // namespace terrane::kernels

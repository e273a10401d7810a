#include "kernels/cache/code_cache.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace terrane::kernels {

namespace {

namespace fs = std::filesystem;

// FNV-1a, 64 bits.
std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t h = 0xcbf29ce484222325u) {
  for (std::byte b : bytes) h = (h ^ static_cast<std::uint64_t>(b)) * 0x100000001b3u;
  return h;
}

// What a file starts with: magic, then the key, then length and checksum of the code.
std::string header(const code_key& key, std::span<const std::byte> code) {
  std::uint64_t fields[] = {key.target.size(), key.lowering, key.program, code.size(), hash(code)};
  std::string out = "terrcod1";
  out.append(reinterpret_cast<const char*>(fields), sizeof fields);
  return out + key.target;
}

bool write_file(const fs::path& path, const std::string& start, std::span<const std::byte> code) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << start;
  file.write(reinterpret_cast<const char*>(code.data()), static_cast<std::streamsize>(code.size()));
  file.close();
  return file.good();
}

}  // namespace

code_cache::code_cache(std::string folder, std::uint64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {
  if (folder_.empty()) return;
  std::error_code ignored;
  if (!fs::create_directories(folder_, ignored) && ignored) return;
  // Code that this user will run: nobody else may write it.
  fs::permissions(folder_, fs::perms::group_write | fs::perms::others_write,
                  fs::perm_options::remove, ignored);
}

std::string code_cache::path(const code_key& key) const {
  std::uint64_t fields[] = {key.lowering, key.program};
  std::uint64_t name = hash(std::as_bytes(std::span(fields)),
                            hash(std::as_bytes(std::span(key.target.data(), key.target.size()))));
  char text[32];
  std::snprintf(text, sizeof text, "%016llx.code", static_cast<unsigned long long>(name));
  return (fs::path(folder_) / text).string();
}

std::optional<std::vector<std::byte>> code_cache::get(const code_key& key) const {
  if (folder_.empty()) return std::nullopt;
  std::string name = path(key);
  std::ifstream file(name, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::size_t start = header(key, {}).size();
  if (text.size() < start) return std::nullopt;
  auto code = std::as_bytes(std::span(text)).subspan(start);
  if (text.compare(0, start, header(key, code)) != 0) return std::nullopt;
  std::error_code ignored;
  fs::last_write_time(name, fs::file_time_type::clock::now(), ignored);  // used just now
  return std::vector<std::byte>(code.begin(), code.end());
}

void code_cache::put(const code_key& key, std::span<const std::byte> code) const {
  if (folder_.empty() || code.size() > max_bytes_) return;
  static std::atomic<unsigned> number{0};
  std::string name = path(key);
  std::string temporary = name + "." + std::to_string(::getpid()) + "." + std::to_string(number++);
  std::error_code failed;
  if (write_file(temporary, header(key, code), code)) {
    fs::rename(temporary, name, failed);
  } else {
    failed = std::make_error_code(std::errc::io_error);
  }
  if (failed) fs::remove(temporary, failed);
  drop_oldest();
}

void code_cache::drop_oldest() const {
  struct entry {
    fs::file_time_type used;
    std::uint64_t bytes;
    fs::path path;
  };
  std::vector<entry> entries;
  std::uint64_t total = 0;
  std::error_code e;
  for (fs::directory_iterator it(folder_, e), end; !e && it != end; it.increment(e)) {
    std::error_code gone;  // by another process
    entry found{it->last_write_time(gone), it->file_size(gone), it->path()};
    if (gone || found.path.filename().string().find(".code") == std::string::npos) continue;
    total += found.bytes;
    entries.push_back(std::move(found));
  }
  if (total <= max_bytes_) return;
  std::sort(entries.begin(), entries.end(),
            [](const entry& a, const entry& b) { return a.used < b.used; });
  for (const entry& old : entries) {
    if (total <= max_bytes_) return;
    if (fs::remove(old.path, e)) total -= old.bytes;
  }
}

std::string default_cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return (fs::path(cache) / "terrane").string();
  }
  const char* home = std::getenv("HOME");
  if (::geteuid() != 0 && home != nullptr && *home != '\0') {
    return (fs::path(home) / ".cache" / "terrane").string();
  }
  return "/var/cache/terrane";
}

}  // namespace terrane::kernels

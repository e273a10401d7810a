#include "engine/device/cpu/host_memory.hpp"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace terrane::engine {

namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
constexpr std::size_t small_alignment = 256;

class small_memory : public device_memory {
 public:
  small_memory(std::byte* p, std::size_t bytes)
      : device_memory(reinterpret_cast<std::uint64_t>(p), bytes, p) {}
  ~small_memory() override { std::free(host()); }
};

class mapped_memory : public device_memory {
 public:
  mapped_memory(std::byte* p, std::size_t bytes, std::size_t mapped_bytes)
      : device_memory(reinterpret_cast<std::uint64_t>(p), bytes, p), mapped_bytes_(mapped_bytes) {}
  ~mapped_memory() override { ::munmap(host(), mapped_bytes_); }

 private:
  std::size_t mapped_bytes_;
};

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

tl::unexpected<error> refused(std::size_t bytes) {
  const std::uint64_t total = host_memory_bytes();
  const std::uint64_t used = read_host_memory().value_or(host_memory()).used_bytes();
  std::uint64_t available = total > used ? total - used : 0;
  return fail_short(error_code::no_room, bytes, available,
                    "the system refuses " + std::to_string(bytes) +
                        " bytes of memory: " + std::to_string(available) + " of " +
                        std::to_string(total) + " are available",
                    "cpu");
}

// More than needed is mapped, then the ends that do not fit the alignment are given back.
result<std::unique_ptr<device_memory>> map_memory(std::size_t bytes) {
  std::size_t wanted = round_up(bytes, huge_page_bytes);
  void* p = ::mmap(nullptr, wanted + huge_page_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return refused(bytes);
  auto* start = static_cast<std::byte*>(p);
  std::size_t before = round_up(reinterpret_cast<std::uint64_t>(start), huge_page_bytes) -
                       reinterpret_cast<std::uint64_t>(start);
  if (before != 0) ::munmap(start, before);
  std::byte* aligned = start + before;
  if (std::size_t after = huge_page_bytes - before; after != 0) ::munmap(aligned + wanted, after);
  ::madvise(aligned, wanted, MADV_HUGEPAGE);  // a kernel without them uses small pages
  return std::make_unique<mapped_memory>(aligned, bytes, wanted);
}

}  // namespace

result<std::unique_ptr<device_memory>> allocate_host_memory(std::size_t bytes) {
  if (bytes > host_memory_bytes()) return refused(bytes);
  if (bytes >= huge_page_bytes) return map_memory(bytes);
  std::size_t size = round_up(bytes, small_alignment);
  auto* p = static_cast<std::byte*>(std::aligned_alloc(small_alignment, size));
  if (p == nullptr) return refused(bytes);
  std::memset(p, 0, size);
  return std::make_unique<small_memory>(p, bytes);
}

std::uint64_t host_memory_bytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::optional<host_memory> read_host_memory(const std::string& proc) {
  std::ifstream file(proc + "/meminfo");
  std::string field, unit;
  std::uint64_t kilobytes = 0;
  std::optional<std::uint64_t> total, available;
  while (file >> field >> kilobytes && std::getline(file, unit)) {
    if (field == "MemTotal:") total = kilobytes;
    if (field == "MemAvailable:") available = kilobytes;
  }
  if (!total || !available) return std::nullopt;
  return host_memory{*total * 1024, *available * 1024};
}

}  // namespace terrane::engine

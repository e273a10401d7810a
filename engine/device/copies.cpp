#include "engine/device/copies.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/device/host_copies.hpp"

namespace terrane::engine {

namespace {

// Bytes between two calls of a progress function: enough that starting a copy costs little.
constexpr std::size_t staged_slice_bytes = std::size_t{4} << 20;
constexpr std::size_t direct_slice_bytes = std::size_t{128} << 20;

// Through this process.
result<void> copy_staged(device& from, device& to, const copy_range& r,
                         std::vector<std::byte>& staging) {
  if (r.from->host() != nullptr)
    return to.write(*r.to, r.to_offset, {r.from->host() + r.from_offset, r.bytes});
  if (r.to->host() != nullptr)
    return from.read(*r.from, r.from_offset, {r.to->host() + r.to_offset, r.bytes});
  staging.resize(r.bytes);
  result<void> ok = from.read(*r.from, r.from_offset, staging);
  return ok ? to.write(*r.to, r.to_offset, staging) : ok;
}

// What a direct path does not take, for lack of room or otherwise, leaves both devices whole and
// goes the long way.
bool goes_another_way(const result<void>& direct) {
  return !direct && (direct.error().code == error_code::no_room ||
                     direct.error().code == error_code::unsupported);
}

// What passes through this process is kept from one call to the next, so that a pause does not wait
// for fresh memory.
std::vector<std::byte>& staging_of_thread() {
  thread_local std::vector<std::byte> staging;
  return staging;
}

std::size_t sum_of(std::span<const copy_range> ranges) {
  std::size_t bytes = 0;
  for (const copy_range& r : ranges) bytes += r.bytes;
  return bytes;
}

// Those that follow each other at both ends are one: a copy costs a driver microseconds, however
// short it is.
std::vector<copy_range> joined(std::span<const copy_range> ranges) {
  std::vector<copy_range> out;
  out.reserve(ranges.size());
  for (const copy_range& r : ranges) {
    copy_range* last = out.empty() ? nullptr : &out.back();
    const bool follows = last != nullptr && last->from == r.from && last->to == r.to &&
                         last->from_offset + last->bytes == r.from_offset &&
                         last->to_offset + last->bytes == r.to_offset;
    if (follows)
      last->bytes += r.bytes;
    else
      out.push_back(r);
  }
  return out;
}

class calling_thread : public host_copier {
 public:
  void copy(std::span<const host_copy> copies) override {
    for (const host_copy& c : copies) std::memcpy(c.to, c.from, c.bytes);
  }
};

// All ranges at once, as far as the devices can do that.
result<void> copy_many(device& from, device& to, std::span<const copy_range> ranges,
                       host_copier& by) {
  const bool reads = ranges.front().from->host() == nullptr,
             writes = ranges.front().to->host() == nullptr;
  std::vector<std::byte>& staging = staging_of_thread();
  if (reads && writes) staging.resize(std::max(staging.size(), sum_of(ranges)));
  std::vector<host_range> read, written;
  std::byte* next = staging.data();
  for (const copy_range& r : ranges) {
    std::byte* host = next;
    if (!reads) host = r.from->host() + r.from_offset;
    if (!writes) host = r.to->host() + r.to_offset;
    next += reads && writes ? r.bytes : 0;
    read.push_back({r.from->address() + r.from_offset, host, r.bytes});
    written.push_back({r.to->address() + r.to_offset, host, r.bytes});
  }
  auto* reader = dynamic_cast<copies_many*>(&from);
  auto* writer = dynamic_cast<copies_many*>(&to);
  result<void> ok;
  if (reads && reader != nullptr) ok = reader->read_many(read, by);
  for (std::size_t k = 0; ok && reads && reader == nullptr && k < ranges.size(); k++)
    ok = from.read(*ranges[k].from, ranges[k].from_offset, {read[k].host, read[k].bytes});
  if (ok && writes && writer != nullptr) ok = writer->write_many(written, by);
  for (std::size_t k = 0; ok && writes && writer == nullptr && k < ranges.size(); k++)
    ok = to.write(*ranges[k].to, ranges[k].to_offset, {written[k].host, written[k].bytes});
  return ok;
}

}  // namespace

result<void> copy_between(device& from, const device_memory& source, std::size_t source_offset,
                          device& to, device_memory& target, std::size_t target_offset,
                          std::size_t bytes, const copy_progress& progress) {
  bool direct = to.no_direct_path(from).empty();
  std::vector<std::byte> staging;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t now =
        std::min(direct ? direct_slice_bytes : staged_slice_bytes, bytes - done);
    const copy_range r{&source, source_offset + done, &target, target_offset + done, now};
    result<void> ok = direct ? to.copy_direct(from, {&r, 1}) : copy_staged(from, to, r, staging);
    if (direct && goes_another_way(ok)) {
      direct = false;
      continue;
    }
    if (!ok) return ok;
    done += now;
    if (progress && !progress(done)) return fail(error_code::cancelled, "the copy was given up");
  }
  return {};
}

namespace {

result<void> copy_all(device& from, device& to, std::span<const copy_range> all, host_copier& by) {
  if (all.empty()) return {};
  const std::vector<copy_range> whole = joined(all);
  std::span<const copy_range> ranges = whole;
  if (to.no_direct_path(from).empty()) {
    result<void> ok = to.copy_direct(from, ranges);
    if (!goes_another_way(ok)) return ok;
  }
  // Both in this process: one is written as if it were elsewhere.
  if (ranges.front().from->host() != nullptr && ranges.front().to->host() != nullptr) {
    for (const copy_range& r : ranges) {
      result<void> ok = to.write(*r.to, r.to_offset, {r.from->host() + r.from_offset, r.bytes});
      if (!ok) return ok;
    }
    return {};
  }
  by.expect();
  // A piece at a time: what passes through this process is not to become much.
  constexpr std::size_t most_staged = std::size_t{16} << 20;
  while (!ranges.empty()) {
    std::size_t count = 1, bytes = ranges.front().bytes;
    while (count < ranges.size() && bytes + ranges[count].bytes <= most_staged)
      bytes += ranges[count++].bytes;
    result<void> ok = copy_many(from, to, ranges.first(count), by);
    if (!ok) return ok;
    ranges = ranges.subspan(count);
  }
  return {};
}

}  // namespace

host_copier& copier_of_caller() {
  static calling_thread caller;
  return caller;
}

result<void> copy_between(device& from, device& to, std::span<const copy_range> ranges) {
  return copy_all(from, to, ranges, copier_of_caller());
}

result<void> copy_between_idle(device& from, device& to, std::span<const copy_range> ranges) {
  auto* workers = dynamic_cast<host_copier*>(&from);
  if (workers == nullptr) workers = dynamic_cast<host_copier*>(&to);
  return copy_all(from, to, ranges, workers != nullptr ? *workers : copier_of_caller());
}

}  // namespace terrane::engine

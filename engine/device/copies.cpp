#include "engine/device/copies.hpp"

#include <algorithm>
#include <vector>

#include "engine/device/host_copies.hpp"

namespace terrane::engine {

namespace {

// Bytes between two calls of a progress function: enough that starting a copy costs little.
constexpr std::size_t staged_slice_bytes = std::size_t{4} << 20;
constexpr std::size_t direct_slice_bytes = std::size_t{32} << 20;

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

// All ranges at once, where one side is memory of this process and the other can do that.
bool copy_many(device& from, device& to, std::span<const copy_range> ranges,
               result<void>& outcome) {
  const bool writes = ranges.front().from->host() != nullptr;
  auto* many = dynamic_cast<copies_many*>(writes ? &to : &from);
  if (many == nullptr || (!writes && ranges.front().to->host() == nullptr)) return false;
  std::vector<host_range> all;
  for (const copy_range& r : ranges) {
    const std::uint64_t source = r.from->address() + r.from_offset,
                        target = r.to->address() + r.to_offset;
    all.push_back(writes ? host_range{target, r.from->host() + r.from_offset, r.bytes}
                         : host_range{source, r.to->host() + r.to_offset, r.bytes});
  }
  outcome = writes ? many->write_many(all) : many->read_many(all);
  return true;
}

}  // namespace

result<void> copy_between(device& from, const device_memory& source, std::size_t source_offset,
                          device& to, device_memory& target, std::size_t target_offset,
                          std::size_t bytes, const copy_progress& progress) {
  const bool direct = to.no_direct_path(from).empty();
  const std::size_t slice = direct ? direct_slice_bytes : staged_slice_bytes;
  std::vector<std::byte> staging;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t now = std::min(slice, bytes - done);
    const copy_range r{&source, source_offset + done, &target, target_offset + done, now};
    result<void> ok = direct ? to.copy_direct(from, {&r, 1}) : copy_staged(from, to, r, staging);
    if (!ok) return ok;
    done += now;
    if (progress && !progress(done)) return fail(error_code::cancelled, "the copy was given up");
  }
  return {};
}

result<void> copy_between(device& from, device& to, std::span<const copy_range> ranges) {
  if (ranges.empty()) return {};
  if (to.no_direct_path(from).empty()) return to.copy_direct(from, ranges);
  if (result<void> ok; copy_many(from, to, ranges, ok)) return ok;
  std::vector<std::byte> staging;
  for (const copy_range& r : ranges) {
    result<void> ok = copy_staged(from, to, r, staging);
    if (!ok) return ok;
  }
  return {};
}

}  // namespace terrane::engine

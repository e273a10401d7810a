#include "engine/device/path_probe.hpp"

#include <vector>

namespace terrane::engine {

namespace {

constexpr std::size_t probe_bytes = (std::size_t{1} << 20) + 4096;

std::vector<std::byte> noise(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> out(bytes);
  std::uint32_t state = seed;
  for (std::byte& b : out) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<std::byte>(state >> 24);
  }
  return out;
}

}  // namespace

result<void> probe_path(device& from, device& to,
                        const std::function<result<void>(const copy_range&)>& copy) {
  result<std::unique_ptr<device_memory>> source = from.allocate(probe_bytes, memory_use::scratch);
  if (!source) return tl::unexpected<error>(source.error());
  result<std::unique_ptr<device_memory>> target = to.allocate(probe_bytes, memory_use::scratch);
  if (!target) return tl::unexpected<error>(target.error());
  const std::vector<std::byte> sent = noise(probe_bytes, 1);
  std::vector<std::byte> arrived = noise(probe_bytes, 2);
  result<void> ok = from.write(**source, 0, sent);
  if (ok) ok = to.write(**target, 0, arrived);
  if (ok) ok = copy({source->get(), 0, target->get(), 0, probe_bytes});
  if (ok) ok = to.read(**target, 0, arrived);
  if (ok && arrived != sent)
    ok = fail(error_code::contract,
              "what was copied from " + from.info().name + " did not arrive whole", to.info().name);
  return ok;
}

const std::string& known_paths::ask(const std::string& name,
                                    const std::function<result<void>()>& probe) {
  std::lock_guard lock(access_);
  if (auto known = refusals_.find(name); known != refusals_.end()) return known->second;
  // A card that is full now need not be so for ever, but steps ask at each copy.
  static const std::string full = "a card has no room to try it";
  const auto now = std::chrono::steady_clock::now();
  if (auto last = had_no_room_.find(name);
      last != had_no_room_.end() && now - last->second < patience_)
    return full;
  result<void> ok = probe();
  if (!ok && ok.error().code == error_code::no_room) {
    had_no_room_[name] = now;
    return full;
  }
  return refusals_.emplace(name, ok ? "" : to_string(ok.error())).first->second;
}

}  // namespace terrane::engine

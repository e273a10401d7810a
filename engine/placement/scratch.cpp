#include "engine/placement/scratch.hpp"

#include <algorithm>
#include <optional>

#include "engine/kv/page_pool.hpp"
#include "engine/session/workspace.hpp"

namespace terrane::engine {

std::uint64_t attention_bytes(const std::vector<const device*>& devices,
                              const engine_options& options) {
  if (options.attention_bytes != 0) return options.attention_bytes;
  std::optional<std::uint64_t> smallest;
  for (const device* d : devices) {
    if (d->info().host_memory) continue;
    const std::uint64_t own = usual_attention_bytes(d->info());
    smallest = std::min(smallest.value_or(own), own);
  }
  return smallest.value_or(usual_attention_bytes(devices.front()->info()));
}

std::uint64_t scratch_bytes(device& on, const std::vector<const device*>& all, const model& of,
                            const engine_options& options) {
  return workspace::bytes(
      on, of,
      {options.rows, options.sessions, options.context_tokens, attention_bytes(all, options)});
}

std::uint32_t automatic_rows(const std::vector<device*>& devices, const model& of,
                             engine_options options) {
  constexpr std::uint32_t most = 2048, share = 256;
  const std::uint32_t usual = engine_options().rows;
  const std::vector<const device*> all(devices.begin(), devices.end());
  if (std::ranges::all_of(all, [](const device* d) { return d->info().host_memory; })) return usual;
  options.attention_bytes = 1;  // partial results have a bound of their own
  auto bytes_with = [&](device& on, std::uint32_t rows) {
    options.rows = rows;
    return scratch_bytes(on, all, of, options);
  };
  std::uint32_t rows = most;
  for (device* on : devices)
    while (rows > usual &&
           bytes_with(*on, rows) - bytes_with(*on, usual) > on->info().memory_bytes / share)
      rows /= 2;
  return std::max(rows, usual);
}

std::uint32_t kv_pages_together() { return page_pool::pages_together; }

std::uint64_t kv_page_bytes(const model& of) { return kernels::page_bytes(of.config().attention); }

}  // namespace terrane::engine

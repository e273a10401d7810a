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

std::uint32_t kv_pages_together() { return page_pool::pages_together; }

std::uint64_t kv_page_bytes(const model& of) { return kernels::page_bytes(of.config().attention); }

}  // namespace terrane::engine

#include "engine/placement/scratch.hpp"

#include "engine/kv/page_pool.hpp"
#include "engine/session/workspace.hpp"

namespace terrane::engine {

std::uint64_t scratch_bytes(device& on, const model& of, const engine_options& options) {
  const std::uint64_t attention =
      options.attention_bytes != 0 ? options.attention_bytes : usual_attention_bytes(on.info());
  return workspace::bytes(on, of,
                          {options.rows, options.sessions, options.context_tokens, attention});
}

std::uint32_t kv_pages_together() { return page_pool::pages_together; }

std::uint64_t kv_page_bytes(const model& of) { return kernels::page_bytes(of.config().attention); }

}  // namespace terrane::engine

// Whether a request may begin, by the quotas of policies: asked with the sessions as they are at
// this moment and with what the request would reserve, so that requests which come between two
// looks of the control loop are counted. One request at a time; the thread that admits them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/loop/control_loop.hpp"
#include "daemon/telemetry/user_names.hpp"
#include "engine/engine.hpp"
#include "policies/pipeline/admission.hpp"

namespace terrane::daemon {

// KV that generate() would reserve, by device: for all tokens that the session then holds and the
// longest reply that is asked for, in whole pages, less what the session has. `prompt_tokens`: of
// the request.
std::vector<std::uint64_t> kv_needed(const engine::model& m, const engine::engine_options& options,
                                     const engine::engine_status& status,
                                     engine::session_id session, std::size_t prompt_tokens,
                                     std::uint32_t max_tokens);

std::optional<policies::admission_refusal> over_quota(engine::inference_engine& e,
                                                      const control_loop& loop, user_names& users,
                                                      const engine::generate_request& request);

}  // namespace terrane::daemon

// The sentences from which explain, plan and why build their texts. Each ends without a newline,
// but for lists. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "policies/explain/record.hpp"

namespace terrane::policies {

// "vram.used_ratio is 96 %, above 92 % for 5 s of 5 s; sampled 0.2 s ago (vram.yaml:6:12)"
std::string sentence(const condition_value& c);
// The same where it is told what a policy waits for: "vram.used_ratio is above 92 % for 5 s (now
// 90 %, met for 0 ms, sampled 0.2 s ago: not met) (vram.yaml:6:12)"
std::string awaited(const condition_value& c);
// "layer.29.ffn stays on vulkan:x: no room, it needs 1 GiB and cpu has 0.5 GiB free"
std::string sentence(const candidate& c);
// "move layer.29.ffn from vulkan:x to cpu, 12 MiB: vram.used_ratio is 96 % (above 92 %)"
std::string sentence(const planned_move& m);
// A line for each move, or for each run of moves that are alike, ended with a newline.
std::string move_lines(const std::vector<planned_move>& moves, const std::string& lead);
// "policy 'vram-spill' engaged for vulkan:x"
std::string headline(const decision_record& r);

}  // namespace terrane::policies

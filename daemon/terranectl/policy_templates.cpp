#include "daemon/terranectl/policy_templates.hpp"

namespace terrane::daemon::ctl {

const std::string_view yaml_policy_template =
    R"(# @NAME@: say in a sentence whom it is for and what it does. As it stands, it keeps a part of each GPU's
# memory free for other programs, such as a game.
apiVersion: terrane/v1
policies:
  - name: @NAME@
    for_each: gpu        # each GPU is watched by itself; also cpu, device, session, tenant, part, host
    # It engages when this has been so for five seconds ...
    enter: {metric: vram.used_ratio, above: 92%, held: 5s}
    # ... and lets go when this has been so for half a minute. Between the two levels nothing happens.
    leave: {metric: vram.used_ratio, below: 84%, held: 30s}
    cooldown: 20s        # at least this long between two plans for one GPU
    # The topmost layers go to the CPU, only as many as bring the GPU down to the leave level.
    do: {move: layers, order: top_down, until: leave, to: cpu}
    undo: restore        # when it lets go, what it moved goes home
    mode: enforce        # with shadow it only says what it would do
)";

const std::string_view lua_policy_template =
    R"(-- @NAME@: say in a sentence whom it is for and what it does. As it stands, it keeps a part of each GPU's
-- memory free for other programs, such as a game.
policy "@NAME@" {
  for_each = "gpu",      -- each GPU is watched by itself; also cpu, device, session, tenant, part, host
  -- It engages when this has been so for five seconds, and lets go when this has been so for half a
  -- minute. Both are data, judged at every tick; no code of yours runs for that.
  enter = above("vram.used_ratio", "92%"):held "5s",
  leave = below("vram.used_ratio", "84%"):held "30s",
  cooldown = "20s",      -- at least this long between two plans for one GPU
  -- Called when it engages. It sees the machine as it was at that moment, and can only say what it
  -- wants: out:move, out:spill, out:fetch, out:decline, each with a reason that people will read.
  plan = function (gpu, out)
    local excess = gpu.vram.used - 0.84 * gpu.vram.total
    for part in gpu:parts():movable():top_down():until_bytes(excess) do
      out:move(part, "cpu", "others need the GPU's memory")
    end
  end,
  undo = "restore",      -- when it lets go, what it moved goes home
  mode = "enforce",      -- with "shadow" it only says what it would do
}
)";

const std::string_view test_template =
    R"(# The test of the policy beside it: terranectl policy test @NAME@.test.yaml
scenario: A program that needs the GPU's memory gets it within five seconds, and the layers come back
machine:
  devices:
    - {name: cpu, total: 32GiB}
    - {name: gpu, total: 8GiB}
  layers: {count: 6, attn: 512MiB, ffn: 512MiB, on: gpu}    # 6 GiB
# What happens, by the second. `expect` is every move since the step before; a step without it says
# that there were none.
trace:
  - {at: 10s, set: {gpu: {others: 1.5GiB}}}    # another program takes 1.5 GiB: 93.8 % are in use
  - at: 14s                                    # four seconds are not enough
  - at: 15s
    expect:
      - move layer.5.ffn from gpu to cpu
      - move layer.5.attn from gpu to cpu
    placed: {layer.5.*: cpu, layer.4.*: gpu}   # where these moves lead
  - {at: 60s, set: {gpu: {others: 0GiB}}}      # it ends
  - at: 89s
  - at: 90s
    expect:
      - move layer.5.attn from cpu to gpu
      - move layer.5.ffn from cpu to gpu
    placed: {layer.*: gpu}
  - at: 300s                                   # and all is quiet
)";

}  // namespace terrane::daemon::ctl

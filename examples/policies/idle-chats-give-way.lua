-- For a GPU that many chats share: when it fills up, the chats that have been idle longest give their
-- KV cache to the host first, and layers stay where they are. Watch it in shadow mode before you let
-- it act: remove the line `mode`.
policy "idle-chats-give-way" {
  mode = "shadow",
  for_each = "gpu",
  enter = above("vram.used_ratio", "90%"):held "5s",
  leave = below("vram.used_ratio", "80%"):held "1m",
  cooldown = "30s",
  plan = function (gpu, out)
    local excess = gpu.vram.used - 0.80 * gpu.vram.total
    local idle = gpu:sessions():idle_for(30):longest_idle()
    if #idle == 0 then return out:decline("every chat is in use") end
    for session in idle:until_bytes(excess) do
      out:spill(session.kv, { keep_tokens = 256, to = "host" }, "idle while the GPU is full")
    end
  end,
  undo = "restore",
}

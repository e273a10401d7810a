policy = function(name) return function(t) return t end end
local p = policy "vram-spill" {
  for_each = "gpu",
  cooldown = "20s",
  plan = function(gpu, out)
    local excess = gpu.used - 0.84 * gpu.total
    for i, part in ipairs(gpu.parts) do
      if excess <= 0 then break end
      out[#out + 1] = part.name .. " to cpu"
      excess = excess - part.bytes
    end
    return out
  end,
}
local out = p.plan({used = 95, total = 100, parts = {{name = "a", bytes = 5}, {name = "b", bytes = 9}}}, {})
print(table.concat(out, ", "))

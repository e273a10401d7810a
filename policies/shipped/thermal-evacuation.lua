-- A GPU that stays too hot gives all its parts to a device that is cool, the largest first, and gets
-- them back once it has been cool for two minutes.

-- The roomiest device that is known to be cool. A CPU without a sensor is taken as a last resort; one
-- that says it is hot is not.
local function refuge_from(gpu)
  local others = devices():except(gpu)
  local cool = others:cooler_than(75):most_free()
  if cool then return cool end
  for cpu in others:cpus() do
    if cpu.temp_c == nil then return cpu end
  end
end

policy "thermal-evacuation" {
  for_each = "gpu",
  priority = 90,
  enter = above("temp_c", 85):held "3s",
  leave = below("temp_c", 70):held "2m",
  plan = function (gpu, out)
    local refuge = refuge_from(gpu)
    if not refuge then return out:decline("no cool device to go to") end
    for part in gpu:residents():movable():largest_first() do
      out:move(part, refuge, "the GPU is over 85 C")
    end
  end,
  undo = function (gpu, out) out:restore(gpu, "under 70 C for 2 min") end,
}

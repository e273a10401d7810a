local function f(n, ...) if n == 0 then return ... end return f(n - 1, n, ...) end
print(f(5), select("#", f(3)), (f(2)))
local t = setmetatable({}, {__index = function(t, k) return k .. "!" end, __call = function(self, x) return x end,
  __concat = function() return "cat" end, __pow = function() return 9 end, __tostring = function() return "T" end,
  __lt = function() return true end, __eq = function() return true end, __pairs = function(t) return next, {1}, nil end})
print(t.x, t(3), t .. 1, t ^ 2, tostring(t), t < t, t == {}) for k, v in pairs(t) do print(k, v) end

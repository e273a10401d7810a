local m = {} local t = setmetatable({1}, m) m.__call = t m.__len = function() return 1 << 60 end
print(#t, pcall(t)) print(pcall(rawset, list, 1, 0), pcall(table.sort, list), list[1], host("x"), host(0/0))
for k in next, {1}, nil, t do break end
local s = "x" for i = 1, 13 do s = s .. s end print(#s, pcall(function() return s .. s .. s end))
local function r() return 1 + r() end print(pcall(r))

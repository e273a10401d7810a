print(pcall(error, "x"), pcall(error, {}), xpcall(error, function(e) return e end, "y"))
local ok, e = pcall(function() local x = nil; return x.y end) print(ok, e)
print(pcall(string.rep), pcall(table.concat, {{}}), select(2, pcall(error, "z", 2)))
assert(tonumber("10") == 10, "no") error("end")

print(("abc"):upper():lower():reverse():sub(2, -1), ("a.b"):find(".", 1, true), ("x"):byte(), string.char(65))
print(string.format("%5.2f|%-4d|%s|%x|%g|%%|%c|%10s", 3.14159, 42, {}, 255, 1e20, 66, "r"))
local t = {5, 2, 8} table.sort(t) table.sort(t, function(a, b) return a > b end) table.insert(t, 1, 9) table.remove(t)
print(table.concat(t, ","), table.unpack(t), table.pack(1, nil).n, #table.move(t, 1, 2, 3))
print(math.floor(2.5), math.ceil(2.5), math.max(1, 2), math.min(1, 2), math.sqrt(2), math.exp(1), math.log(8, 2),
  math.fmod(7, 3), math.modf(2.5), math.abs(-1), math.tointeger(2.0), math.type(1), math.ult(1, 2), math.pi, math.huge)
print(next({a = 1}), rawget(list, 1), rawlen(list), rawequal(t, t), rawset({}, 1, 2), type(list), getmetatable(t))

local sum = 0
for i = 1, 10, 2 do if i == 5 then goto continue end sum = sum + i ::continue:: end
for k, v in pairs({a = 1, b = 2, 10, 20, [1.5] = 3, [true] = 4}) do print(k, v) end
for i, v in ipairs{1, 2, nil, 4} do print(i, v) end
while sum > 0 do sum = sum - 7 if sum < 5 then break end end
repeat local x = sum sum = sum + 1 until x > 3
do local a <const> = 5 print(a, sum) end

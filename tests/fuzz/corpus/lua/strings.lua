print("a\tb\x41\u{20AC}\065\z
   c", 'q"', [[long
text]], [==[ ]] ]==]) -- comment
--[[ long
comment ]] print(0x1p-4, 1e+10, .5, 3., 0xA, 1//1)

---@meta
-- What a Lua policy of Terrane can name, for lua-language-server. Never run.
-- Made by `terranectl policy stubs`; do not edit.

--- the name of a metric
---@alias metric_name "vram.used_ratio"|"vram.used"|"vram.free"|"vram.total"|"vram.ours"|"vram.others"|"yield.asked"|"temp_c"|"temp_limit_c"|"temp_shutdown_c"|"temp_margin_c"|"power_w"|"power_limit_w"|"power_ratio"|"utilisation"|"throttle.heat"|"throttle.power"|"fan_ratio"|"context.tokens"|"context.used_ratio"|"idle_s"|"kv.bytes"|"kv.gpu_bytes"|"kv.reserved_bytes"|"tenant.kv_bytes"|"tenant.gpu_kv_bytes"|"tenant.reserved_bytes"|"tenant.sessions"|"part.bytes"|"part.weight_bytes"|"part.kv_bytes"|"part.age_s"|"host.memory_used_ratio"|"host.memory_available"|"host.memory_total"|"host.pressure"|"host.cpu_pressure"|"host.cpu_used_ratio"|"host.cpu_others_ratio"|"host.time"|"host.weekday"|"host.on_battery"|"host.battery_ratio"|"model.bytes"|"model.kv_bytes"|"promotion.on"

--- what a device is
---@alias device_kind "cpu"|"gpu"|"other"

--- what a part is
---@alias part_kind "embedding"|"attention"|"feed_forward"|"expert"|"head"

--- what a policy is judged for
---@alias scope_name "gpu"|"cpu"|"device"|"session"|"tenant"|"part"|"host"

--- whether a policy acts
---@alias mode_name "enforce"|"shadow"

--- what a spill takes
---@alias spilling "kv"|"cheaper"

--- a device, its name, or where to look
---@alias target "cpu"|"host"|"most_free"|"most_free_gpu"|"coolest"|"itself"|device|string

--- an object that a policy is judged for
---@alias judged device|session|tenant|part|host

--- what stands in a policy's braces
---@class policy_table
---@field for_each scope_name what it is judged for: gpu, cpu, device, session, tenant, part or host
---@field only? string|string[] the names of those objects, or patterns; default: all
---@field mode? mode_name whether it acts or only says what it would do; default: enforce
---@field priority? integer who is asked first: higher goes before lower; default: 50
---@field enter condition when it begins, with a metric and a limit
---@field leave condition when it ends; without a second level a policy flaps
---@field emergency? condition a level past 'enter' that waits for neither its hold nor the cool-down; default: none
---@field cooldown? string at least this long between two plans for one object; default: 0
---@field min_stay? string parts that arrived less than this ago are left alone; default: 5s; 0 with 'yield'
---@field flapping? flapping_table what came home so often stays away for as long; default: {times: 3, per: 10m}
---@field limit? limit_table how much it may move in what time; one larger move goes alone; default: none
---@field quota? quota_table how much KV a user may hold, reserved pages included; a request that would pass it is refused unless what the policy does makes room; default: none
---@field plan fun(object: judged, out: recorder) called when it begins; says through 'out' what it wants
---@field undo? "restore"|fun(object: judged, out: recorder) what happens when it lets go: a function, or what it moved goes home; default: nothing is undone

--- a policy's 'limit'
---@class limit_table
---@field bytes number|string how much, such as 4GiB
---@field per string in what time, such as 10s

--- a policy's 'flapping'
---@class flapping_table
---@field times integer how often something may come home, such as 3
---@field per string in what time, such as 10m

--- a policy's 'quota'
---@class quota_table
---@field bytes number|string how much, such as 4GiB
---@field on? string where: all, gpu for all GPUs together, a driver such as vulkan, a device's name or a pattern; default: all

--- how KV is spilled
---@class spill_options
---@field what? spilling kv of a session; cheaper of a device; default: kv
---@field bytes? number|string of cheaper: how much must leave the device
---@field to? target the device that the KV goes to; default: cpu
---@field keep_tokens? integer the newest tokens whose KV stays; default: 0

--- a device as it was when the plan began
---@class device
---@field name string its name, such as vulkan:<uuid>
---@field kind device_kind what it is
---@field vram vram its memory
---@field room number? bytes that a plan may use: free ones less the device's reserve
---@field ["yield.asked"] boolean? whether someone wants the device's memory back
---@field temp_c number? the device's temperature
---@field temp_limit_c number? the temperature at which the device slows itself down
---@field temp_shutdown_c number? the temperature at which the device switches itself off
---@field temp_margin_c number? degrees left until the device slows itself down
---@field power_w number? the power the device draws
---@field power_limit_w number? the power the device may draw
---@field power_ratio number? share of its power limit that the device draws
---@field utilisation number? share of time in which the device computed, for anyone
---@field ["throttle.heat"] boolean? whether heat makes the device slow down
---@field ["throttle.power"] boolean? whether its power limit or supply makes the device slow down
---@field fan_ratio number? share of full speed at which the device's fan turns
local device_class = {}

--- the parts that are on it
---
---     gpu:parts()
---@return part_list
function device_class:parts() end

--- the parts that are on it
---
---     gpu:residents()
---@return part_list
function device_class:residents() end

--- the sessions with KV on it
---
---     gpu:sessions()
---@return session_list
function device_class:sessions() end

--- a device's memory, whatever it is made of
---@class vram
---@field used_ratio number? share of the device's memory in use by everyone
---@field used number? the device's memory in use by everyone
---@field free number? what could still be allocated on the device
---@field total number? the device's memory
---@field ours number? the device's memory in use by this daemon
---@field others number? the card's memory in use by other programs
local vram_class = {}

--- a part of the model
---@class part
---@field name string its name, such as layer.3.attn
---@field kind part_kind what it is
---@field layer integer its layer; -1 for the embedding and the head
---@field device string the name of the device that it is on
---@field bytes integer what moves with it: weights and the KV beside it
---@field weight_bytes integer its weights
---@field kv_bytes integer its KV cache on its device
---@field movable boolean whether it can be moved at all
---@field pinned boolean whether the administrator wants it to stay
---@field age_s number? seconds since its last move; nil when it never moved
local part_class = {}

--- a session
---@class session
---@field id string its name
---@field tenant string the user whose it is
---@field context_tokens integer tokens in its context
---@field idle_s number seconds since its last token
---@field kv kv its KV cache
---@field home string where its KV belongs: a device, or empty for beside the parts that use it
local session_class = {}

--- a session's KV cache
---@class kv
---@field bytes integer its bytes, wherever they are
---@field reserved_bytes integer of these, what its running reply has reserved and not written yet
local kv_class = {}

--- its bytes on one device
---
---     sessions()[1].kv:bytes_on(gpu)
---@param device device|string
---@return integer
function kv_class:bytes_on(device) end

--- a user who has sessions
---@class tenant
---@field name string the user's name
---@field kv_bytes number? the KV cache of all the user's sessions
---@field gpu_kv_bytes number? of this, what is on GPUs
---@field reserved_bytes number? of this, what running replies have reserved and not written yet
local tenant_class = {}

--- the user's sessions
---
---     tenants()[1]:sessions()
---@return session_list
function tenant_class:sessions() end

--- the host
---@class host
---@field memory_used_ratio number? share of the host's memory in use
---@field memory_available number? the host's memory that could still be used
---@field memory_total number? the host's memory
---@field pressure number? time in which a task waited for memory, average of 10 s
---@field cpu_pressure number? time in which a task waited for a processor, average of 10 s
---@field cpu_used_ratio number? share of all processors in use by everyone
---@field cpu_others_ratio number? share of all processors in use by other programs, such as a compiler
---@field time number? the local time of day
---@field weekday number? the local day of the week
---@field on_battery boolean? whether the host runs on its battery
---@field battery_ratio number? charge of the host's batteries
local host_class = {}

--- a list of devices
---@class device_list
---@field [integer] device? an item, from 1 on
---@operator len: integer
---@operator call: device?
local device_list_class = {}

--- all but one
---
---     devices():except(gpu)
---@param name device|string
---@return device_list
function device_list_class:except(name) end

--- those that are GPUs
---
---     devices():gpus()
---@return device_list
function device_list_class:gpus() end

--- those that are the CPU's
---
---     devices():cpus()
---@return device_list
function device_list_class:cpus() end

--- those known to be below so many degrees Celsius
---
---     devices():cooler_than(75)
---@param number number
---@return device_list
function device_list_class:cooler_than(number) end

--- those with so many bytes free
---
---     devices():with_room(GiB(4))
---@param number number
---@return device_list
function device_list_class:with_room(number) end

--- the one with most room, or nil
---
---     devices():gpus():most_free()
---@return device?
function device_list_class:most_free() end

--- the coolest one, or nil
---
---     devices():coolest()
---@return device?
function device_list_class:coolest() end

--- a list of parts
---@class part_list
---@field [integer] part? an item, from 1 on
---@operator len: integer
---@operator call: part?
local part_list_class = {}

--- those that can be moved and are not pinned
---
---     gpu:parts():movable()
---@return part_list
function part_list_class:movable() end

--- from the head down
---
---     gpu:parts():top_down()
---@return part_list
function part_list_class:top_down() end

--- from the embedding up
---
---     gpu:parts():bottom_up()
---@return part_list
function part_list_class:bottom_up() end

--- most bytes first
---
---     gpu:parts():largest_first()
---@return part_list
function part_list_class:largest_first() end

--- fewest bytes first
---
---     gpu:parts():smallest_first()
---@return part_list
function part_list_class:smallest_first() end

--- those of one kind
---
---     parts():of_kind("expert")
---@param kind part_kind
---@return part_list
function part_list_class:of_kind(kind) end

--- those named like a pattern with * and ?
---
---     parts():matching("layer.1?.ffn")
---@param name string
---@return part_list
function part_list_class:matching(name) end

--- those on one device
---
---     parts():on("cpu")
---@param name device|string
---@return part_list
function part_list_class:on(name) end

--- as many as free a number of bytes; a matrix that parts share becomes free with the last
---
---     gpu:parts():top_down():until_bytes(GiB(2))
---@param number number
---@return part_list
function part_list_class:until_bytes(number) end

--- at most so many
---
---     gpu:parts():largest_first():first(4)
---@param number number
---@return part_list
function part_list_class:first(number) end

--- a list of sessions
---@class session_list
---@field [integer] session? an item, from 1 on
---@operator len: integer
---@operator call: session?
local session_list_class = {}

--- longest idle first
---
---     sessions():longest_idle()
---@return session_list
function session_list_class:longest_idle() end

--- most KV bytes first
---
---     sessions():largest_first()
---@return session_list
function session_list_class:largest_first() end

--- fewest KV bytes first
---
---     sessions():smallest_first()
---@return session_list
function session_list_class:smallest_first() end

--- those idle for more than so many seconds
---
---     sessions():idle_for(60)
---@param number number
---@return session_list
function session_list_class:idle_for(number) end

--- those with KV on one device
---
---     sessions():on(gpu)
---@param name device|string
---@return session_list
function session_list_class:on(name) end

--- those of one user
---
---     sessions():of_tenant("alice")
---@param name string
---@return session_list
function session_list_class:of_tenant(name) end

--- as many as reach a number of bytes
---
---     sessions():longest_idle():until_bytes(GiB(1))
---@param number number
---@return session_list
function session_list_class:until_bytes(number) end

--- at most so many
---
---     sessions():largest_first():first(1)
---@param number number
---@return session_list
function session_list_class:first(number) end

--- a list of tenants
---@class tenant_list
---@field [integer] tenant? an item, from 1 on
---@operator len: integer
---@operator call: tenant?
local tenant_list_class = {}

--- most KV bytes first
---
---     tenants():largest_first()
---@return tenant_list
function tenant_list_class:largest_first() end

--- at most so many
---
---     tenants():first(1)
---@param number number
---@return tenant_list
function tenant_list_class:first(number) end

--- what 'enter', 'leave' and 'emergency' hold
---@class condition
local condition_class = {}

--- the same, but met once it has been so for that long
---
---     above("vram.used_ratio", "92%"):held "5s"
---@param time string
---@return condition
function condition_class:held(time) end

--- the 'out' of a plan: it writes down what the plan wants
---@class recorder
local recorder_class = {}

--- move parts to another device
---
---     out:move(gpu:parts()[1], "cpu", "others need the memory")
---@param part part|string
---@param to target
---@param reason string
function recorder_class:move(part, to, reason) end

--- move KV away from where it is, or what is cheaper to have away
---
---     out:spill(sessions()[1].kv, { keep_tokens = 1024, to = "host" }, "idle")
---@param kv kv|session|device
---@param options spill_options
---@param reason string
function recorder_class:spill(kv, options, reason) end

--- bring a session's KV cache home
---
---     out:fetch(sessions()[1].kv, nil, "woke up")
---@param kv kv|session
---@param to target?
---@param reason string
function recorder_class:fetch(kv, to, reason) end

--- bring home what this policy moved
---
---     out:restore(gpu, "cool again")
---@param object any
---@param reason string
function recorder_class:restore(object, reason) end

--- do nothing, and say why
---
---     out:decline "no cool device has room"
---@param reason string
function recorder_class:decline(reason) end

--- give all memory of a device back and keep away from it
---
---     out:yield("a game wants the card")
---@param reason string
function recorder_class:yield(reason) end

--- Lua's functions of texts; also methods of texts
---@class stringlib
string = {}

--- the numbers of the bytes from i to j
---
---     string.byte("a")
---@param s string
---@param i? integer
---@param j? integer
---@return integer
function string.byte(s, i, j) end

--- the text of these bytes
---
---     string.char(97, 98)
---@param ... integer
---@return string
function string.char(...) end

--- where a text begins and ends in another; there are no patterns
---
---     string.find("layer.1.ffn", ".ffn", 1, true)
---@param s string
---@param wanted string
---@param from? integer
---@param plain? true
---@return integer?
---@return integer?
function string.find(s, wanted, from, plain) end

--- values written as the form says, without %p, %a and %q
---
---     string.format("%d %%", 92)
---@param form string
---@param ... any
---@return string
function string.format(form, ...) end

--- how many bytes
---
---     string.len("ab")
---@param s string
---@return integer
function string.len(s) end

--- in small letters, ASCII only
---
---     string.lower("A")
---@param s string
---@return string
function string.lower(s) end

--- its bytes backwards
---
---     string.reverse("ab")
---@param s string
---@return string
function string.reverse(s) end

--- the bytes from i to j
---
---     string.sub("layer", 1, 2)
---@param s string
---@param i integer
---@param j? integer
---@return string
function string.sub(s, i, j) end

--- in capital letters, ASCII only
---
---     string.upper("a")
---@param s string
---@return string
function string.upper(s) end

--- Lua's functions of lists
---@class tablelib
table = {}

--- the items as one text
---
---     table.concat({1, 2}, ", ")
---@param list table
---@param between? string
---@param i? integer
---@param j? integer
---@return string
function table.concat(list, between, i, j) end

--- puts a value at a position, or at the end
---
---     table.insert({}, 1)
---@param list table
---@param position any
---@param value? any
function table.insert(list, position, value) end

--- copies items to another place of the list
---
---     table.move({1, 2}, 1, 1, 2)
---@param list table
---@param from integer
---@param last integer
---@param to integer
---@return table
function table.move(list, from, last, to) end

--- a list of the arguments
---
---     table.pack(1, 2)
---@param ... any
---@return table
function table.pack(...) end

--- takes an item out, the last by default
---
---     table.remove({1})
---@param list table
---@param position? integer
---@return any
function table.remove(list, position) end

--- sorts the list; equal items keep their order
---
---     table.sort({2, 1})
---@param list table
---@param before? fun(a: any, b: any): boolean
function table.sort(list, before) end

--- the items, at most 250
---
---     table.unpack({1, 2})
---@param list table
---@param i? integer
---@param j? integer
---@return any
function table.unpack(list, i, j) end

--- Lua's functions of numbers
---@class mathlib
---@field huge number infinity
---@field pi number half of a circle's turn
---@field maxinteger integer the largest integer
---@field mininteger integer the smallest integer
math = {}

--- without its sign
---
---     math.abs(-1)
---@param x number
---@return number
function math.abs(x) end

--- the next whole number above
---
---     math.ceil(1.5)
---@param x number
---@return integer
function math.ceil(x) end

--- e to the power of x
---
---     math.exp(1)
---@param x number
---@return number
function math.exp(x) end

--- the next whole number below
---
---     math.floor(1.5)
---@param x number
---@return integer
function math.floor(x) end

--- what is left of a division that rounds towards zero
---
---     math.fmod(5, 3)
---@param x number
---@param y number
---@return number
function math.fmod(x, y) end

--- the logarithm, to base e by default
---
---     math.log(8, 2)
---@param x number
---@param base? number
---@return number
function math.log(x, base) end

--- the largest
---
---     math.max(1, 2)
---@param x number
---@param ... number
---@return number
function math.max(x, ...) end

--- the smallest
---
---     math.min(1, 2)
---@param x number
---@param ... number
---@return number
function math.min(x, ...) end

--- whole part and rest
---
---     math.modf(1.5)
---@param x number
---@return number
---@return number
function math.modf(x) end

--- the square root
---
---     math.sqrt(2)
---@param x number
---@return number
function math.sqrt(x) end

--- the whole number of that value, or nil
---
---     math.tointeger(2.0)
---@param x any
---@return integer?
function math.tointeger(x) end

--- "integer", "float" or nil
---
---     math.type(1)
---@param x any
---@return string?
function math.type(x) end

--- whether a is below b, both without a sign
---
---     math.ult(1, 2)
---@param a integer
---@param b integer
---@return boolean
function math.ult(a, b) end

--- defines a policy: policy "name" { ... }
---@param name string
---@return fun(definition: policy_table)
function policy(name) end

--- met while all of up to 8 are
---
---     all_of { above("temp_c", 85), below("power_w", 200) }
---@param conditions condition[]
---@return condition
function all_of(conditions) end

--- met while one of up to 8 is
---
---     any_of { above("temp_c", 85), is("throttle.heat") }
---@param conditions condition[]
---@return condition
function any_of(conditions) end

--- all devices
---
---     devices()
---@return device_list
function devices() end

--- all parts of the model
---
---     parts()
---@return part_list
function parts() end

--- all sessions
---
---     sessions()
---@return session_list
function sessions() end

--- all users who have sessions
---
---     tenants()
---@return tenant_list
function tenants() end

--- the host
---
---     host()
---@return host
function host() end

--- a condition: more than the limit
---
---     above("vram.used_ratio", "92%")
---@param metric metric_name
---@param limit number|string
---@return condition
function above(metric, limit) end

--- a condition: less than the limit
---
---     below("vram.used_ratio", "92%")
---@param metric metric_name
---@param limit number|string
---@return condition
function below(metric, limit) end

--- a condition: true or false
---
---     is("yield.asked", true)
---@param metric metric_name
---@param truth? boolean
---@return condition
function is(metric, truth) end

--- a condition: in a range, which may pass midnight or Sunday
---
---     within("host.time", "22:00-07:00")
---@param metric metric_name
---@param range string
---@return condition
function within(metric, range) end

--- a condition: not in a range
---
---     outside("host.time", "22:00-07:00")
---@param metric metric_name
---@param range string
---@return condition
function outside(metric, range) end

--- so many KiB, in bytes
---
---     KiB(4)
---@param number number
---@return number
function KiB(number) end

--- so many MiB, in bytes
---
---     MiB(4)
---@param number number
---@return number
function MiB(number) end

--- so many GiB, in bytes
---
---     GiB(4)
---@param number number
---@return number
function GiB(number) end

--- so many TiB, in bytes
---
---     TiB(4)
---@param number number
---@return number
function TiB(number) end

--- so many kB, in bytes
---
---     kB(4)
---@param number number
---@return number
function kB(number) end

--- so many MB, in bytes
---
---     MB(4)
---@param number number
---@return number
function MB(number) end

--- so many GB, in bytes
---
---     GB(4)
---@param number number
---@return number
function GB(number) end

--- so many TB, in bytes
---
---     TB(4)
---@param number number
---@return number
function TB(number) end

--- an error with the message when the value is nil or false
---
---     assert(gpu)
---@param value any
---@param message? any
---@param ... any
---@return any
function assert(value, message, ...) end

--- ends the plan with an error
---@param message any
---@param level? integer
function error(message, level) end

--- the metatable of a table; nil for everything else
---
---     getmetatable({})
---@param object any
---@return table?
function getmetatable(object) end

--- walks a list from 1 on
---
---     ipairs({1, 2})
---@param list any
---@return fun(list: any, i: integer)
---@return any
---@return integer
function ipairs(list) end

--- the key after one, in sorted order, and its value
---
---     next({1})
---@param map table
---@param key? any
---@return any
---@return any
function next(map, key) end

--- walks a table in sorted order of its keys
---
---     pairs({a = 1})
---@param map any
---@return fun(map: any, key: any)
---@return any
---@return any
function pairs(map) end

--- calls a function and catches its error
---
---     pcall(tostring, 1)
---@param f function
---@param ... any
---@return boolean
---@return any
function pcall(f, ...) end

--- writes nowhere: a plan has no output
---
---     print(1)
---@param ... any
function print(...) end

--- whether two are the same, without metamethods
---
---     rawequal(1, 1)
---@param a any
---@param b any
---@return boolean
function rawequal(a, b) end

--- the value of a key, without metamethods
---
---     rawget({1}, 1)
---@param map table
---@param key any
---@return any
function rawget(map, key) end

--- the length, without metamethods
---
---     rawlen({1})
---@param value table|string
---@return integer
function rawlen(value) end

--- sets the value of a key, without metamethods
---
---     rawset({}, 1, 2)
---@param map table
---@param key any
---@param value any
---@return table
function rawset(map, key, value) end

--- the arguments from number n on, or how many there are
---
---     select("#", 1, 2)
---@param n integer|"#"
---@param ... any
---@return any
function select(n, ...) end

--- gives a table a metatable, without __gc, __close, __mode, __len and __metatable
---
---     setmetatable({}, {})
---@param map table
---@param metatable table?
---@return table
function setmetatable(map, metatable) end

--- the number that a text is, or nil
---
---     tonumber("12")
---@param value any
---@param base? integer
---@return number?
function tonumber(value, base) end

--- the value as a text, without addresses
---
---     tostring(gpu)
---@param value any
---@return string
function tostring(value) end

--- the name of the value's type: an object's is its own
---
---     type(gpu)
---@param value any
---@return string
function type(value) end

--- calls a function; the handler gets its error
---
---     xpcall(tostring, tostring, 1)
---@param f function
---@param handler fun(message: any): any
---@param ... any
---@return boolean
---@return any
function xpcall(f, handler, ...) end

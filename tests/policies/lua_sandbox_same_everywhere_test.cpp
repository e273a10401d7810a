// The same script prints the same in every process, wherever its memory lies and whatever seed Lua
// drew, and the same as when this test was written on x86-64. This program runs itself for that.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "policies/lua/sandbox.hpp"

namespace terrane::policies::lua {
namespace {

constexpr const char* output_variable = "LUA_SANDBOX_TEST_OUTPUT";

// Everything a script can see that could depend on addresses, seeds, the clock or the C library.
constexpr const char* all_there_is = R"lua(
local function show(...) print(...) end

-- Every value of the environment, however deep.
local function walk(name, value, depth)
  show(name, type(value), tostring(value))
  if type(value) ~= "table" or depth == 0 then return end
  for k, v in pairs(value) do
    if v ~= _G then walk(name .. "." .. tostring(k), v, depth - 1) end
  end
end
walk("_G", _G, 2)

-- Texts of all kinds of values.
show({}, print, function() end, setmetatable({}, {}), 0/0, -(0/0), 1/0, -1/0, -0.0)
show("" .. 0/0 .. -(0/0) .. 1e15 .. 0.1 .. 1e300 * 10 .. -1e300 * 1e300 .. 2^63 .. math.mininteger)
show(pcall(string.format, "%p", {}), pcall(function() return {} .. {} end))
show(pcall(function() return {} < {} end), pcall(function() return print + 1 end))
show(pcall(function() local t = {} return t.a.b end), pcall(function() return #nil end))
show(pcall(error, {}), pcall(error), pcall(error, print))

-- A number generator of our own.
local state = 1
local function random(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return state // 65536 % n
end

-- Tables whose layout depends on how strings hash: their order and length.
local lengths = {}
for round = 1, 150 do
  local t = {}
  for i = 1, 60 do
    local kind = random(3)
    if kind == 0 then t["k" .. random(40)] = i
    elseif kind == 1 then t[random(40) + 1] = i
    else t[random(40) + 1] = nil end
  end
  lengths[#lengths + 1] = #t
  if round % 50 == 0 then
    for k, v in pairs(t) do lengths[#lengths + 1] = k .. "=" .. v end
    lengths[#lengths + 1] = tostring(next(t))
  end
end
show(table.concat(lengths, " "))

-- Sorting with ties and with a comparison that contradicts itself.
local list = {}
for i = 1, 150 do list[i] = {key = random(10), number = i} end
table.sort(list, function(a, b) return a.key < b.key end)
local order = {}
for i, item in ipairs(list) do order[i] = item.number end
show(table.concat(order, " "))
table.sort(order, function(a, b) return (a * 7 + b * 3) % 5 < 2 end)
show(table.concat(order, " "))

-- Arithmetic.
local sum = 0.0
for i = 1, 400 do
  sum = sum + (i * 0.37) ^ (i / 97 - 2) + math.exp(-i / 50) + math.log(i) * math.sqrt(i) - i % 0.7
end
show(string.format("%.17g %.17g %.17g", sum, sum ^ 0.3, 1e308 % 3.7), 7 // 0.3, -7.5 // 2, 2^0.5)
for i = 1, 20 do show(string.format("%.17g %g %e %5.3f", 1.1 ^ i, 3 ^ -i, i / 7, i / 3)) end
show(tonumber("0.1") + tonumber("1e-7"), tonumber("0x.8p1"), "a" < "b", "B" < "a", "\xC3\xA4" < "z")
)lua";

std::string everything() {
  const auto compiled = script::compile(all_there_is, "everything.lua");
  if (!compiled) return to_string(compiled.error());
  sandbox_limits limits;
  limits.instructions = 10'000'000;
  limits.deadline = std::chrono::seconds(60);
  sandbox box(limits);
  const auto done = box.run(*compiled);
  return (done ? "" : to_string(done.error()) + "\n") + box.printed() + "used " +
         std::to_string(box.instructions_used()) + "\n";
}

// Run by the other test, in a process of its own; nothing to do otherwise.
TEST(lua_sandbox_same_everywhere, writes_all_there_is) {
  const char* const path = std::getenv(output_variable);
  if (path) std::ofstream(path) << everything();
}

std::string everything_of_another_process(const std::filesystem::path& path) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string filter = "--gtest_filter=lua_sandbox_same_everywhere.writes_all_there_is";
  const std::string output = std::string(output_variable) + "=" + path.string();
  std::array<char*, 3> arguments = {const_cast<char*>(self.c_str()),
                                    const_cast<char*>(filter.c_str()), nullptr};
  std::array<char*, 2> environment = {const_cast<char*>(output.c_str()), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, self.c_str(), nullptr, nullptr, arguments.data(), environment.data()) !=
      0) {
    return "could not start " + self;
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::ifstream file(path);
  std::string text(std::istreambuf_iterator<char>(file), {});
  std::filesystem::remove(path);
  return text;
}

TEST(lua_sandbox_same_everywhere, prints_the_same_in_every_process) {
  const std::string here = everything();
  EXPECT_GT(here.size(), 3000u);
  EXPECT_EQ(here.find("0x"), std::string::npos) << "an address?";
  const std::filesystem::path folder = testing::TempDir();
  for (int i = 0; i < 4; ++i) {
    const std::string name = "lua_sandbox_" + std::to_string(getpid()) + "_" + std::to_string(i);
    EXPECT_EQ(everything_of_another_process(folder / name), here);
  }
}

// FNV-1a.
std::uint64_t digest(const std::string& text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

TEST(lua_sandbox_same_everywhere, prints_what_it_printed_when_written) {
  const std::string here = everything();
  // Without the last line: instructions are counted as this version of Lua compiles them.
  const std::string printed = here.substr(0, here.rfind("used "));
  EXPECT_EQ(digest(printed), 14499020017101319846u) << here;
}

}  // namespace
}  // namespace terrane::policies::lua

// What the host sees of a sandbox: results and errors as values with their places, one budget and
// one deadline for everything in it, and the binding of functions, objects and read-only tables.
#include <cfenv>
#include <chrono>
#include <clocale>
#include <memory>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lua.hpp>

#include "policies/lua/sandbox.hpp"
#include "policies/lua/sandbox_binding.hpp"

namespace terrane::policies::lua {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::HasSubstr;

script compiled(std::string_view source, std::string file = "policy.lua") {
  auto made = script::compile(source, std::move(file));
  EXPECT_TRUE(made) << to_string(made.error());
  return std::move(*made);
}

// The error of a script that must fail.
script_error error_of(std::string_view source, const sandbox_limits& limits = {}) {
  const auto made = script::compile(source, "policy.lua", limits);
  if (!made) return made.error();
  sandbox box(limits);
  const auto done = box.run(*made);
  EXPECT_FALSE(done) << source;
  return done ? script_error{} : done.error();
}

std::string printed_by(std::string_view source) {
  sandbox box;
  const auto done = box.run(compiled(source));
  return done ? box.printed() : to_string(done.error());
}

TEST(lua_sandbox, prints) {
  EXPECT_EQ(printed_by("print('a', 1, 2.5, nil, true)"), "a\t1\t2.5\tnil\ttrue\n");
}

TEST(lua_sandbox, names_the_place_of_an_error) {
  const script_error e = error_of("local x = {}\n\nx.y.z = 2");
  EXPECT_EQ(e.fault, script_fault::runtime);
  EXPECT_EQ(e.where.file, "policy.lua");
  EXPECT_EQ(e.where.line, 3);
  EXPECT_THAT(e.message, HasSubstr("attempt to index a nil value"));
  EXPECT_THAT(to_string(e), testing::StartsWith("policy.lua:3: attempt"));
}

TEST(lua_sandbox, names_the_line_that_called_a_library_function) {
  EXPECT_EQ(to_string(error_of("\n\nmath.floor('x')")),
            "policy.lua:3: bad argument #1 to 'floor' (number expected, got string)");
}

TEST(lua_sandbox, keeps_the_place_of_an_error_that_is_raised_again) {
  EXPECT_EQ(
      to_string(error_of("local ok, e = pcall(function()\n error 'no room'\n end)\n error(e, 0)")),
      "policy.lua:2: no room");
}

TEST(lua_sandbox, shortens_no_file_name) {
  const std::string file = "/etc/terrane/" + std::string(100, 'x') + "/policy.lua";
  sandbox box;
  const auto done = box.run(compiled("\nerror('boom')", file));
  ASSERT_FALSE(done);
  EXPECT_EQ(to_string(done.error()), file + ":2: boom");
}

TEST(lua_sandbox, names_line_and_column_of_bad_syntax) {
  const script_error e = error_of("local x = 1\nlocal y = = 2");
  EXPECT_EQ(e.fault, script_fault::syntax);
  EXPECT_EQ(e.where.line, 2);
  EXPECT_EQ(e.where.column, 11);
  EXPECT_EQ(to_string(e), "policy.lua:2:11: expected an expression, near '='");
}

TEST(lua_sandbox, takes_what_lua_finds_in_a_source_as_syntax_too) {
  const script_error e = error_of("\nlocal x <const> = 1 x = 2");
  EXPECT_EQ(e.fault, script_fault::syntax);
  EXPECT_EQ(e.where.line, 2);
  EXPECT_EQ(e.message, "attempt to assign to const variable 'x'");
}

TEST(lua_sandbox, refuses_a_source_that_is_too_long) {
  EXPECT_THAT(to_string(error_of(std::string(70000, ' '))), HasSubstr("70000 bytes"));
}

TEST(lua_sandbox, skips_a_byte_order_mark) { EXPECT_EQ(printed_by("\xEF\xBB\xBFprint(1)"), "1\n"); }

TEST(lua_sandbox, counts_the_same_instructions_each_time) {
  const script chunk = compiled(
      "local t = {} for i = 1, 500 do t['k' .. i] = i ^ 2 end "
      "for k, v in pairs(t) do t[k] = #k end table.sort({3, 2, 1})");
  sandbox first;
  sandbox second;
  ASSERT_TRUE(first.run(chunk));
  ASSERT_TRUE(second.run(chunk));
  EXPECT_EQ(first.instructions_used(), second.instructions_used());
  EXPECT_GT(first.instructions_used(), 2000);
}

TEST(lua_sandbox, starts_each_evaluation_afresh) {
  const script chunk = compiled("assert(count == nil) count = 1");
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(sandbox().run(chunk));
}

TEST(lua_sandbox, shares_one_budget_between_calls) {
  sandbox box;
  ASSERT_TRUE(box.run(compiled("function work() for i = 1, 60000 do end end")));
  const auto call = [&] {
    return box.enter([](lua_State* L) {
      lua_getglobal(L, "work");
      lua_call(L, 0, 0);
    });
  };
  EXPECT_TRUE(call());
  EXPECT_TRUE(call());
  EXPECT_TRUE(call());
  const auto last = call();
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().fault, script_fault::budget);
  EXPECT_EQ(last.error().where.line, 1);
  const auto after = box.enter([](lua_State*) { FAIL() << "ran after the end"; });
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().fault, script_fault::budget);
}

TEST(lua_sandbox, ends_at_the_deadline_of_its_clock) {
  nanoseconds now{};
  sandbox box({}, [&] { return now += milliseconds(1); });
  const auto done = box.run(compiled("local x = 1\nwhile true do end"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().fault, script_fault::deadline);
  EXPECT_EQ(done.error().where.line, 2);
  EXPECT_THAT(done.error().message, HasSubstr("25 ms"));
  EXPECT_LT(now, milliseconds(40));
}

TEST(lua_sandbox, counts_the_deadline_from_the_first_use) {
  nanoseconds now = milliseconds(1000);
  sandbox box({}, [&] { return now; });
  now += milliseconds(1000);
  EXPECT_TRUE(box.run(compiled("for i = 1, 1000 do end")));
}

TEST(lua_sandbox, keeps_within_a_small_memory) {
  sandbox_limits limits;
  limits.memory_bytes = 256 << 10;
  const script_error e = error_of("local t = {} for i = 1, 10000 do t[i] = {i} end", limits);
  EXPECT_EQ(e.fault, script_fault::memory);
  EXPECT_THAT(e.message, HasSubstr("256 KiB"));
}

TEST(lua_sandbox, reports_a_memory_too_small_for_any_script) {
  sandbox_limits limits;
  limits.memory_bytes = 1000;
  sandbox box(limits);
  const auto done = box.enter([](lua_State*) {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().fault, script_fault::memory);
}

TEST(lua_sandbox, limits_what_is_printed) {
  sandbox box;
  ASSERT_TRUE(box.run(compiled("for i = 1, 3000 do print('0123456789') end")));
  EXPECT_EQ(box.printed().size(), sandbox_limits{}.printed_bytes);
}

TEST(lua_sandbox, hides_the_rounding_and_the_locale_of_its_thread) {
  const std::string expected =
      printed_by("print(1/3, 0.1 + 0.2, 2^0.5, string.format('%.20f', 1/3))");
  const char* const german = std::setlocale(LC_ALL, "de_DE.UTF-8");
  std::fesetround(FE_UPWARD);
  const std::string got = printed_by("print(1/3, 0.1 + 0.2, 2^0.5, string.format('%.20f', 1/3))");
  const int mode_after = std::fegetround();
  std::fesetround(FE_TONEAREST);
  std::setlocale(LC_ALL, "C");
  EXPECT_EQ(got, expected) << (german ? "with a German locale" : "");
  EXPECT_EQ(mode_after, FE_UPWARD);
}

// Binding.

TEST(lua_sandbox_binding, calls_closures_of_the_host) {
  double sum = 0;
  sandbox box;
  ASSERT_TRUE(box.enter([&](lua_State* L) {
    push_function(L, [&sum](lua_State* state) {
      sum += luaL_checknumber(state, 1);
      return 0;
    });
    lua_setglobal(L, "add");
  }));
  ASSERT_TRUE(box.run(compiled("for i = 1, 4 do add(i) end")));
  EXPECT_EQ(sum, 10);
}

TEST(lua_sandbox_binding, destroys_closures_with_the_sandbox) {
  const auto held = std::make_shared<int>(1);
  {
    sandbox box;
    ASSERT_TRUE(box.enter([&](lua_State* L) {
      push_function(L, [held](lua_State*) { return 0; });
      lua_setglobal(L, "hold");
    }));
    EXPECT_GT(held.use_count(), 1);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(lua_sandbox_binding, runs_destructors_when_a_lua_error_passes) {
  const auto held = std::make_shared<int>(1);
  sandbox box;
  const auto done = box.enter([&](lua_State* L) {
    const auto copy = held;
    luaL_error(L, "no device '%s'", "gpu9");
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().fault, script_fault::runtime);
  EXPECT_EQ(done.error().message, "no device 'gpu9'");
  EXPECT_EQ(held.use_count(), 1);
}

TEST(lua_sandbox_binding, ends_the_script_when_the_host_fails) {
  sandbox box;
  ASSERT_TRUE(box.enter([](lua_State* L) {
    push_function(L, [](lua_State*) -> int { throw std::runtime_error("the snapshot is gone"); });
    lua_setglobal(L, "look");
  }));
  const auto done = box.run(compiled("\npcall(look) print 'escaped'"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().fault, script_fault::internal);
  EXPECT_EQ(to_string(done.error()), "policy.lua:2: the snapshot is gone");
  EXPECT_EQ(box.printed(), "");
}

TEST(lua_sandbox_binding, survives_exceptions_of_unknown_kinds) {
  sandbox box;
  ASSERT_TRUE(box.enter([](lua_State* L) {
    push_function(L, [](lua_State*) -> int { throw 42; });
    lua_setglobal(L, "look");
  }));
  const auto done = box.run(compiled("pcall(look) print 'escaped'"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().fault, script_fault::internal);
  EXPECT_EQ(box.printed(), "");
}

TEST(lua_sandbox_binding, returns_exceptions_of_the_body_as_values) {
  sandbox box;
  const auto done = box.enter([](lua_State*) { throw std::out_of_range("nothing there"); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().fault, script_fault::internal);
  EXPECT_EQ(done.error().message, "nothing there");
}

TEST(lua_sandbox_binding, calls_a_kept_function_with_arguments) {
  sandbox box;
  kept_value plan;
  ASSERT_TRUE(box.enter([&](lua_State* L) {
    push_function(L, [&plan](lua_State* state) {
      luaL_checktype(state, 1, LUA_TFUNCTION);
      lua_settop(state, 1);
      plan = keep(state);
      return 0;
    });
    lua_setglobal(L, "plan");
  }));
  ASSERT_TRUE(box.run(compiled("plan(function(a, b) return a .. '-' .. b, #a end)")));
  std::string text;
  lua_Integer length = 0;
  ASSERT_TRUE(box.enter([&](lua_State* L) {
    push_kept(L, plan);
    lua_pushstring(L, "vram");
    lua_pushinteger(L, 7);
    lua_call(L, 2, 2);
    text = check_text(L, -2);
    length = luaL_checkinteger(L, -1);
  }));
  EXPECT_EQ(text, "vram-7");
  EXPECT_EQ(length, 4);
}

TEST(lua_sandbox_binding, knows_the_line_that_is_running) {
  sandbox box;
  source_location seen;
  ASSERT_TRUE(box.enter([&](lua_State* L) {
    push_function(L, [&seen](lua_State* state) {
      seen = current_place(state);
      return 0;
    });
    lua_setglobal(L, "here");
  }));
  ASSERT_TRUE(box.run(compiled("\n\nlocal x = 1\nhere(x,\n 2)")));
  EXPECT_EQ(to_string(seen), "policy.lua:4");
}

void add_readonly_list(lua_State* L) {
  lua_newtable(L);
  for (int i = 1; i <= 3; ++i) {
    lua_pushinteger(L, i * 10);
    lua_rawseti(L, -2, i);
  }
  lua_pushstring(L, "gpu0");
  lua_setfield(L, -2, "name");
  make_readonly(L);
  lua_setglobal(L, "list");
}

std::string with_list(std::string_view source) {
  sandbox box;
  EXPECT_TRUE(box.enter(add_readonly_list));
  const auto done = box.run(compiled(source));
  return done ? box.printed() : done.error().message;
}

TEST(lua_sandbox_binding, read_only_tables_can_be_read) {
  EXPECT_EQ(with_list("print(list[2], list.name, list.other, #list, type(list), tostring(list))"),
            "20\tgpu0\tnil\t3\ttable\ttable\n");
  EXPECT_EQ(with_list("for i, v in ipairs(list) do print(i, v) end"), "1\t10\n2\t20\n3\t30\n");
  EXPECT_EQ(with_list("for k, v in pairs(list) do print(k, v) end"),
            "1\t10\n2\t20\n3\t30\nname\tgpu0\n");
  EXPECT_EQ(with_list("print(table.concat(list, ','), table.unpack(list))"),
            "10,20,30\t10\t20\t30\n");
  EXPECT_EQ(with_list("local t = table.move(list, 1, 3, 1, {}) t[1] = 0 print(t[1], list[1])"),
            "0\t10\n");
  EXPECT_EQ(with_list("print(rawget(list, 1), rawlen(list), next(list))"), "10\t3\t1\t10\n");
}

TEST(lua_sandbox_binding, read_only_tables_cannot_be_changed) {
  const char* const attempts[] = {
      "list[1] = 0",
      "list.name = nil",
      "list[4] = 1",
      "rawset(list, 1, 0)",
      "table.insert(list, 1)",
      "table.remove(list)",
      "table.sort(list)",
      "table.move({0}, 1, 1, 1, list)",
      "setmetatable(list, {})",
      "getmetatable(list).__newindex = nil",
      "local f, t = pairs(list) rawset(t, 1, 0)",
      "local f, t = ipairs(list) t[1] = 0",
      "local f = pairs(list) local k = f() list[k] = 0",
  };
  for (const char* const attempt : attempts) {
    sandbox box;
    ASSERT_TRUE(box.enter(add_readonly_list));
    EXPECT_FALSE(box.run(compiled(attempt))) << attempt;
    ASSERT_TRUE(box.run(compiled("print(list[1], list.name, #list)")));
    EXPECT_EQ(box.printed(), "10\tgpu0\t3\n") << attempt;
  }
}

struct device {
  std::string name;
  std::shared_ptr<int> held;
};

extern const object_class device_class;

int device_index(lua_State* L) {
  const device& self = check_object<device>(L, 1, device_class);
  if (check_text(L, 2) != "name") return luaL_error(L, "a device has no '%s'", lua_tostring(L, 2));
  lua_pushstring(L, self.name.c_str());
  return 1;
}
int device_length(lua_State* L) {
  lua_pushinteger(L, 42);
  return 1;
}
int device_text(lua_State* L) {
  lua_pushstring(L, check_object<device>(L, 1, device_class).name.c_str());
  return 1;
}
int device_equal(lua_State* L) {
  lua_pushboolean(L, check_object<device>(L, 1, device_class).name ==
                         check_object<device>(L, 2, device_class).name);
  return 1;
}
int device_call(lua_State* L) {
  lua_pushstring(L, "called");
  return 1;
}
const object_class device_class = {.name = "device",
                                   .index = guarded<device_index>,
                                   .length = device_length,
                                   .call = device_call,
                                   .to_string = device_text,
                                   .equal = device_equal};
const object_class other_class = {.name = "session", .index = guarded<device_index>};

TEST(lua_sandbox_binding, objects_behave_as_their_class_says) {
  const auto held = std::make_shared<int>(0);
  {
    sandbox box;
    ASSERT_TRUE(box.enter([&](lua_State* L) {
      push_object(L, device_class, device{"gpu0", held});
      lua_setglobal(L, "a");
      push_object(L, device_class, device{"gpu0", held});
      lua_setglobal(L, "b");
    }));
    EXPECT_EQ(held.use_count(), 3);
    ASSERT_TRUE(box.run(compiled(
        "print(a.name, #a, type(a), tostring(a), a == b, a(), pcall(function() a.name = 1 end))")));
    EXPECT_EQ(box.printed(),
              "gpu0\t42\tdevice\tgpu0\ttrue\tcalled\tfalse\tpolicy.lua:1: cannot assign to a "
              "device: it is "
              "read-only\n");
    const auto unknown = box.run(compiled("\nprint(a.nmae)"));
    ASSERT_FALSE(unknown);
    EXPECT_EQ(to_string(unknown.error()), "policy.lua:2: a device has no 'nmae'");
    const auto arithmetic = box.run(compiled("local x = a + 1"));
    ASSERT_FALSE(arithmetic);
    EXPECT_THAT(arithmetic.error().message, HasSubstr("arithmetic on a device value (global 'a')"));
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(lua_sandbox_binding, objects_of_another_class_are_refused) {
  sandbox box;
  ASSERT_TRUE(box.enter([](lua_State* L) {
    push_object(L, other_class, 7);
    lua_setglobal(L, "s");
    lua_pushcfunction(L, device_text);
    lua_setglobal(L, "text_of_device");
  }));
  const auto done = box.run(compiled("text_of_device(s)"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message,
            "bad argument #1 to 'text_of_device' (device expected, got session)");
  EXPECT_FALSE(box.run(compiled("text_of_device({})")));
  EXPECT_FALSE(box.run(compiled("text_of_device(string)")));
}

TEST(lua_sandbox_binding, work_of_the_host_counts) {
  sandbox box;
  ASSERT_TRUE(box.enter([](lua_State* L) {
    push_function(L, [](lua_State* state) {
      charge(state, 1000);
      return 0;
    });
    lua_setglobal(L, "work");
  }));
  const auto done = box.run(compiled("while true do work() end"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().fault, script_fault::budget);
  EXPECT_LT(box.instructions_used(), 202'000);
}

}  // namespace
}  // namespace terrane::policies::lua

#include "policies/lua/sandbox.hpp"

#include <cfenv>
#include <cstdlib>
#include <utility>

#include <locale.h>
#include <lua.hpp>
#include <time.h>

#include "policies/lua/library.hpp"
#include "policies/lua/sandbox_binding.hpp"
#include "policies/lua/sandbox_evaluation.hpp"
#include "policies/lua/sandbox_rewriter.hpp"

namespace terrane::policies::lua {
namespace {

// Lua reads and prints numbers through the C library, and compares strings by strcoll. While a
// script runs, its thread has the "C" locale and the default floating-point environment.
class neutral_environment {
 public:
  neutral_environment() : locale_(uselocale(c_locale())) {
    std::fegetenv(&floating_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~neutral_environment() {
    std::fesetenv(&floating_);
    uselocale(locale_);
  }
  neutral_environment(const neutral_environment&) = delete;
  neutral_environment& operator=(const neutral_environment&) = delete;

 private:
  static locale_t c_locale() {
    static const locale_t made = newlocale(LC_ALL_MASK, "C", nullptr);
    return made;
  }

  locale_t locale_;
  std::fenv_t floating_;
};

// Runs the function object that the argument points to.
int call_body(lua_State* L) {
  const auto* const body =
      static_cast<const std::function<void(lua_State*)>*>(lua_touserdata(L, 1));
  lua_settop(L, 0);
  (*body)(L);
  return 0;
}

// Lua puts "file:line: " before its messages, and shortens a long file name to "...end".
bool names_file(std::string_view prefix, std::string_view file) {
  if (prefix == file) return true;
  return prefix.starts_with("...") && file.ends_with(prefix.substr(3));
}

// Takes the place off a message of Lua; nothing changes when it does not begin with one.
void split_place(std::string& message, source_location& where) {
  for (std::size_t colon = message.find(':'); colon != std::string::npos;
       colon = message.find(':', colon + 1)) {
    const std::size_t end = message.find_first_not_of("0123456789", colon + 1);
    const bool digits = end != std::string::npos && end > colon + 1;
    if (!digits || message.compare(end, 2, ": ") != 0) continue;
    if (!names_file(std::string_view(message).substr(0, colon), where.file)) continue;
    where.line = std::atoi(message.c_str() + colon + 1);
    message.erase(0, end + 2);
    return;
  }
}

int append_to_string(lua_State*, const void* bytes, std::size_t size, void* text) {
  static_cast<std::string*>(text)->append(static_cast<const char*>(bytes), size);
  return 0;
}

using state_owner = std::unique_ptr<lua_State, decltype(&lua_close)>;

tl::unexpected<script_error> syntax_error(std::string message, std::string file, int line = 0,
                                          int column = 0) {
  return tl::unexpected(
      script_error{script_fault::syntax, std::move(message), {std::move(file), line, column}});
}

}  // namespace

std::chrono::nanoseconds thread_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

const char* to_string(script_fault fault) {
  switch (fault) {
    case script_fault::syntax:
      return "syntax";
    case script_fault::runtime:
      return "runtime";
    case script_fault::budget:
      return "budget";
    case script_fault::deadline:
      return "deadline";
    case script_fault::memory:
      return "memory";
    case script_fault::internal:
      return "internal";
  }
  return "unknown";
}

std::string to_string(const script_error& e) {
  const std::string text = to_string(e.where);
  return text.empty() ? e.message : text + ": " + e.message;
}

script::script(std::string file, std::string code)
    : file_(std::make_shared<const std::string>(std::move(file))),
      code_(std::make_shared<const std::string>(std::move(code))) {}

tl::expected<script, script_error> script::compile(std::string_view source, std::string file,
                                                   const sandbox_limits& limits) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (source.starts_with(byte_order_mark)) source.remove_prefix(byte_order_mark.size());
  if (source.size() > limits.source_bytes) {
    return syntax_error("the file has " + std::to_string(source.size()) + " bytes, more than the " +
                            std::to_string(limits.source_bytes) + " that a script may have",
                        std::move(file));
  }
  auto text = rewrite(source, limits.string_bytes);
  if (!text) {
    return syntax_error(std::move(text.error().message), std::move(file), text.error().line,
                        text.error().column);
  }
  evaluation compiling(limits, thread_time);
  const state_owner state(compiling.new_state(), lua_close);
  if (!state) return syntax_error("no memory to compile the script", std::move(file));
  const neutral_environment guard;
  const std::string name = "@" + file;
  if (luaL_loadbufferx(state.get(), text->data(), text->size(), name.c_str(), "t") != LUA_OK) {
    if (compiling.stopped()) return syntax_error(compiling.stop_error().message, std::move(file));
    std::string message = lua_tostring(state.get(), -1);
    source_location where{std::move(file), 0, 0};
    split_place(message, where);
    return syntax_error(std::move(message), std::move(where.file), where.line);
  }
  std::string code;
  lua_dump(state.get(), append_to_string, &code, 0);
  return script(std::move(file), std::move(code));
}

struct sandbox::impl {
  impl(const sandbox_limits& limits, clock_function clock)
      : running(limits, std::move(clock)), state(running.new_state(), lua_close) {}

  tl::expected<void, script_error> open();
  tl::expected<void, script_error> protect(lua_CFunction function, void* argument);
  script_error error_of(int status);

  static int describe_error(lua_State* L);

  evaluation running;
  state_owner state;
  bool opened = false;
};

// The message handler of every protected call: runs where the error was raised.
int sandbox::impl::describe_error(lua_State* L) {
  evaluation& self = evaluation::of(L);
  if (self.stopped()) return 1;
  script_error& reported = self.reported;
  reported = {script_fault::runtime, {}, current_place(L)};
  if (lua_type(L, 1) == LUA_TSTRING) {
    reported.message = check_text(L, 1);
    split_place(reported.message, reported.where);
  } else {
    reported.message = std::string("the error is a ") + type_name(L, 1) + ", not a text";
  }
  return 1;
}

// Gives the state its library, at the first use.
tl::expected<void, script_error> sandbox::impl::open() {
  if (opened) return {};
  opened = true;
  return protect(open_library, nullptr);
}

script_error sandbox::impl::error_of(int status) {
  if (running.stopped()) return running.stop_error();
  if (status == LUA_ERRRUN) return std::move(running.reported);
  if (status == LUA_ERRERR) return {script_fault::runtime, "calls are too deeply nested", {}};
  return {script_fault::internal, "host code raised an unknown exception", {}};
}

tl::expected<void, script_error> sandbox::impl::protect(lua_CFunction function, void* argument) {
  if (!state) {
    return tl::unexpected(script_error{script_fault::memory, "no memory for a Lua state", {}});
  }
  if (running.stopped()) return tl::unexpected(running.stop_error());
  lua_State* const vm = state.get();
  const neutral_environment guard;
  running.start();
  lua_settop(vm, 0);
  // Nothing here allocates: it is not protected yet.
  lua_pushcfunction(vm, describe_error);
  lua_pushcfunction(vm, function);
  lua_pushlightuserdata(vm, argument);
  const int status = lua_pcall(vm, 1, 0, 1);
  lua_settop(vm, 0);
  if (status != LUA_OK) return tl::unexpected(error_of(status));
  return {};
}

sandbox::sandbox(const sandbox_limits& limits, clock_function clock)
    : impl_(std::make_unique<impl>(limits, std::move(clock))) {}

sandbox::~sandbox() = default;

tl::expected<void, script_error> sandbox::enter(const std::function<void(lua_State*)>& body) {
  if (auto opened = impl_->open(); !opened) return opened;
  return impl_->protect(guarded<call_body>, const_cast<void*>(static_cast<const void*>(&body)));
}

tl::expected<void, script_error> sandbox::run(const script& chunk) {
  return enter([&chunk](lua_State* L) {
    if (luaL_loadbufferx(L, chunk.code_->data(), chunk.code_->size(), "script", "b") != LUA_OK) {
      lua_error(L);
    }
    push_operators(L);
    lua_call(L, operator_count, 0);
  });
}

const std::string& sandbox::printed() const { return impl_->running.printed; }

std::int64_t sandbox::instructions_used() const { return impl_->running.used(); }

std::size_t sandbox::peak_memory_bytes() const { return impl_->running.memory().peak_bytes(); }

}  // namespace terrane::policies::lua

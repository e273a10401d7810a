#include "policies/lua/loader.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include <lauxlib.h>
#include <lua.h>

#include "policies/lua/definitions.hpp"
#include "policies/lua/objects.hpp"
#include "policies/rule/lint.hpp"
#include "policies/source_text.hpp"
#include "policies/vocabulary/keys.hpp"
#include "policies/vocabulary/nearest.hpp"
#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies::lua {
namespace {

// Reads one policy's table, which is on top of the stack, collecting its faults.
class table_reader {
 public:
  table_reader(lua_State* L, source_location where, std::vector<diagnostic>& faults)
      : L_(L), where_(std::move(where)), faults_(faults), table_(lua_gettop(L)) {}

  void fault(std::string message) {
    faults_.push_back({severity::error, where_, std::move(message)});
  }

  // Pushes the field; returns its type.
  int push(std::string_view key) {
    lua_pushlstring(L_, key.data(), key.size());
    return lua_rawget(L_, table_);
  }

  std::optional<std::string> text(std::string_view key) {
    const int type = push(key);
    std::optional<std::string> value;
    if (type == LUA_TSTRING) {
      std::size_t size = 0;
      const char* data = lua_tolstring(L_, -1, &size);
      value.emplace(data, size);
    } else if (type != LUA_TNIL) {
      fault(in_quotes(key) + " must be a text in quotes");
    }
    lua_pop(L_, 1);
    return value;
  }

  // A text or a list of texts.
  std::vector<std::string> names(std::string_view key) {
    std::vector<std::string> all;
    const int type = push(key);
    if (type == LUA_TSTRING) {
      lua_pop(L_, 1);
      return {text(key).value_or("")};
    }
    if (type != LUA_TNIL && push_plain(L_, -1)) {
      const std::int64_t count = border(L_, -1);
      if (count > 64) fault(in_quotes(key) + " lists at most 64 names");
      for (std::int64_t i = 1; i <= count && i <= 64; ++i) {
        std::size_t size = 0;
        if (lua_rawgeti(L_, -1, i) != LUA_TSTRING) {
          fault(in_quotes(key) + " must list names in quotes; number " + std::to_string(i) +
                " is none");
        } else {
          const char* data = lua_tolstring(L_, -1, &size);
          all.emplace_back(data, size);
        }
        lua_pop(L_, 1);
      }
      lua_pop(L_, 1);
    }
    lua_pop(L_, 1);
    if (type != LUA_TNIL && all.empty()) {
      fault(in_quotes(key) + " must be a name or a list of names in quotes");
    }
    return all;
  }

  std::optional<std::int64_t> duration(std::string_view key) {
    const std::optional<std::string> written = text(key);
    if (!written) return std::nullopt;
    const parsed<std::int64_t> ms = parse_duration_ms(*written);
    if (ms) return *ms;
    fault(in_quotes(key) + ": " + ms.error());
    return std::nullopt;
  }

  template <class T>
  std::optional<T> one_of(std::string_view key, std::span<const word<T>> words) {
    const std::optional<std::string> name = text(key);
    if (!name) return std::nullopt;
    const std::optional<T> value = find_word(words, *name);
    if (!value) {
      fault(in_quotes(key) + " cannot be '" + *name + "'" + name_hint(*name, names_of(words)));
    }
    return value;
  }

  std::optional<detector> condition_of(std::string_view key, bool needed = true) {
    const int type = push(key);
    std::optional<detector> value;
    if (const detector* d = detector_at(L_, -1)) {
      value = *d;
    } else if (needed || type != LUA_TNIL) {
      fault("the policy needs " + in_quotes(key) + ", such as above(\"vram.used_ratio\", \"92%\")");
    }
    lua_pop(L_, 1);
    return value;
  }

  int priority(int otherwise) {
    int value = otherwise;
    const int type = push("priority");
    if (type != LUA_TNIL) {
      int whole = 0;
      const lua_Integer number = lua_tointegerx(L_, -1, &whole);
      if (type == LUA_TNUMBER && whole != 0 && number >= 0 && number <= 100) {
        value = static_cast<int>(number);
      } else {
        fault("'priority' must be a whole number from 0 to 100");
      }
    }
    lua_pop(L_, 1);
    return value;
  }

  // bytes as a number or a text with a unit, and a time.
  rate_limit limit() {
    rate_limit value;
    if (push("limit") == LUA_TNIL) {
      lua_pop(L_, 1);
      return value;
    }
    if (!push_plain(L_, -1)) {
      lua_pop(L_, 1);
      fault("'limit' must be a table, such as { bytes = GiB(4), per = \"10s\" }");
      return value;
    }
    const std::size_t before = faults_.size();
    table_reader inner(L_, where_, faults_);
    inner.check_keys("'limit'", place::limit);
    value.bytes = inner.bytes("bytes");
    value.per_ms = inner.duration("per").value_or(0);
    lua_pop(L_, 2);
    const bool empty = value.bytes == 0 || value.per_ms == 0;
    if (empty && faults_.size() == before) fault("'limit' needs bytes and a time above zero");
    return value;
  }

  // Bytes, and where they count.
  kv_quota quota() {
    kv_quota value;
    if (push("quota") == LUA_TNIL) {
      lua_pop(L_, 1);
      return value;
    }
    if (!push_plain(L_, -1)) {
      lua_pop(L_, 1);
      fault("'quota' must be a table, such as { bytes = GiB(4), on = \"gpu\" }");
      return value;
    }
    const std::size_t before = faults_.size();
    table_reader inner(L_, where_, faults_);
    inner.check_keys("'quota'", place::quota);
    value.bytes = inner.bytes("bytes");
    value.on = inner.text("on").value_or(value.on);
    lua_pop(L_, 2);
    if (value.bytes == 0 && faults_.size() == before) fault("'quota' needs bytes above zero");
    return value;
  }

  // A whole number and a time.
  flap_limit flapping() {
    flap_limit value;
    if (push("flapping") == LUA_TNIL) {
      lua_pop(L_, 1);
      return value;
    }
    if (!push_plain(L_, -1)) {
      lua_pop(L_, 1);
      fault("'flapping' must be a table, such as { times = 3, per = \"10m\" }");
      return value;
    }
    table_reader inner(L_, where_, faults_);
    inner.check_keys("'flapping'", place::flapping);
    int whole = 0;
    if (inner.push("times") != LUA_TNIL) {
      const lua_Integer times = lua_tointegerx(L_, -1, &whole);
      value.times = whole != 0 && times >= 1 && times <= most_flaps ? static_cast<int>(times) : 0;
    }
    lua_pop(L_, 1);
    value.per_ms = inner.duration("per").value_or(value.per_ms);
    lua_pop(L_, 2);
    return value;
  }

  void check_keys(const std::string& what, place in) {
    const std::vector<std::string_view> known = key_names(in, spoken_in::lua);
    std::vector<std::string> unknown;
    bool unnamed = false;
    lua_pushnil(L_);
    while (lua_next(L_, table_) != 0) {
      lua_pop(L_, 1);
      if (lua_type(L_, -1) != LUA_TSTRING) {
        unnamed = true;
        continue;
      }
      const std::string key = lua_tostring(L_, -1);
      if (std::ranges::find(known, key) == known.end()) unknown.push_back(key);
    }
    // A table's own order differs from run to run.
    std::ranges::sort(unknown);
    if (unnamed) fault(what + " holds a value without a name");
    for (const std::string& key : unknown) {
      std::string message = what;
      message += " has no key '" + key + "'" + name_hint(key, known);
      fault(std::move(message));
    }
  }

 private:
  static std::string in_quotes(std::string_view key) { return "'" + std::string(key) + "'"; }

  std::uint64_t bytes(std::string_view key) {
    double value = 0;
    const int type = push(key);
    if (type == LUA_TNUMBER) value = lua_tonumber(L_, -1);
    lua_pop(L_, 1);
    if (type == LUA_TSTRING) {
      const parsed<double> written = parse_quantity(text(key).value_or(""), unit::bytes);
      if (!written) fault(in_quotes(key) + ": " + written.error());
      value = written.value_or(0);
    }
    return value >= 1 && value < 9e15 ? static_cast<std::uint64_t>(value) : 0;
  }

  lua_State* L_;
  source_location where_;
  std::vector<diagnostic>& faults_;
  int table_;
};

void read_code(lua_State* L, table_reader& table, const std::shared_ptr<const script>& chunk,
               rule& r) {
  lua_action action{chunk, false};
  if (table.push("plan") != LUA_TFUNCTION) {
    table.fault("the policy needs 'plan', a function (object, out)");
  }
  lua_pop(L, 1);
  const int undo = table.push("undo");
  if (undo == LUA_TFUNCTION) {
    action.has_undo = true;
    r.undo = undo_kind::script;
  } else if (undo == LUA_TSTRING && std::string_view(lua_tostring(L, -1)) == "restore") {
    r.undo = undo_kind::restore;
  } else if (undo != LUA_TNIL) {
    table.fault("'undo' must be a function (object, out) or \"restore\"");
  }
  lua_pop(L, 1);
  r.action = std::move(action);
}

rule read_policy(lua_State* L, const std::string& name, const std::shared_ptr<const script>& chunk,
                 std::vector<diagnostic>& faults) {
  rule r;
  r.name = name;
  r.where = current_place(L);
  table_reader table(L, r.where, faults);
  table.check_keys("policy '" + name + "'", place::policy);
  r.mode = table.one_of("mode", modes()).value_or(rule_mode::enforce);
  if (const std::optional<scope> each = table.one_of("for_each", scopes())) {
    r.for_each = *each;
  } else if (table.push("for_each") == LUA_TNIL) {
    table.fault("the policy needs 'for_each': gpu, cpu, device, session, tenant, part or host");
  }
  r.only = table.names("only");
  r.priority = table.priority(r.priority);
  const std::optional<detector> enter = table.condition_of("enter");
  const std::optional<detector> leave = table.condition_of("leave");
  if (enter) r.enter = enter->value;
  if (leave) r.leave = leave->value;
  if (const auto emergency = table.condition_of("emergency", false)) {
    r.emergency = emergency->value;
  }
  if (leave && !leave->held_given) r.leave.held_ms = leave_held_factor * longest_held_ms(r.enter);
  r.cooldown_ms = table.duration("cooldown").value_or(0);
  r.min_stay_ms = table.duration("min_stay").value_or(r.min_stay_ms);
  r.limit = table.limit();
  r.quota = table.quota();
  r.flapping = table.flapping();
  read_code(L, table, chunk, r);
  name_devices(r);
  return r;
}

bool has_errors(const std::vector<diagnostic>& faults, std::size_t since) {
  return std::any_of(faults.begin() + static_cast<std::ptrdiff_t>(since), faults.end(),
                     [](const diagnostic& d) { return d.level == severity::error; });
}

}  // namespace

void load_rules(const std::string& name, std::string_view text, std::vector<rule>& rules,
                std::vector<diagnostic>& faults) {
  const auto report = [&](const script_error& e) {
    source_location where = e.where;
    if (where.file.empty()) where.file = name;
    faults.push_back({severity::error, where, e.message});
  };
  if (auto fault = find_not_utf8(name, text)) return faults.push_back(*std::move(fault));
  auto compiled = script::compile(text, name);
  if (!compiled) return report(compiled.error());
  const auto chunk = std::make_shared<const script>(std::move(*compiled));
  std::size_t found = 0;
  const auto on_policy = [&](lua_State* L, const std::string& policy) {
    ++found;
    const std::size_t before = faults.size();
    rule r = read_policy(L, policy, chunk, faults);
    if (!has_errors(faults, before)) lint_rule(r, faults);
    if (!has_errors(faults, before)) rules.push_back(std::move(r));
  };
  const scene nothing;
  sandbox box({}, thread_time);
  auto done = box.enter([&](lua_State* L) {
    define_words(L, on_policy);
    define_objects(L, nothing);
  });
  if (done) done = box.run(*chunk);
  if (!done) return report(done.error());
  if (found == 0) {
    const source_location where{name, 1, 1};
    faults.push_back({severity::warning, where, "defines no policy"});
  }
}

}  // namespace terrane::policies::lua

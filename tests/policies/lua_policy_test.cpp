// Lua policies on top of the sandbox: loading, what a plan can see, and what it can say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/lua/loader.hpp"
#include "policies/lua/plan.hpp"
#include "policies/lua/recorder.hpp"
#include "policies/pipeline/evaluate.hpp"
#include "policies/vocabulary/keys.hpp"
#include "tests/policies/machine.hpp"

namespace terrane::policies {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::gib;
using tests::mib;

std::vector<std::string> faults_of(const std::string& text) {
  std::vector<rule> rules;
  std::vector<diagnostic> faults;
  lua::load_rules("p.lua", text, rules, faults);
  std::vector<std::string> texts;
  for (const diagnostic& d : faults) texts.push_back(to_string(d));
  return texts;
}

std::string policy_with(const std::string& from = "", const std::string& to = "") {
  std::string text = R"(
policy "spill" {
  mode = "shadow", for_each = "gpu", priority = 70,
  enter = above("vram.used_ratio", 0.92):held "5s",
  leave = below("vram.used_ratio", "84%"),
  cooldown = "20s", min_stay = "10s",
  limit = { bytes = GiB(4), per = "10s" },
  plan = function (gpu, out) end,
  undo = "restore",
})";
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(lua_loader, compiles_to_the_same_rule_as_yaml) {
  std::vector<rule> rules;
  std::vector<diagnostic> faults;
  lua::load_rules("p.lua", policy_with(), rules, faults);
  ASSERT_THAT(faults, IsEmpty()) << to_string(faults.front());
  ASSERT_EQ(rules.size(), 1u);
  const rule& r = rules.front();
  EXPECT_EQ(r.name, "spill");
  EXPECT_EQ(r.where.file, "p.lua");
  EXPECT_GE(r.where.line, 2);
  EXPECT_EQ(r.mode, rule_mode::shadow);
  EXPECT_EQ(r.for_each, scope::gpu);
  EXPECT_EQ(r.priority, 70);
  ASSERT_EQ(r.enter.terms.size(), 1u);
  EXPECT_EQ(r.enter.terms[0].metric, metric_id::vram_used_ratio);
  EXPECT_DOUBLE_EQ(r.enter.terms[0].limit, 0.92);
  EXPECT_EQ(r.enter.terms[0].held_ms, 5000);
  EXPECT_EQ(r.leave.held_ms, 30'000);
  EXPECT_EQ(r.cooldown_ms, 20'000);
  EXPECT_EQ(r.min_stay_ms, 10'000);
  EXPECT_EQ(r.limit.bytes, 4ull << 30);
  EXPECT_EQ(r.limit.per_ms, 10'000);
  EXPECT_EQ(r.undo, undo_kind::restore);
}

struct bad_case {
  const char* from;
  const char* to;
  const char* expected;
};

class lua_mistakes : public testing::TestWithParam<bad_case> {};

TEST_P(lua_mistakes, are_named_with_their_place) {
  const bad_case& c = GetParam();
  const std::vector<std::string> faults = faults_of(policy_with(c.from, c.to));
  ASSERT_EQ(faults.size(), 1u) << testing::PrintToString(faults);
  EXPECT_THAT(faults.front(), HasSubstr("p.lua:"));
  EXPECT_THAT(faults.front(), HasSubstr(c.expected));
}

INSTANTIATE_TEST_SUITE_P(
    all, lua_mistakes,
    testing::Values(
        bad_case{"cooldown", "cooldwn", "no key 'cooldwn'; did you mean 'cooldown'?"},
        bad_case{"\"gpu\", priority", "\"gpus\", priority", "did you mean 'gpu'?"},
        bad_case{"vram.used_ratio\", 0.92", "vram.usd_ratio\", 0.92", "no metric 'vram.usd_ratio'"},
        bad_case{"0.92", "92", "is no limit for vram.used_ratio, which is from 0 to 1"},
        bad_case{"\"84%\"", "\"84C\"", "'84C' is not a quantity such as 92%"},
        bad_case{"\"84%\"", "\"95%\"", "there is no band"},
        bad_case{":held \"5s\"", ":held \"5\"", "did you mean 5s?"},
        bad_case{":held \"5s\"", ":hold \"5s\"", "did you mean 'held'?"},
        bad_case{"priority = 70", "priority = 7.5", "'priority' must be a whole number"},
        bad_case{"plan = function (gpu, out) end,", "", "needs 'plan'"},
        bad_case{"undo = \"restore\"", "undo = \"back\"", "'undo' must be a function"},
        bad_case{"enter = above", "enter = nil and above", "the policy needs 'enter'"},
        bad_case{"{ bytes = GiB(4), per = \"10s\" }", "5", "'limit' must be a table"},
        bad_case{"per = \"10s\"", "each = \"10s\"", "'limit' has no key 'each'"},
        bad_case{"mode = \"shadow\"", "mode = devices()", "only inside 'plan' and 'undo'"},
        bad_case{"mode = ", "mode = = ", "p.lua:3:"}));

// Runs one plan for vulkan:a of a small machine and returns what it recorded.
class lua_plan : public testing::Test {
 protected:
  lua_plan() {
    m.add_device("cpu", 32 * gib, 4 * gib).state.temp_c = {70, 0};
    m.add_device("vulkan:a", 8 * gib, 1 * gib).state.temp_c = {90, 0};
    m.add_device("vulkan:b", 16 * gib).state.temp_c = {40, 0};
    m.add_device("vulkan:c", 12 * gib);
    m.add_layers(2, 100 * mib, 200 * mib, "vulkan:a", 10 * mib);
    m.add_session("s1", 4000, 64 * mib, "vulkan:a");
    m.add_session("s2", 9000, 32 * mib, "vulkan:a");
    m.session("s1").idle_s = 5;
    m.session("s2").idle_s = 60;
    m.part("layer.0.attn").pinned = true;
    m.host.memory_total = {32 * gib, 0};
    m.host.memory_available = {8 * gib, 0};
  }

  tl::expected<proposal, lua::script_error> run(const std::string& body,
                                                const std::string& for_each = "gpu") {
    const bool session = for_each == "session";
    const std::string metric = session ? "idle_s" : "vram.used_ratio";
    const std::string text = "local where = devices\npolicy \"p\" { for_each = \"" + for_each +
                             "\", enter = above(\"" + metric + "\", 0.9), leave = below(\"" +
                             metric + "\", 0.5), plan = function (it, out)\n" + body + "\nend }";
    std::vector<rule> rules;
    std::vector<diagnostic> faults;
    lua::load_rules("p.lua", text, rules, faults);
    if (rules.empty()) throw std::invalid_argument(to_string(faults.front()));
    const snapshot& now = m.at(1000);
    object_ref object{&now, find_device(now, "vulkan:a"), nullptr, nullptr};
    if (session) object = {&now, nullptr, find_session(now, "s2"), nullptr};
    return lua::propose(rules[0], std::get<lua_action>(rules[0].action), lua::entry_point::plan,
                        object);
  }

  // The text that a plan gives as its reason to decline.
  std::string says(const std::string& expression, const std::string& for_each = "gpu") {
    const auto p = run("out:decline(tostring(" + expression + "))", for_each);
    return p ? p->notes.at(0) : to_string(p.error());
  }

  std::vector<std::string> subjects(const std::string& body) {
    const auto p = run(body);
    if (!p) return {to_string(p.error())};
    std::vector<std::string> names;
    for (const intent& i : p->wanted) names.push_back(i.subject);
    return names;
  }

  tests::machine m;
};

TEST_F(lua_plan, sees_the_device) {
  EXPECT_EQ(says("it.name"), "Declined: vulkan:a.");
  EXPECT_EQ(says("it.kind"), "Declined: gpu.");
  EXPECT_EQ(says("it.vram.total == GiB(8)"), "Declined: true.");
  EXPECT_EQ(says("it.vram.used > GiB(1.5)"), "Declined: true.");
  EXPECT_EQ(says("it.vram.used_ratio < 0.25"), "Declined: true.");
  EXPECT_EQ(says("it.temp_c == 90"), "Declined: true.");
  EXPECT_EQ(says("devices():except(it)[3].temp_c"), "Declined: nil.");
  EXPECT_EQ(says("#it:parts()"), "Declined: 4.");
  EXPECT_EQ(says("host().memory_used_ratio"), "Declined: 0.75.");
  EXPECT_EQ(says("it == devices()[2]"), "Declined: true.");
}

TEST_F(lua_plan, sees_the_session) {
  EXPECT_EQ(says("it.id", "session"), "Declined: s2.");
  EXPECT_EQ(says("it.context_tokens", "session"), "Declined: 9000.");
  EXPECT_EQ(says("it.idle_s", "session"), "Declined: 60.0.");
  EXPECT_EQ(says("it.kv.bytes == MiB(32)", "session"), "Declined: true.");
  EXPECT_EQ(says("it.kv:bytes_on('cpu')", "session"), "Declined: 0.");
  EXPECT_EQ(says("it.home", "session"), "Declined: vulkan:a.");
}

TEST_F(lua_plan, sees_tenants_and_every_reading_of_a_device) {
  m.session("s1").tenant = "alice";
  m.session("s2").tenant = "bob";
  m.device("vulkan:a").state.power_w = {250, 0};
  EXPECT_EQ(says("it.power_w"), "Declined: 250.0.");
  EXPECT_EQ(says("it.power_ratio"), "Declined: nil.");
  EXPECT_EQ(says("tenants():largest_first()[1].name"), "Declined: alice.");
  EXPECT_EQ(says("tenants()[2]:sessions()[1].id"), "Declined: s2.");
  EXPECT_EQ(says("tenants()[1].gpu_kv_bytes == MiB(64)"), "Declined: true.");
  EXPECT_EQ(says("#sessions():of_tenant('bob')"), "Declined: 1.");
}

TEST_F(lua_plan, takes_a_stale_reading_for_none) {
  m.at(0);
  m.stop_sensor("vulkan:a", "temp");
  m.device("vulkan:a").state.temp_c.sampled_ms = -60'000;
  EXPECT_EQ(says("it.temp_c"), "Declined: nil.");
}

TEST_F(lua_plan, chains_selectors_in_a_defined_order) {
  const std::string each = " do out:move(p, 'cpu', 'r') end";
  EXPECT_THAT(subjects("for p in it:parts():movable():top_down()" + each),
              ElementsAre("layer.1.ffn", "layer.1.attn", "layer.0.ffn"));
  EXPECT_THAT(subjects("for p in it:residents():bottom_up()" + each),
              ElementsAre("layer.0.attn", "layer.0.ffn", "layer.1.attn", "layer.1.ffn"));
  EXPECT_THAT(subjects("for p in parts():largest_first():until_bytes(MiB(250))" + each),
              ElementsAre("layer.0.ffn", "layer.1.ffn"));
  for (const char* name : {"layer.0.ffn", "layer.1.ffn"}) {  // one matrix, free with the second
    m.part(name).shared = 0;
    m.part(name).shared_bytes = m.part(name).weight_bytes;
  }
  EXPECT_THAT(subjects("for p in parts():bottom_up():until_bytes(MiB(150))" + each),
              ElementsAre("layer.0.attn", "layer.0.ffn", "layer.1.attn"));
  EXPECT_THAT(subjects("for p in parts():largest_first():until_bytes(MiB(150))" + each),
              ElementsAre("layer.0.ffn", "layer.1.ffn"));
  EXPECT_THAT(subjects("for p in parts():of_kind('attention')" + each),
              ElementsAre("layer.0.attn", "layer.1.attn"));
  EXPECT_THAT(subjects("for p in parts():matching('layer.1.*'):first(1)" + each),
              ElementsAre("layer.1.attn"));
  EXPECT_THAT(subjects("for p in parts():on('cpu')" + each), IsEmpty());
  // A list can be walked twice, also when the first walk stopped early.
  EXPECT_THAT(subjects("local l = parts():bottom_up() for p in l do break end for p in l" + each),
              ElementsAre("layer.0.attn", "layer.0.ffn", "layer.1.attn", "layer.1.ffn"));
}

TEST_F(lua_plan, picks_devices) {
  EXPECT_EQ(says("devices():except(it):most_free().name"), "Declined: cpu.");
  EXPECT_EQ(says("devices():gpus():except(it):most_free().name"), "Declined: vulkan:b.");
  EXPECT_EQ(says("devices():coolest().name"), "Declined: vulkan:b.");
  EXPECT_EQ(says("#devices():cooler_than(75)"), "Declined: 2.");
  EXPECT_EQ(says("devices():cooler_than(10):most_free()"), "Declined: nil.");
  EXPECT_EQ(says("#devices():with_room(GiB(14))"), "Declined: 2.");
  EXPECT_EQ(says("devices():cpus()[1].name"), "Declined: cpu.");
  // A function that was taken at the top level works inside a plan.
  EXPECT_EQ(says("#where()"), "Declined: 4.");
}

TEST_F(lua_plan, picks_sessions) {
  EXPECT_EQ(says("it:sessions():longest_idle()[1].id"), "Declined: s2.");
  EXPECT_EQ(says("sessions():largest_first()[1].id"), "Declined: s1.");
  EXPECT_EQ(says("#sessions():idle_for(30)"), "Declined: 1.");
}

TEST_F(lua_plan, records_intents) {
  const auto p =
      run("out:move('layer.1.ffn', 'most_free', 'a reason')\n"
          "for s in it:sessions():idle_for(30) do\n"
          "  out:spill(s.kv, { keep_tokens = 100, to = 'host' }, 'idle')\n"
          "  out:fetch(s.kv, s.home, 'woke')\n"
          "end\n"
          "out:restore(it, 'calm')");
  ASSERT_TRUE(p.has_value()) << to_string(p.error());
  ASSERT_EQ(p->wanted.size(), 3u);
  EXPECT_EQ(p->wanted[0].subject, "layer.1.ffn");
  EXPECT_EQ(p->wanted[0].to[0].kind, target_kind::most_free);
  EXPECT_EQ(p->wanted[0].reason, "a reason");
  EXPECT_EQ(p->wanted[1].action, verb::spill);
  EXPECT_EQ(p->wanted[1].subject, "s2");
  EXPECT_EQ(p->wanted[1].keep_tokens, 100u);
  EXPECT_EQ(p->wanted[1].to[0].kind, target_kind::cpu);
  EXPECT_EQ(p->wanted[2].action, verb::fetch);
  EXPECT_EQ(p->wanted[2].to[0].device, "vulkan:a");
  EXPECT_TRUE(p->restore);
  EXPECT_EQ(p->restore_reason, "calm");
}

// The idle session's KV costs nothing; beyond it weights are cheaper where KV is read slowly.
TEST_F(lua_plan, spills_what_is_cheaper) {
  m.device("vulkan:a").weights_per_s = 600e9;
  m.device("cpu").weights_per_s = 40e9;
  m.device("cpu").kv_per_s = 1e9;
  m.part("layer.1.attn").pinned = true;
  const auto wanted = [&](const std::string& options) {
    return subjects("out:spill(it, { what = 'cheaper', to = 'cpu', " + options + " }, 'full')");
  };
  EXPECT_THAT(wanted("bytes = MiB(10.5)"), ElementsAre("s2"));
  EXPECT_THAT(wanted("bytes = MiB(90)"), ElementsAre("layer.1.ffn"));
  EXPECT_THAT(wanted("bytes = MiB(220)"), ElementsAre("s2", "layer.1.ffn"));
  EXPECT_THAT(wanted("bytes = 0.5"), ElementsAre("s2"));
  const auto p = run("out:spill(it, { what = 'cheaper', bytes = MiB(220) }, 'full')");
  ASSERT_TRUE(p.has_value()) << to_string(p.error());
  EXPECT_EQ(p->wanted[0].only_from, "vulkan:a");
  EXPECT_EQ(p->wanted[1].action, verb::move);
  EXPECT_EQ(p->wanted[1].reason, "full");
  EXPECT_THAT(p->notes.at(0), HasSubstr("KV and then weights should leave vulkan:a for cpu"));
  for (const key_entry* k : keys_of(place::spill_options, spoken_in::lua)) {
    const std::string value = k->id == policy_key::spill_to ? "'cpu'" : "'x'";
    const std::string fault = testing::PrintToString(
        subjects("out:spill(it, { " + std::string(k->name) + " = " + value + " }, 'full')"));
    EXPECT_THAT(fault, testing::Not(HasSubstr("no option"))) << k->name;
  }
}

TEST_F(lua_plan, says_what_is_wrong_and_where) {
  const auto fault = [&](const std::string& body) {
    const auto p = run(body);
    return p ? "no fault" : to_string(p.error());
  };
  EXPECT_THAT(fault("out:mvoe('a', 'b', 'c')"), HasSubstr("did you mean 'move'?"));
  EXPECT_THAT(fault("out:move('layer.1.ffn', 'cpu')"), HasSubstr("p.lua:3"));
  EXPECT_THAT(fault("out:move('layer.1.ffn', 'cpu', '')"), HasSubstr("a reason is needed"));
  EXPECT_THAT(fault("return it.vrm"), HasSubstr("a device has no 'vrm'; did you mean 'vram'?"));
  EXPECT_THAT(fault("return it:parts():top_dwn()"), HasSubstr("did you mean 'top_down'?"));
  EXPECT_THAT(fault("out:spill(it, {}, 'x')"), HasSubstr("kv expected"));
  EXPECT_THAT(fault("out:spill(it:sessions()[1].kv, {keep = 1}, 'x')"), HasSubstr("no option"));
  EXPECT_THAT(fault("out:spill(it, {what = 'cheapr'}, 'x')"), HasSubstr("mean 'cheaper'?"));
  EXPECT_THAT(fault("out:spill(it, {what = 'cheaper'}, 'x')"), HasSubstr("needs 'bytes'"));
  EXPECT_THAT(fault("out:spill(it:sessions()[1].kv, {what = 'cheaper', bytes = 1}, 'x')"),
              HasSubstr("device expected"));
  EXPECT_THAT(fault("out:spill(it, {what = 'cheaper', bytes = -1}, 'x')"), HasSubstr("whole"));
  EXPECT_THAT(fault("while true do end"), HasSubstr("more than 200000 instructions"));
  // Under a sanitizer the deadline may come before the last move that a plan may hold.
  EXPECT_THAT(fault("for i = 1, 1e6 do out:move('a', 'b', 'c') end"),
              testing::AnyOf(HasSubstr("may not hold"), HasSubstr("took longer")));
  EXPECT_THAT(fault("it.name = 'x'"), testing::Not("no fault"));
  EXPECT_THAT(fault("parts().x = 1"), testing::Not("no fault"));
}

TEST_F(lua_plan, keeps_control_characters_out_of_reasons) {
  EXPECT_EQ(says("'a\\27[2J\\nb'"), "Declined: a [2J b.");
  const auto p = run("out:move('layer.1.ffn', 'cpu', '" + std::string(500, 'z') + "')");
  ASSERT_TRUE(p.has_value()) << to_string(p.error());
  EXPECT_EQ(p->wanted[0].reason.size(), lua::max_reason_bytes);
}

TEST_F(lua_plan, retains_nothing_between_plans) {
  const std::string counting = "count = (count or 0) + 1 out:decline(tostring(count))";
  for (int i = 0; i < 3; ++i) {
    const auto p = run(counting);
    ASSERT_TRUE(p.has_value()) << to_string(p.error());
    EXPECT_EQ(p->notes.at(0), "Declined: 1.");
  }
}

TEST(lua_undo, falls_back_to_restoring_when_it_fails) {
  const auto set = policy_set::from_sources({{"p.lua", R"(
policy "p" {
  for_each = "gpu", min_stay = "0",
  enter = above("temp_c", 85), leave = below("temp_c", 70):held "0",
  plan = function (gpu, out)
    for p in gpu:parts() do out:move(p, "cpu", "hot") end
  end,
  undo = function (gpu, out) error("broken") end,
})"}});
  ASSERT_TRUE(set.has_value()) << to_string(set.error().front());
  tests::machine m;
  m.add_device("cpu", 32 * gib);
  m.add_device("vulkan:a", 8 * gib).state.temp_c = {90, 0};
  m.add_layers(1, 100 * mib, 200 * mib, "vulkan:a");
  pipeline_state state;
  const decision away = evaluate(**set, m.at(0), state);
  EXPECT_EQ(away.planned.moves.size(), 2u);
  m.carry_out(away.planned, 0);
  m.device("vulkan:a").state.temp_c.value = 50;
  evaluate(**set, m.at(1000), state);
  const decision home = evaluate(**set, m.at(2000), state);
  ASSERT_EQ(home.planned.moves.size(), 2u);
  EXPECT_EQ(home.planned.moves[0].to, "vulkan:a");
  EXPECT_EQ(home.records.at(0).event, decision_event::faulted);
}

}  // namespace
}  // namespace terrane::policies

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/vocabulary/metric_value.hpp"
#include "policies/vocabulary/nearest.hpp"
#include "policies/vocabulary/quantity.hpp"
#include "policies/vocabulary/set_reading.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::policies {
namespace {

using testing::HasSubstr;

TEST(table, is_in_the_order_of_its_ids) {
  for (std::size_t i = 0; i < metrics().size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(metrics()[i].id), i);
    EXPECT_EQ(find_metric(metrics()[i].name), &metrics()[i]);
  }
}

TEST(table, a_derived_value_is_as_old_as_its_oldest_part) {
  snapshot now;
  now.time_ms = 10'000;
  device_state d;
  d.vram_total = {100, 9000};
  d.vram_used = {25, 4000, 2000};
  const object_ref object{&now, &d, nullptr, nullptr};
  const reading r = metric(metric_id::vram_used_ratio).read(object);
  EXPECT_DOUBLE_EQ(r.value, 0.25);
  EXPECT_EQ(r.sampled_ms, 4000);
  EXPECT_FALSE(r.stale(10'000));
  EXPECT_TRUE(r.stale(10'001));
  d.vram_total.value = 0;
  EXPECT_FALSE(metric(metric_id::vram_used_ratio).read(object).present());
}

TEST(table, bytes_until_a_limit) {
  snapshot now;
  device_state d;
  d.vram_total = {1000, 0};
  d.vram_used = {950, 0};
  const object_ref object{&now, &d, nullptr, nullptr};
  EXPECT_DOUBLE_EQ(metric(metric_id::vram_used_ratio).bytes_until(object, 0.8), 150);
  EXPECT_DOUBLE_EQ(metric(metric_id::vram_free).bytes_until(object, 200), 150);
  EXPECT_DOUBLE_EQ(metric(metric_id::vram_used).bytes_until(object, 960), -10);
  EXPECT_EQ(metric(metric_id::temp_c).bytes_until, nullptr);
}

TEST(table, tenants_are_the_sums_of_their_sessions) {
  snapshot now;
  now.time_ms = 5;
  device_state gpu;
  gpu.name = "cuda:a";
  gpu.kind = device_kind::gpu;
  now.devices.push_back(gpu);
  for (const char* tenant : {"zoe", "alice", "zoe", ""}) {
    session_state s;
    s.tenant = tenant;
    s.kv = {{"cuda:a", 100}, {"cpu", 10}};
    now.sessions.push_back(s);
  }
  list_tenants(now);
  ASSERT_EQ(now.tenants.size(), 2u);
  EXPECT_EQ(now.tenants[0].name, "alice");
  const object_ref zoe{&now, nullptr, nullptr, nullptr, find_tenant(now, "zoe")};
  EXPECT_EQ(object_name(zoe), "zoe");
  EXPECT_EQ(metric(metric_id::tenant_kv_bytes).read(zoe).value, 220);
  EXPECT_EQ(metric(metric_id::tenant_gpu_kv_bytes).read(zoe).value, 200);
  EXPECT_EQ(metric(metric_id::tenant_gpu_kv_bytes).bytes_until(zoe, 50), 150);
  EXPECT_EQ(metric(metric_id::tenant_sessions).read(zoe).value, 2);
}

// Every metric of device and host can be given by name, and comes back as it was given.
TEST(set_reading, gives_what_is_read) {
  for (const metric_entry& m : metrics()) {
    if (m.belongs_to != scope::device && m.belongs_to != scope::host) continue;
    if (m.name.starts_with("model.")) continue;
    // An order and a setting, no readings.
    if (m.name == "yield.asked" || m.name == "promotion.on") continue;
    snapshot now;
    now.time_ms = 7;
    device_state d;
    d.name = "cuda:a";
    for (reading* whole : {&d.vram_total, &d.temp_limit_c, &d.power_limit_w}) *whole = {100, 7};
    now.host.memory_total = {100, 7};
    now.devices.push_back(d);
    const bool host = m.belongs_to == scope::host;
    EXPECT_EQ(set_reading(now, host ? "host" : "cuda", m, {0.5, 7}), "") << m.name;
    EXPECT_DOUBLE_EQ(m.read({&now, host ? nullptr : &now.devices[0]}).value, 0.5) << m.name;
  }
  snapshot now;
  now.devices.emplace_back().name = "cuda:a";
  for (metric_id id :
       {metric_id::power_ratio, metric_id::temp_margin_c, metric_id::vram_used_ratio})
    EXPECT_NE(set_reading(now, "cuda", metric(id), {0.5, 7}), "") << metric(id).name;
  EXPECT_NE(set_reading(now, "host", metric(metric_id::host_memory_used_ratio), {0.5, 7}), "");
  for_each_reading(now,
                   [](reading& r) { EXPECT_FALSE(r.present()); });  // what is refused is not kept
  EXPECT_NE(set_reading(now, "cuda", *find_metric("yield.asked"), {1, 7}), "");
  EXPECT_NE(set_reading(now, "mars", metric(metric_id::temp_c), {5, 7}), "");
}

TEST(nearest, finds_what_was_meant_or_nothing) {
  const std::vector<std::string_view> names = {"cooldown", "priority", "for_each"};
  EXPECT_EQ(nearest_name("cooldwon", names), "cooldown");
  EXPECT_EQ(nearest_name("PRIORITY", names), "priority");
  EXPECT_EQ(nearest_name("xyzzy", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'a'), names), "");
  EXPECT_THAT(name_hint("xyzzy", names), HasSubstr("known: cooldown, priority, for_each"));
  const std::vector<std::string_view> parts = {"l.3.a",  "l.3.b", "l.3.c",
                                               "l.33.a", "l.3.d", "l.3.e"};
  EXPECT_EQ(names_within("l.3", parts), "'l.3.a', 'l.3.b', 'l.3.c', 'l.3.d' and 1 more");
  EXPECT_EQ(names_within("l.33", parts), "'l.33.a'");
  EXPECT_EQ(names_within("l.3.a", parts), "");
}

TEST(quantity, units_are_words) {
  EXPECT_DOUBLE_EQ(*parse_quantity("92%", unit::ratio), 0.92);
  EXPECT_DOUBLE_EQ(*parse_quantity("92 %", unit::ratio), 0.92);
  EXPECT_DOUBLE_EQ(*parse_quantity("0.92", unit::ratio), 0.92);
  EXPECT_DOUBLE_EQ(*parse_quantity("4GiB", unit::bytes), 4294967296.0);
  EXPECT_DOUBLE_EQ(*parse_quantity("1.5MB", unit::bytes), 1.5e6);
  EXPECT_DOUBLE_EQ(*parse_quantity("85C", unit::celsius), 85);
  EXPECT_DOUBLE_EQ(*parse_quantity("45", unit::seconds), 45);
  EXPECT_DOUBLE_EQ(*parse_quantity("10%", unit::percent), 10);
  EXPECT_EQ(*parse_duration_ms("5s"), 5000);
  EXPECT_EQ(*parse_duration_ms("1.5m"), 90'000);
  EXPECT_EQ(*parse_duration_ms("500ms"), 500);
  EXPECT_EQ(*parse_duration_ms("0"), 0);
}

TEST(quantity, a_share_of_a_mark_may_be_more_than_that) {
  for (const metric_entry& m : metrics()) {
    if (m.measured_in != unit::ratio) continue;
    const bool may_pass = m.id == metric_id::power_ratio || m.id == metric_id::fan_ratio;
    const parsed<double> value = parse_value("105%", m);
    EXPECT_EQ(value.has_value(), may_pass) << m.name;
    if (value) {
      EXPECT_DOUBLE_EQ(*value, 1.05) << m.name;
    }
    // Without its symbol it could be meant as one of 105.
    EXPECT_FALSE(parse_value("105", m).has_value()) << m.name;
    EXPECT_EQ(parse_value("1.05", m).error(),
              may_pass ? "'1.05' needs its sign: 1.05%, or 105%"
                       : "'1.05' is more than the whole; did you mean 1.05%?");
    EXPECT_DOUBLE_EQ(*parse_value("0.92", m), 0.92) << m.name;
  }
  EXPECT_DOUBLE_EQ(*parse_value("85C", metric(metric_id::temp_c)), 85);
}

TEST(quantity, what_it_is_not) {
  for (const char* text :
       {"", "%", "x", "1x", "--1", "-1", "1e400", "inf", "nan", "0x10", "101%"}) {
    EXPECT_FALSE(parse_quantity(text, unit::ratio).has_value()) << text;
  }
  EXPECT_FALSE(parse_quantity("1e30GiB", unit::bytes).has_value());
  EXPECT_FALSE(parse_duration_ms("5").has_value());
  EXPECT_FALSE(parse_duration_ms("500 days").has_value());
  EXPECT_FALSE(parse_duration_ms("9000h").has_value());
}

TEST(quantity, people_read_it) {
  EXPECT_EQ(format_quantity(0.92, unit::ratio), "92 %");
  EXPECT_EQ(format_quantity(0.9375, unit::ratio), "93.8 %");
  EXPECT_EQ(format_quantity(4.0 * (1ull << 30), unit::bytes), "4 GiB");
  EXPECT_EQ(format_quantity(1536, unit::bytes), "1.5 KiB");
  EXPECT_EQ(format_quantity(85, unit::celsius), "85 C");
  EXPECT_EQ(format_duration(350), "350 ms");
  EXPECT_EQ(format_duration(5000), "5 s");
  EXPECT_EQ(format_duration(120'000), "2 min");
}

}  // namespace
}  // namespace terrane::policies

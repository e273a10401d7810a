// Telemetry of NVIDIA cards against a library that passes for the driver's.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "daemon/telemetry/background_query.hpp"
#include "daemon/telemetry/listing.hpp"
#include "daemon/telemetry/source.hpp"
#include "engine/device/cpu/cpu_device.hpp"
#include "policies/vocabulary/table.hpp"
#include "tests/bench/forwarding_device.hpp"
#include "tests/daemon/fake_nvml.hpp"

namespace terrane::daemon {
namespace {

constexpr std::int32_t period_ms = 1000;
constexpr std::chrono::seconds long_enough{20};

// The CPU under the name of a card.
class disguised_cpu final : public bench::forwarding_device {
 public:
  disguised_cpu(std::unique_ptr<engine::device> inner, engine::device_kind kind,
                const std::string& card)
      : forwarding_device(std::move(inner)) {
    info_.kind = kind;
    info_.card = card;
    info_.name = std::string(engine::to_string(kind)) + ":" + card;
  }
};

class nvml_telemetry : public testing::Test {
 protected:
  nvml_telemetry() { look_at(TERRANE_FAKE_NVML); }
  // A thread that a source left to a hanging driver must not see the next test's cards.
  ~nvml_telemetry() override {
    {
      std::lock_guard lock(fake_->guard);
      fake_->test++;
      fake_->hang = false;
      fake_->hanging = 0;
    }
    source_.reset();
  }

  // Stays open, as it does in the daemon.
  void look_at(const char* library) {
    void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(opened, nullptr) << dlerror();
    fake_ = reinterpret_cast<fake_nvml* (*)()>(dlsym(opened, "fake_nvml_state"))();
    fake_->cards.clear();
    fake_->init = 0;
  }
  void add_device(engine::device_kind kind, const std::string& card) {
    auto cpu = engine::make_cpu_device({1, 0, ""});
    owned_.push_back(std::make_unique<disguised_cpu>(std::move(*cpu), kind, card));
    devices_.push_back(owned_.back().get());
  }
  fake_nvml_card& add_card(const std::string& uuid) {
    fake_->cards.push_back({});
    fake_->cards.back().uuid = "GPU-" + uuid;
    return fake_->cards.back();
  }
  void start(const char* library = TERRANE_FAKE_NVML,
             std::chrono::milliseconds patience = long_enough) {
    source_ = make_nvml_source(devices_, {library, patience, patience}, period_ms);
  }
  policies::snapshot sample(std::int64_t at_ms) {
    policies::snapshot s;
    s.time_ms = at_ms;
    for (const engine::device* d : devices_) {
      s.devices.emplace_back();
      s.devices.back().name = d->info().name;
    }
    source_->sample(s);
    return s;
  }
  void set_hanging(bool does) {
    std::lock_guard lock(fake_->guard);
    fake_->hang = does;
    fake_->changed.notify_all();
  }
  void wait_until_it_hangs() {
    std::unique_lock lock(fake_->guard);
    EXPECT_TRUE(fake_->changed.wait_for(lock, long_enough, [&] { return fake_->hanging > 0; }));
  }

  fake_nvml* fake_ = nullptr;
  std::vector<std::unique_ptr<engine::device>> owned_;
  std::vector<engine::device*> devices_;
  std::unique_ptr<telemetry_source> source_;
};

TEST_F(nvml_telemetry, gives_every_device_of_a_card_its_readings) {
  add_device(engine::device_kind::cpu, "");
  add_device(engine::device_kind::cuda, "aa-1");
  add_device(engine::device_kind::vulkan, "aa-1");
  add_device(engine::device_kind::vulkan, "of-amd");
  add_card("aa-1");
  start();
  const policies::snapshot s = sample(5000);
  for (const std::size_t d : {1U, 2U}) {
    const policies::device_state& to = s.devices[d];
    EXPECT_EQ(to.temp_c.value, 61);
    EXPECT_EQ(to.temp_c.sampled_ms, 5000);
    EXPECT_EQ(to.temp_c.source, "NVML");
    EXPECT_EQ(to.temp_limit_c.value, 90);
    EXPECT_EQ(to.temp_shutdown_c.value, 95);
    EXPECT_DOUBLE_EQ(to.power_w.value, 250.5);
    EXPECT_DOUBLE_EQ(to.power_limit_w.value, 700);
    EXPECT_DOUBLE_EQ(to.utilisation.value, 0.8);
    EXPECT_DOUBLE_EQ(to.fan_ratio.value, 0.33);
    EXPECT_EQ(to.throttled_by_heat.value, 0);
    EXPECT_TRUE(to.throttled_by_heat.present());
    EXPECT_EQ(to.vram_used.value, 600);
    EXPECT_EQ(to.vram_others.value, 600);  // this process has nothing there
  }
  EXPECT_FALSE(s.devices[0].temp_c.present());
  EXPECT_FALSE(s.devices[3].temp_c.present());
  EXPECT_EQ(source_->trouble(), "");  // a card of another maker is none
}

TEST_F(nvml_telemetry, tells_heat_from_power) {
  add_device(engine::device_kind::cuda, "aa-1");
  fake_nvml_card& card = add_card("aa-1");
  start();
  const auto with = [&](unsigned long long reasons, unsigned temp, double heat, double power) {
    card.reasons = reasons;
    card.temp = temp;
    const policies::snapshot s = sample(5000);
    EXPECT_EQ(s.devices[0].throttled_by_heat.value, heat) << reasons;
    EXPECT_EQ(s.devices[0].throttled_by_power.value, power) << reasons;
  };
  with(0x1 | 0x2 | 0x10 | 0x100, 50, 0, 0);  // idle, and clocks that somebody has set
  with(0x4, 50, 0, 1);
  with(0x20, 50, 1, 0);
  with(0x8 | 0x40, 95, 1, 0);
  with(0x8 | 0x80, 50, 0, 1);
  with(0x8, 91, 1, 0);  // older cards say no more
  with(0x8, 50, 0, 1);
}

TEST_F(nvml_telemetry, tells_others_from_us_by_process_where_it_can) {
  add_device(engine::device_kind::cuda, "aa-1");
  auto ours = devices_[0]->allocate(1 << 20, engine::memory_use::weights);
  ASSERT_TRUE(ours);
  fake_nvml_card& card = add_card("aa-1");
  constexpr unsigned long long mib = 1 << 20;
  card.total = 100 * mib, card.used = 50 * mib;
  const auto self = static_cast<unsigned>(getpid());
  start();
  // A driver needs memory for us that we never asked for: it is not others'.
  card.computing = {{self, 30 * mib}, {self + 1, 5 * mib}};
  card.drawing = {{self + 1, 5 * mib}, {self + 2, 7 * mib}};
  EXPECT_EQ(sample(1000).devices[0].vram_others.value, 12 * mib);
  // We are not in the list: numbers of another container.
  card.computing = {{self + 1, 5 * mib}};
  EXPECT_EQ(sample(2000).devices[0].vram_others.value, 49 * mib);
  // One whose bytes are not told.
  card.computing = {{self, 30 * mib}, {self + 1, ~0ULL}};
  EXPECT_EQ(sample(3000).devices[0].vram_others.value, 49 * mib);
  // More than the first list has room for.
  card.computing.assign(100, {self + 1, 5 * mib});
  for (unsigned k = 0; k < 100; k++) card.computing[k].pid = self + k;
  card.drawing.clear();
  EXPECT_EQ(sample(4000).devices[0].vram_others.value, 99 * 5 * mib);
  devices_[0]->set_budget_bytes(10 * mib);
  EXPECT_FALSE(sample(5000).devices[0].vram_used.present());  // is the budget's, not the card's
}

TEST_F(nvml_telemetry, leaves_out_what_a_card_does_not_offer_and_what_cannot_be) {
  add_device(engine::device_kind::cuda, "aa-1");
  fake_nvml_card& card = add_card("aa-1");
  card.answers = {{"fan", 3}, {"threshold", 3}, {"processes", 3}};
  card.temp = 0xffffffff;
  card.power_mw = 0xffffffff;
  card.busy = 101;
  card.used = card.total + 1;
  start();
  const policies::snapshot s = sample(5000);
  const policies::device_state& d = s.devices[0];
  for (const policies::reading& r : {d.fan_ratio, d.temp_limit_c, d.temp_shutdown_c, d.temp_c,
                                     d.power_w, d.utilisation, d.vram_used, d.vram_others})
    EXPECT_FALSE(r.present());
  EXPECT_TRUE(d.power_limit_w.present());
  EXPECT_EQ(source_->trouble(), "");
}

TEST_F(nvml_telemetry, a_card_that_vanishes_is_named_and_the_other_goes_on) {
  add_device(engine::device_kind::cuda, "aa-1");
  add_device(engine::device_kind::cuda, "bb-2");
  add_card("aa-1");
  add_card("bb-2");
  start();
  sample(1000);
  fake_->cards[0].answers = {{"all", 15}};
  fake_->cards[1].temp = 70;
  const policies::snapshot s = sample(2000);
  EXPECT_EQ(source_->trouble(),
            "card aa-1: the card cannot be used any more, says the driver: GPU is lost");
  EXPECT_EQ(s.devices[0].temp_c.sampled_ms, 1000);  // and grows stale
  EXPECT_EQ(s.devices[1].temp_c.value, 70);
  EXPECT_EQ(s.devices[1].temp_c.sampled_ms, 2000);
  EXPECT_TRUE(sample(9000).devices[0].temp_c.stale(9000));
  fake_->cards[0].answers = {{"handle", 15}};
  sample(10'000);
  EXPECT_NE(source_->trouble().find("GPU is lost"), std::string::npos);
}

TEST_F(nvml_telemetry, an_error_of_one_query_is_named_and_the_others_are_asked) {
  add_device(engine::device_kind::cuda, "aa-1");
  add_card("aa-1").answers = {{"power", 999}};
  start();
  const policies::snapshot s = sample(1000);
  EXPECT_EQ(source_->trouble(), "card aa-1: power cannot be read: NVML error 999");
  EXPECT_FALSE(s.devices[0].power_w.present());
  EXPECT_TRUE(s.devices[0].utilisation.present());
}

TEST_F(nvml_telemetry, a_driver_that_hangs_holds_up_nobody) {
  add_device(engine::device_kind::cuda, "aa-1");
  add_card("aa-1");
  start(TERRANE_FAKE_NVML, std::chrono::milliseconds(1));
  while (!sample(1000).devices[0].temp_c.present()) {  // the first answer may take a while
  }
  set_hanging(true);
  sample(2000);
  wait_until_it_hangs();
  policies::snapshot s = sample(3000);
  EXPECT_EQ(source_->trouble(), "");  // it may yet come
  s = sample(9000);
  EXPECT_EQ(source_->trouble(), "the driver does not answer for card aa-1: its readings are stale");
  EXPECT_TRUE(s.devices[0].temp_c.stale(9000));
  set_hanging(false);
  // What comes late is as old as its question.
  while (source_->trouble() != "") sample(10'000);
  source_.reset();
}

TEST_F(nvml_telemetry, ends_while_the_driver_hangs) {
  add_device(engine::device_kind::cuda, "aa-1");
  add_card("aa-1");
  set_hanging(true);
  start(TERRANE_FAKE_NVML, std::chrono::milliseconds(1));
  sample(1000);
  wait_until_it_hangs();
  source_.reset();
}

TEST_F(nvml_telemetry, no_driver_concerns_only_cards_that_have_one) {
  add_device(engine::device_kind::vulkan, "of-amd");
  start("/nowhere/libnvidia-ml.so.1");
  EXPECT_FALSE(sample(1000).devices[0].temp_c.present());
  EXPECT_EQ(source_->trouble(), "");
  add_device(engine::device_kind::cuda, "aa-1");
  add_device(engine::device_kind::cuda, "bb-2");
  start("/nowhere/libnvidia-ml.so.1");
  sample(2000);
  EXPECT_TRUE(source_->trouble().starts_with("/nowhere/libnvidia-ml.so.1 cannot be opened"));
  EXPECT_EQ(source_->trouble().find(';'), source_->trouble().rfind(';'));  // once for both cards
}

TEST_F(nvml_telemetry, names_a_driver_that_is_too_old_or_does_not_start) {
  add_device(engine::device_kind::cuda, "aa-1");
  start(TERRANE_OLD_NVML);
  sample(1000);
  EXPECT_NE(source_->trouble().find("too old for telemetry"), std::string::npos);
  EXPECT_NE(source_->trouble().find("lacks nvmlInit_v2, nvmlDeviceGetHandleByUUID"),
            std::string::npos);
  add_card("aa-1");
  fake_->init = 9;
  start();
  EXPECT_FALSE(sample(2000).devices[0].temp_c.present());
  EXPECT_EQ(source_->trouble(), "card aa-1: nvmlInit_v2 failed: Driver Not Loaded");
  fake_->init = 18;
  sample(3000);
  EXPECT_NE(source_->trouble().find("not started again since"), std::string::npos);
  fake_->init = 0;
  EXPECT_TRUE(sample(4000).devices[0].temp_c.present());
  EXPECT_EQ(source_->trouble(), "");
}

TEST_F(nvml_telemetry, names_what_a_driver_lacks_and_goes_on_without) {
  look_at(TERRANE_FANLESS_NVML);
  add_device(engine::device_kind::cuda, "aa-1");
  add_card("aa-1");
  start(TERRANE_FANLESS_NVML);
  const policies::snapshot s = sample(1000);
  EXPECT_TRUE(s.devices[0].temp_c.present());
  EXPECT_FALSE(s.devices[0].fan_ratio.present());
  EXPECT_NE(source_->trouble().find("lacks nvmlDeviceGetFanSpeed"), std::string::npos);
}

TEST_F(nvml_telemetry, a_card_of_cuda_that_it_does_not_know_is_named) {
  add_device(engine::device_kind::cuda, "aa-1");
  start();
  sample(1000);
  EXPECT_EQ(source_->trouble(), "card aa-1: nvmlDeviceGetHandleByUUID failed: NVML error 6");
}

TEST_F(nvml_telemetry, is_listed_with_source_and_age) {
  add_device(engine::device_kind::cuda, "aa-1");
  add_card("aa-1").answers = {{"power", 999}};
  start();
  telemetry_sources sources;
  policies::snapshot s = sample(1000);
  s.time_ms = 1250;
  sources.push_back(std::move(source_));
  const std::string text = readings_text(s, sources);
  EXPECT_NE(text.find("temp_c                             61 C    250 ms  NVML"), std::string::npos)
      << text;
  EXPECT_NE(text.find("trouble: NVML: card aa-1: power"), std::string::npos) << text;
  const std::string json = readings_json(s, sources);
  EXPECT_NE(json.find(R"("object":"cuda:aa-1","metric":"temp_c","value":6.1E1)"), std::string::npos)
      << json;
}

}  // namespace
}  // namespace terrane::daemon

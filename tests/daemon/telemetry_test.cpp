// Sources on made-up trees: what they read, and what they leave out.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "daemon/telemetry/source.hpp"
#include "daemon/telemetry/user_names.hpp"

namespace terrane::daemon {
namespace {

class tree {
 public:
  tree()
      : root_(std::filesystem::temp_directory_path() /
              ("terrane-telemetry-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(root_);
  }
  ~tree() { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  std::string path(const std::string& name = "") const { return (root_ / name).string(); }

 private:
  std::filesystem::path root_;
};

policies::snapshot two_devices(std::int64_t time_ms) {
  policies::snapshot s;
  s.time_ms = time_ms;
  s.devices.resize(2);
  s.devices[0].name = "cpu";
  s.devices[0].kind = policies::device_kind::cpu;
  s.devices[1].name = "vulkan:abc";
  s.devices[1].kind = policies::device_kind::gpu;
  s.devices[1].vram_total = {1000, time_ms, 1000};
  return s;
}

TEST(telemetry, reads_the_hosts_memory_and_pressure) {
  tree t;
  t.write("meminfo",
          "MemTotal:       2048 kB\nMemFree:  100 kB\nMemAvailable:   1024 kB\nBuffers: 1 kB\n");
  t.write("pressure/memory",
          "some avg10=12.50 avg60=1.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00\n");
  t.write("pressure/cpu", "some avg10=31.00 avg60=1.00 avg300=0.00 total=5\n");
  policies::snapshot s = two_devices(5000);
  make_host_memory_source(t.path(), 1000)->sample(s);
  make_pressure_source(t.path(), 1000)->sample(s);
  EXPECT_EQ(s.host.memory_total.value, 2048 * 1024);
  EXPECT_EQ(s.host.memory_available.value, 1024 * 1024);
  EXPECT_EQ(s.host.pressure_some_avg10.value, 12.5);
  EXPECT_EQ(s.host.cpu_pressure.value, 31);
  EXPECT_EQ(s.host.memory_total.sampled_ms, 5000);
}

TEST(telemetry, reads_what_the_processors_do_between_two_samples) {
  tree t;
  auto source = make_processors_source(t.path(), 1000);
  t.write("stat", "cpu  1000 0 500 8000 500 0 0 0 0 0\ncpu0 1 1 1 1\n");
  t.write("self/stat", "42 (a )name) S 1 1 1 0 -1 4194560 9 0 0 0 300 100 0 0 20 0 9 0\n");
  policies::snapshot first = two_devices(1000);
  source->sample(first);
  EXPECT_FALSE(first.host.cpu_used_ratio.present());
  // 1000 ticks later: 700 of them busy, 200 of those ours.
  t.write("stat", "cpu  1500 0 700 8300 500 0 0 0 0 0\n");
  t.write("self/stat", "42 (a )name) S 1 1 1 0 -1 4194560 9 0 0 0 450 150 0 0 20 0 9 0\n");
  policies::snapshot s = two_devices(2000);
  source->sample(s);
  EXPECT_DOUBLE_EQ(s.host.cpu_used_ratio.value, 0.7);
  EXPECT_DOUBLE_EQ(s.host.cpu_others_ratio.value, 0.5);
  // Unreadable: what was known grows old.
  t.write("stat", "");
  policies::snapshot later = two_devices(9000);
  source->sample(later);
  EXPECT_EQ(later.host.cpu_used_ratio.sampled_ms, 2000);
  EXPECT_TRUE(later.host.cpu_used_ratio.stale(9000));
}

TEST(telemetry, knows_a_battery_from_a_mouse) {
  tree t;
  const auto host = [&] {
    policies::snapshot s = two_devices(5000);
    make_power_supply_source(t.path(), 1000)->sample(s);
    return s.host;
  };
  EXPECT_FALSE(host().on_battery.present());
  t.write("class/power_supply/AC/type", "Mains\n");
  t.write("class/power_supply/AC/online", "1\n");
  t.write("class/power_supply/mouse/type", "Battery\n");
  t.write("class/power_supply/mouse/scope", "Device\n");
  t.write("class/power_supply/mouse/status", "Discharging\n");
  t.write("class/power_supply/mouse/capacity", "3\n");
  t.write("class/power_supply/tablet/type", "Mains\n");  // feeds a tablet, not the host
  t.write("class/power_supply/tablet/scope", "Device\n");
  t.write("class/power_supply/tablet/online", "1\n");
  EXPECT_EQ(host().on_battery.value, 0);
  EXPECT_FALSE(host().battery_ratio.present());
  t.write("class/power_supply/AC/online", "0\n");
  t.write("class/power_supply/BAT0/type", "Battery\n");
  t.write("class/power_supply/BAT0/status", "Discharging\n");
  t.write("class/power_supply/BAT0/capacity", "40\n");
  t.write("class/power_supply/BAT1/type", "Battery\n");
  t.write("class/power_supply/BAT1/status", "Full\n");
  t.write("class/power_supply/BAT1/capacity", "100\n");
  EXPECT_EQ(host().on_battery.value, 1);
  EXPECT_DOUBLE_EQ(host().battery_ratio.value, 0.7);
}

TEST(telemetry, shows_the_time_as_a_clock_on_the_wall_does) {
  std::tm shown{};
  shown.tm_hour = 22;
  shown.tm_min = 30;
  shown.tm_wday = 0;
  policies::snapshot s = two_devices(5000);
  make_wall_clock_source([&] { return shown; }, 1000)->sample(s);
  EXPECT_EQ(s.host.time_of_day_s.value, 22 * 3600 + 30 * 60);
  EXPECT_EQ(s.host.weekday.value, 7);
}

TEST(telemetry, names_users_from_a_local_file) {
  tree t;
  t.write("passwd", "root:x:0:0::/:/bin/sh\nbroken\n:x:7:7::\nalice:x:1000:1000:A:/:/bin/sh\n");
  user_names names(t.path("passwd"));
  EXPECT_EQ(names.name_of(1000), "alice");
  EXPECT_EQ(names.name_of(100), "100");
  EXPECT_EQ(names.name_of(7), "7");
}

TEST(telemetry, leaves_out_what_is_not_there) {
  tree t;
  policies::snapshot s = two_devices(5000);
  make_host_memory_source(t.path(), 1000)->sample(s);
  make_pressure_source(t.path(), 1000)->sample(s);
  make_hwmon_source(t.path(), 1000)->sample(s);
  EXPECT_FALSE(s.host.memory_total.present());
  EXPECT_FALSE(s.host.pressure_some_avg10.present());
  EXPECT_FALSE(s.devices[0].temp_c.present());
}

TEST(telemetry, reads_temperatures_of_the_processor_and_of_the_only_card) {
  tree t;
  t.write("class/hwmon/hwmon0/name", "coretemp\n");
  t.write("class/hwmon/hwmon0/temp1_input", "61000\n");
  t.write("class/hwmon/hwmon1/name", "amdgpu\n");
  t.write("class/hwmon/hwmon1/temp1_input", "83500\n");
  t.write("class/hwmon/hwmon2/name", "nvme\n");
  t.write("class/hwmon/hwmon2/temp1_input", "99000\n");
  policies::snapshot s = two_devices(5000);
  make_hwmon_source(t.path(), 1000)->sample(s);
  EXPECT_EQ(s.devices[0].temp_c.value, 61);
  EXPECT_EQ(s.devices[1].temp_c.value, 83.5);
}

TEST(telemetry, readings_by_hand_override_and_go_stale_when_they_make_no_sense) {
  tree t;
  auto source = make_file_source(t.path("readings.yaml"), 100);
  policies::snapshot none = two_devices(1000);
  source->sample(none);
  EXPECT_FALSE(none.devices[1].vram_used.present());

  t.write("readings.yaml",
          "vulkan: {vram.used_ratio: 96%, temp_c: 88C}\nhost: {host.memory_available: 1GiB}\n");
  policies::snapshot s = two_devices(1100);
  source->sample(s);
  EXPECT_EQ(s.devices[1].vram_used.value, 960);
  EXPECT_EQ(s.devices[1].temp_c.value, 88);
  EXPECT_EQ(s.host.memory_available.value, 1024.0 * 1024 * 1024);
  EXPECT_TRUE(source->trouble().empty());

  t.write("readings.yaml", "vulkan: {vram.used_ratio: [\n");
  policies::snapshot later = two_devices(2000);
  source->sample(later);
  EXPECT_NE(source->trouble().find("readings.yaml:"), std::string::npos) << source->trouble();
  EXPECT_EQ(later.devices[1].temp_c.sampled_ms, 1100);
  EXPECT_TRUE(later.devices[1].temp_c.stale(later.time_ms));

  t.write("readings.yaml", "vulkan: {vram.colour: 5}\nmars: {temp_c: 1C}\n");
  policies::snapshot wrong = two_devices(2100);
  source->sample(wrong);
  EXPECT_FALSE(source->trouble().empty());
}

}  // namespace
}  // namespace terrane::daemon

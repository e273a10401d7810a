// Sources on made-up trees: what they read, and what they leave out.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "daemon/telemetry/source.hpp"

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
  policies::snapshot s = two_devices(5000);
  make_host_memory_source(t.path(), 1000)->sample(s);
  make_pressure_source(t.path(), 1000)->sample(s);
  EXPECT_EQ(s.host.memory_total.value, 2048 * 1024);
  EXPECT_EQ(s.host.memory_available.value, 1024 * 1024);
  EXPECT_EQ(s.host.pressure_some_avg10.value, 12.5);
  EXPECT_EQ(s.host.memory_total.sampled_ms, 5000);
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

// Which way bytes go between devices, and what is said of it.
#include "engine/device/paths.hpp"

#include <gtest/gtest.h>

#include "engine/device/cpu/cpu_device.hpp"
#include "tests/bench/forwarding_device.hpp"

namespace terrane::engine {
namespace {

// The CPU as a card that reaches those of its kind directly, or says why not.
class card final : public bench::forwarding_device {
 public:
  card(device_kind kind, const std::string& name, std::string no_path)
      : forwarding_device(*make_cpu_device({1, 0, ""})), no_path_(std::move(no_path)) {
    info_.kind = kind;
    info_.name = name;
    info_.host_memory = false;
  }
  const std::string& no_direct_path(device& from) override {
    probed++;
    return from.info().kind == info_.kind ? no_path_ : device::no_direct_path(from);
  }
  void lies_on(const std::string& one_card) { info_.card = one_card; }
  int probed = 0;

 private:
  std::string no_path_;
};

TEST(paths, are_named_for_each_two_devices_and_probed) {
  auto cpu = make_cpu_device({1, 0, ""});
  auto other = make_cpu_device({1, 0, ""});
  card one(device_kind::cuda, "cuda:1", ""), two(device_kind::cuda, "cuda:2", "it arrived broken"),
      third(device_kind::vulkan, "vulkan:3", "");
  const std::vector<device*> all = {cpu->get(), other->get(), &one, &two, &third};
  const std::vector<copy_path> paths = find_paths(all);
  ASSERT_EQ(paths.size(), 20U);
  const auto between = [&](std::uint32_t from, std::uint32_t to) {
    for (const copy_path& p : paths)
      if (p.from == from && p.to == to) return p;
    return copy_path{};
  };
  EXPECT_EQ(between(0, 1).way, copy_way::memory);
  EXPECT_EQ(between(0, 2).way, copy_way::host);
  EXPECT_EQ(between(2, 0).way, copy_way::host);
  EXPECT_EQ(between(3, 2).way, copy_way::peer);
  EXPECT_EQ(between(2, 3).way, copy_way::staged);
  EXPECT_EQ(between(2, 3).no_direct, "it arrived broken");
  EXPECT_EQ(between(2, 4).way, copy_way::staged);
  EXPECT_EQ(between(2, 4).no_direct, "");  // two drivers have none, and nobody expects it
  EXPECT_EQ(one.probed, 4);
}

TEST(paths, within_a_card_are_shared) {
  card here(device_kind::cuda, "cuda:1", ""), there(device_kind::cuda, "cuda:1 again", "");
  for (card* c : {&here, &there}) c->lies_on("1");
  const std::vector<device*> all = {&here, &there};
  for (const copy_path& p : find_paths(all)) EXPECT_EQ(p.way, copy_way::shared);
  // Where they share nothing after all, users wonder why.
  card other(device_kind::vulkan, "vulkan:1", "");
  other.lies_on("1");
  const std::vector<device*> two = {&here, &other};
  for (const copy_path& p : find_paths(two)) {
    EXPECT_EQ(p.way, copy_way::staged);
    EXPECT_NE(p.no_direct, "");
  }
}

}  // namespace
}  // namespace terrane::engine

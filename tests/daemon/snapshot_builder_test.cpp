// What policies see, and who measured it.
#include "daemon/loop/snapshot_builder.hpp"

#include <gtest/gtest.h>

#include "policies/vocabulary/table.hpp"
#include "tests/daemon/fixture.hpp"

namespace terrane::daemon {
namespace {

// Writes a temperature on the devices from `first` on.
class thermometer final : public telemetry_source {
 public:
  thermometer(std::string_view name, std::size_t first) : name_(name), first_(first) {}
  std::string_view name() const override { return name_; }
  void sample(policies::snapshot& s) override {
    for (std::size_t d = first_; d < s.devices.size(); d++)
      s.devices[d].temp_c = {50, s.time_ms, 1000};
  }

 private:
  std::string_view name_;
  std::size_t first_;
};

TEST(snapshot_builder, a_reading_has_the_name_of_the_source_that_wrote_it_last) {
  test_engine t = engine_with_a_card();
  telemetry_sources sources;
  sources.push_back(make_device_memory_source(t.engine->devices(), {0, 0}, 1000));
  sources.push_back(std::make_unique<thermometer>("one", 0));
  sources.push_back(std::make_unique<thermometer>("other", 1));
  snapshot_builder builder(*t.engine, std::move(sources), {});
  const policies::snapshot s = builder.make(t.engine->status(), 5000, {}, {});
  EXPECT_EQ(s.devices[0].temp_c.source, "one");
  EXPECT_EQ(s.devices[1].temp_c.source, "other");
  const policies::reading ratio = policies::metric(policies::metric_id::vram_used_ratio)
                                      .read({&s, &s.devices[0], nullptr, nullptr});
  EXPECT_EQ(ratio.source, "device memory");
  EXPECT_EQ(s.host.memory_total.source, "");
}

TEST(snapshot_builder, a_step_of_the_wall_clock_changes_no_age) {
  test_engine t = engine_with_a_card();
  snapshot_builder builder(*t.engine, {}, {});
  engine::engine_status status = t.engine->status();
  engine::part_status& moved = status.parts[1];
  moved.by = "user 1000";
  moved.moved_at = std::chrono::steady_clock::now() - std::chrono::seconds(5);
  for (const int hours : {-10, 10}) {
    moved.since = std::chrono::system_clock::now() + std::chrono::hours(hours);
    const policies::snapshot s = builder.make(status, 100'000, {}, {});
    EXPECT_EQ(s.parts[0].moved_ms, policies::reading::never);
    EXPECT_LE(s.parts[1].moved_ms, 95'000);
    EXPECT_GT(s.parts[1].moved_ms, 85'000);  // a busy machine may take its time
  }
}

// The tiny model's head reads the embedding's matrix; known without any plan of a load.
TEST(snapshot_builder, a_matrix_that_two_parts_read_is_told_as_one) {
  test_engine t = engine_with_a_card();
  snapshot_builder builder(*t.engine, {}, {});
  const policies::snapshot s = builder.make(t.engine->status(), 1000, {}, {});
  const policies::part_state &embedding = s.parts.front(), &head = s.parts.back();
  EXPECT_GE(embedding.shared, 0);
  EXPECT_EQ(embedding.shared, head.shared);
  EXPECT_EQ(embedding.shared_bytes, embedding.weight_bytes);
  EXPECT_EQ(s.parts[1].shared, -1);
  EXPECT_EQ(s.model.weight_bytes,
            t.card->used_bytes(engine::memory_use::weights) +
                t.engine->devices()[0]->used_bytes(engine::memory_use::weights));
}

TEST(snapshot_builder, a_lost_device_has_no_memory_to_offer) {
  test_engine t = engine_with_a_card();
  telemetry_sources sources;
  sources.push_back(make_device_memory_source(t.engine->devices(), {0, 0}, 1000));
  snapshot_builder builder(*t.engine, std::move(sources), {});
  EXPECT_TRUE(
      policies::free_bytes(builder.make(t.engine->status(), 1000, {}, {}).devices[1]).present());
  t.card->lose();
  const policies::snapshot s = builder.make(t.engine->status(), 2000, {}, {});
  EXPECT_TRUE(policies::free_bytes(s.devices[0]).present());
  EXPECT_FALSE(policies::free_bytes(s.devices[1]).present());
}

}  // namespace
}  // namespace terrane::daemon

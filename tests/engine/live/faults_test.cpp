// A device that fails in the middle of a move: the reply goes on where it was, with the same bits.
#include <gtest/gtest.h>

#include "tests/bench/forwarding_device.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::test {
namespace {

// Fails to write pieces of one size.
class faulty_device final : public bench::forwarding_device {
 public:
  using forwarding_device::forwarding_device;

  void fail_writes_of(std::size_t bytes) { failing_bytes_ = bytes; }

  result<void> write(engine::device_memory& to, std::size_t offset,
                     std::span<const std::byte> from) override {
    if (from.size() == failing_bytes_.load()) return fail(error_code::device_fault, "is lost");
    return forwarding_device::write(to, offset, from);
  }

 private:
  std::atomic<std::size_t> failing_bytes_{0};
};

TEST(faults, a_target_that_is_lost_in_the_commit_leaves_the_reply_where_it_was) {
  faulty_device* second = nullptr;
  const auto e = engine_on_two_cpus([&](std::unique_ptr<engine::device> cpu) {
    auto faulty = std::make_unique<faulty_device>(std::move(cpu));
    second = faulty.get();
    return faulty;
  });
  const std::size_t layers = e->loaded_model().config().layers;
  const auto move_everything_to = [&](std::uint32_t device) {
    return bench::move_and_wait(*e, bench::everything_to(*e, device));
  };
  engine::generate_request r = request(*e, 40, 400);
  auto undisturbed = std::make_shared<bench::recorder>();
  ASSERT_TRUE(e->generate(r, undisturbed).has_value());
  undisturbed->wait();
  // There and back, so that the move that fails has little to prepare and falls into the reply.
  ASSERT_EQ(move_everything_to(1).state, engine::move_state::committed);
  ASSERT_EQ(move_everything_to(0).state, engine::move_state::committed);
  auto disturbed = std::make_shared<bench::recorder>();
  r.keep = true;  // so that there are tables to write also where the reply has ended by then
  ASSERT_TRUE(e->generate(r, disturbed).has_value());
  disturbed->wait_for(1);
  // A session's tables of pages are the last that a commit writes, and the other device has its own
  // by then.
  second->fail_writes_of(layers * (512 / kernels::page_positions) * sizeof(std::uint64_t));
  const engine::move_status moved = move_everything_to(1);
  EXPECT_EQ(moved.state, engine::move_state::failed);
  ASSERT_TRUE(moved.failure.has_value());
  EXPECT_EQ(moved.failure->code, error_code::device_fault);
  EXPECT_EQ(disturbed->wait().reason, engine::stop_reason::max_tokens);
  EXPECT_EQ(disturbed->hashes, undisturbed->hashes);
  for (const engine::part_status& p : e->status().parts) EXPECT_EQ(p.device, 0U);
}

}  // namespace
}  // namespace terrane::test

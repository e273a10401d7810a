// A device that fails in the middle of a move: the reply goes on where it was, with the same bits.
#include <gtest/gtest.h>

#include "tests/engine/live/tiny_model.hpp"

namespace terrane::test {
namespace {

// A device that does all that another does, but fails to write pieces of one size.
class faulty_device final : public engine::device {
 public:
  explicit faulty_device(std::unique_ptr<engine::device> of)
      : device(of->info()), inner_(std::move(of)) {}

  void fail_writes_of(std::size_t bytes) { failing_bytes_ = bytes; }

  result<const engine::device_kernel*> compile(const kernels::program& p) override {
    return inner_->compile(p);
  }
  result<std::unique_ptr<engine::command_list>> record(
      std::span<const engine::dispatch> phases) override {
    return inner_->record(phases);
  }
  result<void> submit(engine::command_list& list) override { return inner_->submit(list); }
  result<void> wait() override { return inner_->wait(); }
  result<void> write(engine::device_memory& to, std::size_t offset,
                     std::span<const std::byte> from) override {
    if (from.size() == failing_bytes_.load()) return fail(error_code::device_fault, "is lost");
    return inner_->write(to, offset, from);
  }
  result<void> read(const engine::device_memory& from, std::size_t offset,
                    std::span<std::byte> to) override {
    return inner_->read(from, offset, to);
  }

 private:
  result<std::unique_ptr<engine::device_memory>> allocate_memory(std::size_t bytes) override {
    return inner_->allocate(bytes, engine::memory_use::scratch);
  }

  std::unique_ptr<engine::device> inner_;
  std::atomic<std::size_t> failing_bytes_{0};
};

std::unique_ptr<engine::device> cpu() {
  result<std::unique_ptr<engine::device>> opened = engine::open_device("cpu", {});
  EXPECT_TRUE(opened.has_value());
  return std::move(*opened);
}

TEST(faults, a_target_that_is_lost_in_the_commit_leaves_the_reply_where_it_was) {
  auto model = engine::model::open(tiny_model("tiny", "Q4_1"));
  ASSERT_TRUE(model.has_value()) << to_string(model.error());
  std::vector<std::unique_ptr<engine::device>> devices;
  devices.push_back(cpu());
  auto second = std::make_unique<faulty_device>(cpu());
  faulty_device& faulty = *second;
  devices.push_back(std::move(second));
  engine::engine_options options;
  options.context_tokens = 512;
  const std::size_t layers = (*model)->config().layers;
  auto e = engine::inference_engine::start(std::move(*model), std::move(devices), options);
  ASSERT_TRUE(e.has_value()) << to_string(e.error());
  const auto move_everything_to = [&](std::uint32_t device) {
    engine::move_request r;
    for (engine::part_index p = 0; p < (*e)->loaded_model().parts().size(); p++)
      r.parts.push_back({p, device});
    return bench::move_and_wait(**e, std::move(r));
  };
  engine::generate_request r;
  r.prompt = bench::random_tokens(**e, 40, 5);
  r.max_tokens = 400;
  r.hash_logits = true;
  auto undisturbed = std::make_shared<bench::recorder>();
  ASSERT_TRUE((*e)->generate(r, undisturbed).has_value());
  undisturbed->wait();
  // There and back, so that the move that fails has little to prepare and falls into the reply.
  ASSERT_EQ(move_everything_to(1).state, engine::move_state::committed);
  ASSERT_EQ(move_everything_to(0).state, engine::move_state::committed);
  auto disturbed = std::make_shared<bench::recorder>();
  r.keep = true;  // so that there are tables to write also where the reply has ended by then
  ASSERT_TRUE((*e)->generate(r, disturbed).has_value());
  disturbed->wait_for(1);
  // A session's tables of pages are the last that a commit writes, and the other device has its own
  // by then.
  faulty.fail_writes_of(layers * (512 / kernels::page_positions) * sizeof(std::uint64_t));
  const engine::move_status moved = move_everything_to(1);
  EXPECT_EQ(moved.state, engine::move_state::failed);
  ASSERT_TRUE(moved.failure.has_value());
  EXPECT_EQ(moved.failure->code, error_code::device_fault);
  EXPECT_EQ(disturbed->wait().reason, engine::stop_reason::max_tokens);
  EXPECT_EQ(disturbed->hashes, undisturbed->hashes);
  for (const engine::part_status& p : (*e)->status().parts) EXPECT_EQ(p.device, 0U);
}

}  // namespace
}  // namespace terrane::test

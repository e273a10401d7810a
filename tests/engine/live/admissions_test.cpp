// Moves beside sessions that come and go: a move ends, whatever comes between its looks.
#include <future>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "tests/bench/forwarding_device.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::test {
namespace {

using namespace std::chrono_literals;

// Says when the mover's thread writes to it: that is where pages of sessions are brought to.
class watched_device final : public bench::forwarding_device {
 public:
  explicit watched_device(std::unique_ptr<engine::device> inner)
      : forwarding_device(std::move(inner)) {}
  result<void> write(engine::device_memory& to, std::size_t offset,
                     std::span<const std::byte> from) override {
    if (std::this_thread::get_id() == mover.load()) before_write();
    return forwarding_device::write(to, offset, from);
  }
  std::function<void()> before_write;  // set while nothing runs
  std::atomic<std::thread::id> mover{};
};

struct watched_engine {
  std::unique_ptr<engine::inference_engine> engine;
  watched_device* second = nullptr;
};

watched_engine two_cpus() {
  watched_engine out;
  out.engine = engine_on_two_cpus([&](std::unique_ptr<engine::device> cpu) {
    auto watched = std::make_unique<watched_device>(std::move(cpu));
    out.second = watched.get();
    return watched;
  });
  return out;
}

engine::move_status move_all(const watched_engine& on, std::uint32_t device) {
  return bench::move_and_wait(*on.engine, bench::everything_to(*on.engine, device),
                              [&] { on.second->mover = std::this_thread::get_id(); });
}

// Ends the session it opened last and opens another, which stays. On threads of its own, as a
// client is one.
class visitor {
 public:
  explicit visitor(engine::inference_engine& e) : engine_(e) {}
  ~visitor() {
    if (coming_.valid()) coming_.wait();
    if (here_) static_cast<void>(engine_.close(*here_));
  }

  // Returns when its prompt is read; sooner where it has to wait.
  void come_again() {
    if (coming_.valid() && coming_.wait_for(0s) != std::future_status::ready) return;
    coming_ = std::async(std::launch::async, [this] {
      if (here_) static_cast<void>(engine_.close(*here_));
      here_.reset();
      engine::generate_request r = request(engine_, 70, 1);
      r.keep = true;
      auto reply = std::make_shared<bench::recorder>();
      const auto id = engine_.generate(std::move(r), reply);
      if (!id) return;
      here_ = *id;
      reply->wait();
      visits++;
    });
    coming_.wait_for(5s);
  }
  void wait() { coming_.wait(); }

  std::atomic<int> visits{0};

 private:
  engine::inference_engine& engine_;
  std::optional<engine::session_id> here_;
  std::future<void> coming_;
};

TEST(admissions, at_each_look_of_a_move_do_not_keep_it_from_its_end) {
  watched_engine at = two_cpus();
  engine::inference_engine& e = *at.engine;
  auto undisturbed = std::make_shared<bench::recorder>();
  ASSERT_TRUE(e.generate(request(e, 40, 200), undisturbed).has_value());
  undisturbed->wait();

  visitor guest(e);
  at.second->before_write = [&] { guest.come_again(); };
  auto disturbed = std::make_shared<bench::recorder>();
  ASSERT_TRUE(e.generate(request(e, 40, 200), disturbed).has_value());
  disturbed->wait_for(1);
  const engine::move_status moved = move_all(at, 1);
  at.second->mover = std::thread::id();
  EXPECT_EQ(moved.state, engine::move_state::committed)
      << (moved.failure ? to_string(*moved.failure) : "");
  guest.wait();
  EXPECT_GE(guest.visits, 20);  // also the one that had to wait was admitted
  disturbed->wait();
  EXPECT_EQ(disturbed->hashes, undisturbed->hashes);
}

}  // namespace
}  // namespace terrane::test

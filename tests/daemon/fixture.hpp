// What the tests of the daemon share: an engine on two devices of which the second can be lost, the
// events that a client of Monitor gets, and answers to calls of the service. Waiting gives up after
// ten seconds and fails the test.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.hpp"
#include "ipc/control/answer.hpp"
#include "ipc/control/event_hub.hpp"
#include "ipc/control/json.hpp"
#include "ipc/varlink/message.hpp"
#include "ipc/varlink/reply_state.hpp"
#include "tests/bench/forwarding_device.hpp"

namespace terrane::daemon {

// A CPU that passes for a card.
class losable_device final : public bench::forwarding_device {
 public:
  losable_device(std::unique_ptr<engine::device> inner, const std::string& name);
  std::optional<error> lost() const override;
  void lose() { lost_ = true; }

 private:
  std::atomic<bool> lost_{false};
};

struct test_engine {
  std::unique_ptr<engine::inference_engine> engine;
  losable_device* card = nullptr;  // "vulkan:card", the engine's second device
};
// All parts on "cpu", the first.
test_engine engine_with_a_card(engine::session_observer on_session = {});

// What Monitor sends to one client, from now on.
class heard_events {
 public:
  explicit heard_events(ipc::event_hub& hub);
  // Those of a kind since the last call; others are dropped.
  std::vector<ipc::event> of(ipc::event_kind kind);

 private:
  std::shared_ptr<ipc::varlink::reply_state> state_;
};

// The reply to a call that is made by `ask`, which gets what to answer through.
ipc::varlink::response answered(const std::function<void(const ipc::varlink::reply&)>& ask);

template <class Reply>
Reply answered_with(const std::function<void(const ipc::answer<Reply>&)>& ask) {
  const ipc::varlink::response r =
      answered([&](const ipc::varlink::reply& to) { ask(ipc::answer<Reply>(to)); });
  EXPECT_EQ(r.error.value_or(""), "");
  return ipc::from_json<Reply>(r.parameters).value_or(Reply{});
}

}  // namespace terrane::daemon

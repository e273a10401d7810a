#include "tests/daemon/fixture.hpp"

#include "engine/device/discovery.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::daemon {

namespace {

std::unique_ptr<engine::device> cpu() {
  auto opened = engine::open_device("cpu", {1, "", false});
  EXPECT_TRUE(opened.has_value()) << to_string(opened.error());
  return std::move(*opened);
}

}  // namespace

losable_device::losable_device(std::unique_ptr<engine::device> inner, const std::string& name)
    : forwarding_device(std::move(inner)) {
  info_.name = name;
  info_.kind = engine::device_kind::vulkan;
}

std::optional<error> losable_device::lost() const {
  if (!lost_) return std::nullopt;
  return error{error_code::device_fault, "the driver says that it is gone", info_.name};
}

test_engine engine_with_a_card(engine::session_observer on_session) {
  auto model = engine::model::open(test::tiny_model("tiny", "Q4_1"));
  EXPECT_TRUE(model.has_value()) << to_string(model.error());
  test_engine made;
  std::vector<std::unique_ptr<engine::device>> devices;
  devices.push_back(cpu());
  auto card = std::make_unique<losable_device>(cpu(), "vulkan:card");
  made.card = card.get();
  devices.push_back(std::move(card));
  engine::engine_options options;
  options.context_tokens = 256;
  options.on_session = std::move(on_session);
  auto started = engine::inference_engine::start(std::move(*model), std::move(devices), options);
  EXPECT_TRUE(started.has_value()) << to_string(started.error());
  made.engine = std::move(*started);
  return made;
}

heard_events::heard_events(ipc::event_hub& hub) {
  ipc::varlink::reply_options options;
  options.streaming = true;
  state_ = std::make_shared<ipc::varlink::reply_state>(std::move(options), [] {});
  hub.subscribe(ipc::varlink::reply(state_));
}

std::vector<ipc::event> heard_events::of(ipc::event_kind kind) {
  std::vector<ipc::event> found;
  const std::string bytes = state_->take().bytes;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = bytes.find('\0', at);
    const auto parsed = ipc::varlink::parse_response(bytes.substr(at, end - at), 32);
    const auto message =
        parsed ? ipc::from_json<ipc::monitor_reply>(parsed->parameters) : std::nullopt;
    EXPECT_TRUE(message.has_value());
    if (message && message->event && message->event->kind == kind) found.push_back(*message->event);
    at = end + 1;
  }
  return found;
}

ipc::varlink::response answered(const std::function<void(const ipc::varlink::reply&)>& ask) {
  std::promise<void> woken;
  auto state = std::make_shared<ipc::varlink::reply_state>(ipc::varlink::reply_options{},
                                                           [&woken] { woken.set_value(); });
  ask(ipc::varlink::reply(state));
  const bool in_time =
      woken.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  state->detach();
  EXPECT_TRUE(in_time) << "no answer";
  std::string text = state->take().bytes;
  if (!text.empty()) text.pop_back();
  const auto parsed = ipc::varlink::parse_response(text, 32);
  EXPECT_TRUE(parsed.has_value());
  return parsed ? *parsed : ipc::varlink::response{};
}

}  // namespace terrane::daemon

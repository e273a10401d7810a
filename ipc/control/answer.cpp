#include "ipc/control/answer.hpp"

#include <mutex>
#include <string>

namespace terrane::ipc {
namespace {

// Of text that waits for a slow client. With JSON's escapes it still fits a message in practice.
constexpr std::size_t most_waiting_bytes = 512 * 1024;

}  // namespace

struct generate_stream::state {
  explicit state(varlink::reply reply) : to(std::move(reply)) {}

  const varlink::reply to;
  std::mutex mutex;
  generate_reply waiting;  // the session, and text not sent yet
};

generate_stream::generate_stream(varlink::reply to)
    : state_(std::make_shared<state>(std::move(to))) {}

void generate_stream::started(std::int64_t session) const {
  const std::lock_guard lock(state_->mutex);
  state_->waiting.session = session;
  state_->to.send(to_json(state_->waiting));
}

void generate_stream::text(std::string_view piece) const {
  {
    const std::lock_guard lock(state_->mutex);
    state_->waiting.text += piece;
    if (state_->to.send(to_json(state_->waiting)) != varlink::sent::full) {
      state_->waiting.text.clear();
      return;
    }
    if (state_->waiting.text.size() <= most_waiting_bytes) {
      return;
    }
  }
  state_->to.cancel(state_->to.streaming()
                        ? refuse::too_slow("the reply was stopped")
                        : refuse::failed("the reply is too long for one message; call with more"));
}

void generate_stream::finish(const generate_summary& summary) const {
  const std::lock_guard lock(state_->mutex);
  state_->waiting.summary = summary;
  state_->to.finish(to_json(state_->waiting));
}

void generate_stream::fail(const refusal& error) const { state_->to.fail(error); }
bool generate_stream::cancelled() const { return state_->to.cancelled(); }
void generate_stream::on_cancel(std::function<void()> action) const {
  state_->to.on_cancel(std::move(action));
}

}  // namespace terrane::ipc

#include "ipc/varlink/reply_state.hpp"

#include <utility>

#include "ipc/varlink/message.hpp"

namespace terrane::ipc::varlink {

reply_state::reply_state(reply_options options, std::function<void()> wake)
    : options_(std::move(options)), wake_(std::move(wake)) {}

sent reply_state::send(const boost::json::object& parameters) {
  if (!options_.streaming) {
    return cancelled() ? sent::gone : sent::full;
  }
  const std::string bytes = write_reply(parameters, true);
  const std::lock_guard lock(mutex_);
  if (answered_ || cancelled_) {
    return sent::gone;
  }
  // An empty queue takes any message that the protocol takes, so that one larger than the queue's
  // limit is slow, not impossible.
  const bool fits = queue_.empty() || queue_.size() + bytes.size() <= options_.queued_bytes;
  if (!fits || bytes.size() > options_.message_bytes) {
    return sent::full;
  }
  put(bytes, false);
  return sent::yes;
}

void reply_state::finish(const boost::json::object& parameters) {
  std::string bytes = write_reply(parameters, false);
  if (bytes.size() > options_.message_bytes) {
    bytes = write_error(options_.too_large);
  }
  close_with(bytes);
}

void reply_state::fail(const named_error& error) { close_with(write_error(error)); }

void reply_state::abandon() { fail(options_.abandoned); }

void reply_state::close_with(const std::string& bytes) {
  std::function<void()> unused;  // destroyed without the lock: it may own a handle
  const std::lock_guard lock(mutex_);
  if (answered_ || cancelled_) {
    return;
  }
  unused = std::exchange(on_cancel_, nullptr);
  put(bytes, true);
}

void reply_state::put(const std::string& bytes, bool last) {
  const bool was_empty = queue_.empty();
  if (!options_.oneway) {
    queue_ += bytes;
  }
  answered_ = last;
  if ((was_empty || last) && wake_) {
    wake_();
  }
}

bool reply_state::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void reply_state::on_cancel(std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    if (!cancelled_) {
      if (!answered_) {
        std::swap(on_cancel_, action);
      }
      return;
    }
  }
  if (action) {
    action();
  }
}

reply_state::batch reply_state::take() {
  const std::lock_guard lock(mutex_);
  return {std::exchange(queue_, {}), answered_};
}

void reply_state::cancel() {
  std::function<void()> action;
  {
    const std::lock_guard lock(mutex_);
    if (answered_ || cancelled_) {
      return;
    }
    cancelled_ = true;
    answered_ = true;
    queue_.clear();
    action = std::exchange(on_cancel_, nullptr);
    if (wake_) {
      wake_();
    }
  }
  if (action) {
    action();
  }
}

void reply_state::cancel_with(const named_error& last_words) {
  std::function<void()> action;
  {
    const std::lock_guard lock(mutex_);
    if (answered_ || cancelled_) {
      return;
    }
    cancelled_ = true;
    action = std::exchange(on_cancel_, nullptr);
    put(write_error(last_words), true);
  }
  if (action) {
    action();
  }
}

void reply_state::detach() {
  const std::lock_guard lock(mutex_);
  wake_ = nullptr;
}

// ---- The handle ---------------------------------------------------------------------------------

// The handle's copies share a pointer of their own, so that its last copy is known from the
// connection's.
reply::reply(const std::shared_ptr<reply_state>& state)
    : state_(state.get(), [state](reply_state* last) { last->abandon(); }) {}

bool reply::streaming() const { return state_->streaming(); }
sent reply::send(const boost::json::object& parameters) const { return state_->send(parameters); }
void reply::finish(const boost::json::object& parameters) const { state_->finish(parameters); }
void reply::fail(const named_error& error) const { state_->fail(error); }
void reply::cancel(const named_error& why) const { state_->cancel_with(why); }
bool reply::cancelled() const { return state_->cancelled(); }
void reply::on_cancel(std::function<void()> action) const { state_->on_cancel(std::move(action)); }

}  // namespace terrane::ipc::varlink

// What stands between the handle of a call (reply.hpp, any thread) and the connection that writes
// its replies (the server's thread): a bounded queue of encoded messages and a flag. The connection
// makes one for each call and shares it with the handle; whoever is last frees it.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

#include "ipc/varlink/reply.hpp"

namespace terrane::ipc::varlink {

struct reply_options {
  bool streaming = false;
  bool oneway = false;  // replies are thrown away
  std::size_t queued_bytes = 256 * 1024;
  std::size_t message_bytes = 1024 * 1024;
  named_error abandoned;  // what the caller gets when the handle goes away without an answer
  named_error too_large;  // what the caller gets for a reply over message_bytes
};

class reply_state {
 public:
  // `wake` runs, on the thread that answers, each time there is something to take where there was
  // nothing; it must not call back into this object.
  reply_state(reply_options options, std::function<void()> wake);

  // For the handle; see reply.hpp.
  bool streaming() const { return options_.streaming; }
  sent send(const boost::json::object& parameters);
  void finish(const boost::json::object& parameters);
  void fail(const named_error& error);
  void abandon();
  bool cancelled() const;
  void on_cancel(std::function<void()> action);

  // For the connection. `take` returns all that waits, to be written in one go.
  struct batch {
    std::string bytes;
    bool last = false;  // the call is answered; nothing follows
  };
  batch take();
  // The client is gone: nothing is taken from now on, and the cancel action runs.
  void cancel();
  // The server stops: as `cancel`, but the client is still there and gets this error.
  void cancel_with(const named_error& last_words);
  // No more wake-ups: the connection is being destroyed.
  void detach();

 private:
  void put(const std::string& bytes, bool last);  // under the lock
  void close_with(const std::string& bytes);

  const reply_options options_;
  mutable std::mutex mutex_;
  std::function<void()> wake_;
  std::function<void()> on_cancel_;
  std::string queue_;
  bool answered_ = false;
  bool cancelled_ = false;
};

}  // namespace terrane::ipc::varlink

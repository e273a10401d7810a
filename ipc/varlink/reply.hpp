// The handle through which a call is answered. A handler gets one with each call, copies it to
// wherever the work is done, and answers from any thread: any number of `send` when the caller
// asked for a stream, then exactly one of `finish` and `fail`; what comes after those is ignored.
// When the last copy goes away unanswered, the caller gets a named error, so no client waits for
// ever.
//
// Nothing here blocks. What is waiting to be written to a slow client is bounded: `send` then says
// `full` and takes nothing; `finish` and `fail` are always taken. When the client goes away or the
// server stops, `cancelled` becomes true and the `on_cancel` function runs, once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/json/object.hpp>

namespace terrane::ipc::varlink {

enum class sent {
  yes,
  full,  // the client reads too slowly; nothing was taken, it may be tried again later
  gone,  // cancelled or answered already; nothing more will be taken
};

// A named error of an interface with its parameters, e.g. "io.terrane.Control.NoRoom".
struct named_error {
  std::string name;
  boost::json::object parameters;
};

class reply_state;

class reply {
 public:
  explicit reply(const std::shared_ptr<reply_state>& state);

  // Whether the caller asked for more than one reply. If not, `send` takes nothing (`full`).
  bool streaming() const;

  sent send(const boost::json::object& parameters) const;
  void finish(const boost::json::object& parameters) const;
  void fail(const named_error& error) const;

  // Ends the call as if the client had gone, and tells it why: `on_cancel` runs, here and now.
  void cancel(const named_error& why) const;

  bool cancelled() const;
  // Runs `action` when the call is cancelled; at once when it is already; never after it was
  // answered. It runs on the server's thread (or in `cancel`) and must be short, and must not wait
  // for a thread that is itself inside a call to this handle. A second action replaces the first.
  void on_cancel(std::function<void()> action) const;

 private:
  std::shared_ptr<reply_state> state_;
};

}  // namespace terrane::ipc::varlink

// Typed handles over varlink::reply: how the daemon answers a call of the control protocol.
// Copyable, may be used from any thread and kept as long as the work takes; see varlink/reply.hpp
// for what holds of all of them (nothing blocks; exactly one `finish` or `fail`; cancellation).
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "ipc/control/errors.hpp"
#include "ipc/control/json.hpp"
#include "ipc/control/types.hpp"
#include "ipc/varlink/reply.hpp"

namespace terrane::ipc {

// A call with one reply.
template <class Reply>
class answer {
 public:
  explicit answer(varlink::reply to) : to_(std::move(to)) {}

  void finish(const Reply& reply) const { to_.finish(to_json(reply)); }
  void fail(const refusal& error) const { to_.fail(error); }
  bool cancelled() const { return to_.cancelled(); }
  void on_cancel(std::function<void()> action) const { to_.on_cancel(std::move(action)); }

 private:
  varlink::reply to_;
};

// A reply of the model as it comes. The daemon calls `started` when the session is admitted, `text`
// for each piece (whole UTF-8 characters), then `finish` or `fail`. A client that reads slowly gets
// larger pieces; one that has not read for so long that half a mebibyte waits is cancelled and gets
// TooSlow. A client that asked for one reply gets all the text with the summary.
class generate_stream {
 public:
  explicit generate_stream(varlink::reply to);

  void started(std::int64_t session) const;
  void text(std::string_view piece) const;
  void finish(const generate_summary& summary) const;
  void fail(const refusal& error) const;
  bool cancelled() const;
  void on_cancel(std::function<void()> action) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

// A move: any number of `progress` (dropped when the client is slow or wanted one reply), then
// `finish` at the commit, or `fail`. A client that goes away does not stop the move, so there is no
// cancellation here; CancelMove does that.
class move_stream {
 public:
  explicit move_stream(varlink::reply to) : to_(std::move(to)) {}

  void progress(const move_reply& so_far) const { to_.send(to_json(so_far)); }
  void finish(const move_reply& committed) const { to_.finish(to_json(committed)); }
  void fail(const refusal& error) const { to_.fail(error); }

 private:
  varlink::reply to_;
};

// A device that is given back: any number of `progress` (dropped when the client is slow or wanted
// one reply), then `finish` or `fail`. A client that goes away does not end the yield; EndYield
// does.
class yield_stream {
 public:
  explicit yield_stream(varlink::reply to) : to_(std::move(to)) {}

  void progress(const yield_reply& so_far) const { to_.send(to_json(so_far)); }
  void finish(const yield_reply& all) const { to_.finish(to_json(all)); }
  void fail(const refusal& error) const { to_.fail(error); }

 private:
  varlink::reply to_;
};

// The timing of kernels: any number of `progress` (dropped when the client is slow or wanted one
// reply), then `finish` or `fail`. A client that goes away ends it.
class tune_stream {
 public:
  explicit tune_stream(varlink::reply to) : to_(std::move(to)) {}

  void progress(const tune_reply& so_far) const { to_.send(to_json(so_far)); }
  void finish(const tune_reply& all) const { to_.finish(to_json(all)); }
  void fail(const refusal& error) const { to_.fail(error); }
  bool cancelled() const { return to_.cancelled(); }

 private:
  varlink::reply to_;
};

}  // namespace terrane::ipc

#include <chrono>

#include "ipc/terranectl/line_input.hpp"
#include "ipc/terranectl/talk.hpp"
#include "ipc/terranectl/words.hpp"

namespace terrane::ipc::ctl {
namespace {

constexpr const char* help_text =
    "  /new   forget the conversation and begin another\n"
    "  /quit  leave (so does Ctrl-D); Ctrl-C stops a reply\n";

// Which daemon answered, and when: sessions of another one have the same numbers.
struct daemon_seen {
  std::int64_t pid = 0;
  double uptime_s = 0;
  std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();

  bool is_followed_by(const daemon_seen& later) const {
    constexpr double tolerance_s = 2;  // of two clocks, and of the way between
    const std::chrono::duration<double> passed = later.at - at;
    return pid == later.pid && later.uptime_s >= uptime_s + passed.count() - tolerance_s;
  }
};

// A conversation: one session of the daemon that is kept from message to message.
class conversation {
 public:
  conversation(const context& with, const talk_options& options)
      : with_(with), options_(options), input_(with.around().input) {}

  int run() {
    if (!can_answer()) {
      return code_;
    }
    if (typed()) {
      with_.out() << with_.paint(colour::dim, "Type a message; /help shows the commands.") << "\n";
    }
    for (std::string line; next_line(line);) {
      if (line == "/quit") {
        break;
      }
      if (!command(line) && line.find_first_not_of(" \t\r") != std::string::npos) {
        say(line);
      }
    }
    end_session();
    return code_;
  }

 private:
  bool typed() const { return with_.around().input_is_terminal; }

  // A daemon that is not there, or has no model, is told before anything is typed.
  bool can_answer() {
    auto client = with_.connect(code_);
    if (!client) {
      return false;
    }
    const auto answer = client->call(method_name("Status"), {});
    if (!answer) {
      code_ = with_.report(answer.error());
      return false;
    }
    const auto status = with_.understand<status_reply>(*answer, code_);
    if (!status) {
      return false;
    }
    seen_ = {status->pid, status->uptime_s};
    if (status->state != daemon_state::failed) {
      return true;
    }
    code_ = with_.fail("the daemon has no model to answer with: " + status->reason.value_or(""));
    return false;
  }

  // False at the end of the input.
  bool next_line(std::string& line) {
    for (;;) {
      if (typed()) {
        with_.out() << with_.paint(colour::title, "> ") << std::flush;
      }
      switch (input_.next(line)) {
        case line_input::outcome::line:
          return true;
        case line_input::outcome::end:
          with_.out() << (typed() ? "\n" : "");
          return false;
        case line_input::outcome::interrupted:
          if (!typed()) {
            return false;
          }
          with_.out() << "\n" << with_.paint(colour::dim, "Ctrl-D or /quit leaves.") << "\n";
      }
    }
  }

  bool command(const std::string& line) {
    if (line == "/new") {
      end_session();
      with_.out() << with_.paint(colour::dim, "A new conversation.") << "\n";
      return true;
    }
    if (line == "/help") {
      with_.out() << help_text;
      return true;
    }
    return false;
  }

  // Ends the session in the daemon. That it is gone already is no fault.
  void end_session() {
    if (session_ == 0) {
      return;
    }
    int ignored = exit_done;
    if (auto client = with_.connect(ignored)) {
      client->watch(input_.interrupts(), [this] {  // nobody waits for it who does not want to
        input_.take_interrupt();
        return false;
      });
      static_cast<void>(
          client->call(method_name("CloseSession"), to_json(session_request{session_})));
    }
    session_ = 0;
  }

  // A daemon that was started anew does not have the session, or has another's of that number.
  // False when it cannot be asked.
  bool look_for_restart() {
    auto client = with_.connect(code_);
    const auto answer =
        client ? std::optional(client->call(method_name("Status"), {})) : std::nullopt;
    if (answer && !*answer) {
      code_ = with_.report(answer->error());
    }
    const auto status =
        answer && *answer ? with_.understand<status_reply>(**answer, code_) : std::nullopt;
    if (!status) {
      return false;
    }
    const daemon_seen now{status->pid, status->uptime_s};
    if (session_ != 0 && !seen_.is_followed_by(now)) {
      with_.err() << "The daemon was started anew and the conversation so far is lost; this begins "
                     "another.\n";
      session_ = 0;
    }
    seen_ = now;
    return true;
  }

  void say(const std::string& text) {
    if (!look_for_restart()) {
      return;
    }
    generate_request request = base_request(options_);
    request.messages.emplace();
    if (session_ == 0 && options_.system) {
      request.messages->push_back({chat_role::system, *options_.system});
    }
    request.messages->push_back({chat_role::user, text});
    request.keep = true;
    if (session_ != 0) {
      request.session = session_;
    }
    auto client = with_.connect(code_);
    if (!client) {
      return;
    }
    interrupts_ = 0;
    client->watch(input_.interrupts(), [this] { return interrupted(); });
    const auto ended =
        client->stream(method_name("Generate"), to_json(request),
                       [this](const boost::json::object& object, bool) { return show(object); });
    if (!ended) {
      lost(ended.error());
    }
  }

  bool show(const boost::json::object& object) {
    const auto reply = with_.understand<generate_reply>(object, code_);
    if (!reply) {
      return false;
    }
    const bool first = session_ != reply->session;
    session_ = reply->session;
    if (first && interrupts_ > 0) {
      stop();
    }
    if (with_.json()) {
      with_.print_json(object);
      return true;
    }
    print_piece(with_, reply->text);
    if (reply->summary && reply->summary->stop == stop_reason::closed) {
      with_.out() << std::endl;
      code_ = with_.fail(closed_text(*reply->summary) + "; the next message begins another");
      session_ = 0;
    } else if (reply->summary) {
      with_.out() << std::endl;
      if (with_.around().out_is_terminal || options_.statistics) {
        with_.out() << with_.paint(colour::dim, summary_text(*reply->summary)) << "\n";
      }
    }
    return true;
  }

  // Ctrl-C during a reply: the first asks the daemon to stop it, a second one does not wait for
  // that.
  bool interrupted() {
    input_.take_interrupt();
    if (++interrupts_ > 1) {
      return false;
    }
    if (session_ != 0) {
      stop();
    }
    return true;
  }

  // On a connection of its own, for the other one is in the middle of the reply.
  void stop() const {
    int ignored = exit_done;
    if (auto client = with_.connect(ignored)) {
      static_cast<void>(
          client->call(method_name("StopGenerate"), to_json(session_request{session_})));
    }
  }

  void lost(const varlink::call_failure& why) {
    with_.out() << std::endl;
    if (interrupts_ > 1) {
      with_.out() << with_.paint(colour::dim, "The reply was left, and its conversation.") << "\n";
      end_session();  // the first Ctrl-C may have ended the reply, and the session was kept then
      return;
    }
    code_ = with_.report(why);
    if (why.refused && why.refused->name == method_name("ContextExceeded") && session_ != 0) {
      with_.err() << "The conversation has grown too long for the model's context; /new begins "
                     "another.\n";
    }
    const bool session_gone = !why.refused || why.refused->name == method_name("UnknownSession");
    if (session_ != 0 && session_gone) {
      with_.err() << "The conversation so far is lost; the next message begins another.\n";
      session_ = 0;
    }
  }

  const context& with_;
  const talk_options& options_;
  line_input input_;
  std::int64_t session_ = 0;
  daemon_seen seen_;
  int interrupts_ = 0;
  int code_ = exit_done;
};

}  // namespace

int chat(const context& with, const talk_options& options) {
  return conversation(with, options).run();
}

}  // namespace terrane::ipc::ctl

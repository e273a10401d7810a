// What every command of terranectl works with: the daemon's socket, the way to print, and the exit
// codes. One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ipc/control/json.hpp"
#include "ipc/terranectl/surroundings.hpp"
#include "ipc/terranectl/table.hpp"
#include "ipc/varlink/client.hpp"

namespace terrane::ipc::ctl {

// What the program returns.
enum exit_code {
  exit_done = 0,
  exit_failed = 1,     // the daemon refused, or it did not work
  exit_usage = 2,      // the command line is wrong
  exit_no_daemon = 3,  // nobody is there to ask
};

enum class colour { title, good, bad, dim };

class context {
 public:
  context(const surroundings& around, std::string socket, bool json)
      : around_(around), socket_(std::move(socket)), json_(json) {}

  const surroundings& around() const { return around_; }
  std::ostream& out() const { return around_.out; }
  std::ostream& err() const { return around_.err; }
  bool json() const { return json_; }

  // A connection, or nothing after the reason was printed; `code` is then what to return.
  std::optional<varlink::client> connect(int& code) const;

  // One call. Prints why it failed and returns nothing, with `code` set.
  std::optional<boost::json::object> call(std::string_view member,
                                          const boost::json::object& parameters, int& code) const;

  // One call whose reply is printed: as JSON, or by `print`.
  template <class Reply, class Print>
  int show(std::string_view member, const boost::json::object& parameters, Print print) const {
    int code = exit_done;
    const auto object = call(member, parameters, code);
    if (!object) {
      return code;
    }
    if (json_) {
      print_json(*object);
      return exit_done;
    }
    const auto reply = understand<Reply>(*object, code);
    if (reply) {
      print(*reply);
    }
    return code;
  }

  // The reply as a struct, or nothing after a message about versions that differ.
  template <class Reply>
  std::optional<Reply> understand(const boost::json::object& object, int& code) const {
    auto reply = from_json<Reply>(object);
    if (!reply) {
      code = fail(
          "the daemon's reply has another form than this terranectl knows; do their "
          "versions differ?");
    }
    return reply;
  }

  // A device's name as the daemon knows it, from what was typed; nothing, with `code` set, when the
  // daemon cannot be asked.
  std::optional<std::string> full_device(const std::string& text, int& code) const;

  void print_json(const boost::json::object& object) const;
  void print(const table& what) const;
  std::string paint(colour how, std::string_view text) const;

  // Prints a message and returns the exit code for it.
  int fail(std::string_view message, exit_code code = exit_failed) const;
  int report(const error& what) const;
  int report(const varlink::call_failure& what) const;

 private:
  const surroundings& around_;
  std::string socket_;
  bool json_;
};

// "io.terrane.Control.Member"
std::string method_name(std::string_view member);

}  // namespace terrane::ipc::ctl

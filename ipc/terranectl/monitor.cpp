#include "ipc/terranectl/commands.hpp"
#include "ipc/terranectl/words.hpp"

namespace terrane::ipc::ctl {
namespace {

void print_event(const context& with, const event& what) {
  std::string text = clock_text(what.time_unix_ms);
  with.out() << with.paint(colour::dim, text.substr(11)) << "  "
             << boost::describe::enum_to_string(what.kind, "") << ": " << printable(what.message);
  if (what.pause_ms) {
    with.out() << ", pause " << ms_text(*what.pause_ms);
  }
  if (what.decision) {
    with.out() << with.paint(colour::dim, "  (decision " + std::to_string(*what.decision) + ")");
  }
  with.out() << std::endl;
}

}  // namespace

int monitor(const context& with, std::optional<std::int64_t> count) {
  int code = exit_done;
  auto client = with.connect(code);
  if (!client) {
    return code;
  }
  std::int64_t seen = 0;
  const auto ended =
      client->stream(method_name("Monitor"), {}, [&](const boost::json::object& object, bool) {
        const auto reply = with.understand<monitor_reply>(object, code);
        if (!reply) {
          return false;
        }
        if (with.json()) {
          with.print_json(object);
        } else if (reply->event) {
          if (reply->lost > 0) {
            with.out() << with.paint(colour::bad,
                                     std::to_string(reply->lost) +
                                         " events were lost: this terminal was too slow")
                       << "\n";
          }
          print_event(with, *reply->event);
        }
        seen += reply->event ? 1 : 0;
        return !count || seen < *count;
      });
  return ended ? code : with.report(ended.error());
}

}  // namespace terrane::ipc::ctl

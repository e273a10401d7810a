#include "ipc/terranectl/commands.hpp"
#include "ipc/terranectl/words.hpp"

namespace terrane::ipc::ctl {
namespace {

// An order that holds, but could not be written down, is not done: a script must not take it for
// what outlives the daemon.
int kept(const context& with, const std::optional<std::string>& not_kept) {
  if (!not_kept) {
    return exit_done;
  }
  return with.fail(
      "the order holds, but ends with the daemon, since it could not be written "
      "down: " +
      *not_kept);
}

template <class Reply, class Print>
int order(const context& with, std::string_view member, const boost::json::object& parameters,
          Print print) {
  int code = exit_done;
  const auto object = with.call(member, parameters, code);
  const auto reply = object ? with.understand<Reply>(*object, code) : std::nullopt;
  if (!reply) {
    return code;
  }
  if (with.json()) {
    with.print_json(*object);
  } else {
    print(*reply);
  }
  return kept(with, reply->not_kept);
}

// Of what leaves a device: told at once, and on a terminal until nothing is left.
class leaving {
 public:
  explicit leaving(const context& with) : with_(with) {}

  void print(const yield_reply& so_far) {
    const bool live = with_.around().out_is_terminal;
    if (told_ && !live) {
      return;
    }
    with_.out() << printable(so_far.device) << " yields " << until_text(so_far.until_unix_ms)
                << "; " << bytes_text(so_far.left_bytes) << " are still to leave"
                << (live ? "" : "\n") << std::flush;
    told_ = true;
  }
  // Whatever else is written begins on a line of its own.
  void clear() const {
    if (told_ && with_.around().out_is_terminal) {
      with_.out() << "\r\033[K";
    }
  }

 private:
  const context& with_;
  bool told_ = false;
};

void print_free(const context& with, const yield_reply& reply) {
  with.out() << printable(reply.device) << " is free: " << bytes_text(reply.freed_bytes)
             << " given back";
  if (reply.driver_used_bytes) {
    with.out() << ", " << bytes_text(*reply.driver_used_bytes)
               << " in use by everybody, says the driver";
  }
  with.out() << "\nnothing comes there " << until_text(reply.until_unix_ms)
             << "; terranectl yield --end " << printable(reply.device) << " ends it\n";
}

std::string went_text(std::int64_t away) {
  if (away == 0) {
    return "may be used again; nothing had left it";
  }
  return "may be used again; what left it goes home" +
         (away == 1 ? std::string() : ": " + std::to_string(away) + " parts and KV caches");
}

}  // namespace

int switch_policy(const context& with, const std::string& name, bool enabled) {
  return order<policy_switch_reply>(
      with, "PolicySwitch", to_json(policy_switch{name, enabled}),
      [&](const policy_switch_reply& reply) {
        with.out() << "policy " << printable(reply.name) << " is "
                   << (reply.enabled ? "on\n" : "off; what it has moved stays where it is\n");
      });
}

int yield(const context& with, std::optional<std::string> device, std::optional<double> for_s) {
  int code = exit_done;
  if (device && !(device = with.full_device(*device, code))) {
    return code;
  }
  auto client = with.connect(code);
  if (!client) {
    return code;
  }
  leaving so_far(with);
  std::optional<std::string> not_kept;
  const auto given =
      client->stream(method_name("Yield"), to_json(yield_request{std::move(device), for_s}),
                     [&](const boost::json::object& object, bool more) {
                       so_far.clear();
                       const auto reply = with.understand<yield_reply>(object, code);
                       if (!reply) {
                         return false;
                       }
                       not_kept = reply->not_kept;
                       if (with.json()) {
                         with.print_json(object);
                       } else if (more) {
                         so_far.print(*reply);
                       } else {
                         print_free(with, *reply);
                       }
                       return true;
                     });
  if (code != exit_done) {
    return code;
  }
  if (given) {
    return kept(with, not_kept);
  }
  so_far.clear();
  code = with.report(given.error());
  // The order holds for all that: it goes on trying.
  if (given.error().refused && given.error().refused->name == method_name("NotFreed")) {
    kept(with, not_kept);
  }
  return code;
}

int end_yield(const context& with, std::optional<std::string> device) {
  int code = exit_done;
  if (device && !(device = with.full_device(*device, code))) {
    return code;
  }
  return order<end_yield_reply>(with, "EndYield", to_json(end_yield_request{std::move(device)}),
                                [&](const end_yield_reply& reply) {
                                  if (reply.ended.empty()) with.out() << "No device yields.\n";
                                  for (const ended_yield& one : reply.ended) {
                                    with.out() << printable(one.device) << " "
                                               << went_text(one.away) << "\n";
                                  }
                                });
}

void print_yields(const context& with, const std::vector<yield_info>& yields,
                  const device_names& names) {
  for (const yield_info& one : yields) {
    with.out() << printable(names.brief(one.device)) << " yields "
               << printable(yield_text(one, with.around().now_unix_ms())) << "\n";
  }
  if (!yields.empty()) {
    with.out() << with.paint(colour::dim, "terranectl yield --end DEVICE ends it") << "\n";
  }
}

}  // namespace terrane::ipc::ctl

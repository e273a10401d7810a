#include <algorithm>

#include "ipc/control/part_pattern.hpp"
#include "ipc/terranectl/commands.hpp"
#include "ipc/terranectl/words.hpp"

namespace terrane::ipc::ctl {
namespace {

// The parts that are meant, and the placement they were looked up in. What that placement was is no
// condition unless it is asked for: policies may move at any time.
struct wanted_move {
  move_request request;
  std::vector<part_placement> placement;

  // How many of the parts are on the device already.
  std::size_t there() const {
    return static_cast<std::size_t>(
        std::count_if(placement.begin(), placement.end(), [&](const part_placement& one) {
          return one.device == request.device &&
                 std::find(request.parts.begin(), request.parts.end(), one.part) !=
                     request.parts.end();
        }));
  }
};
std::optional<wanted_move> request_for(const context& with,
                                       const std::vector<std::string>& patterns, int& code) {
  const auto object = with.call("Placement", {}, code);
  auto reply = object ? with.understand<placement_reply>(*object, code) : std::nullopt;
  if (!reply) {
    return std::nullopt;
  }
  std::vector<std::string> names;
  for (const part_placement& one : reply->parts) {
    names.push_back(one.part);
  }
  auto parts = expand_parts(patterns, names);
  if (!parts) {
    code = with.fail("no part is called " + (parts.error().empty() ? "''" : parts.error()) +
                     "; `terranectl placement` lists them, and layer.0-3, layer.*.attn and all "
                     "are possible");
    return std::nullopt;
  }
  return wanted_move{{std::move(*parts), "", std::nullopt}, std::move(reply->parts)};
}

void print_progress(const context& with, const move_reply& reply) {
  if (!with.around().out_is_terminal || reply.bytes_total <= 0) {
    return;
  }
  with.out() << "\r\033[Kpreparing " << 100 * reply.bytes_done / reply.bytes_total << " % of "
             << bytes_text(reply.bytes_total) << std::flush;
}

void print_notes(const context& with, const move_reply& reply) {
  for (const std::string& note : reply.notes) {
    with.out() << printable(note) << "\n";
  }
}

void print_moved(const context& with, const wanted_move& wanted, const move_reply& reply) {
  const move_request& request = wanted.request;
  const std::size_t there = wanted.there(), moved = request.parts.size() - there;
  const std::string device = printable(device_names({request.device}).brief(request.device));
  with.out() << (with.around().out_is_terminal ? "\r\033[K" : "");
  if (moved == 0) {
    with.out() << (there == 1 ? request.parts.front() + " is on "
                              : "all " + std::to_string(there) + " parts are on ")
               << device << " already\n";
    return print_notes(with, reply);
  }
  with.out() << "moved "
             << (request.parts.size() == 1
                     ? request.parts.front()
                     : std::to_string(moved) + (moved == 1 ? " part" : " parts"))
             << " to " << device
             << (there > 0 ? " (" + std::to_string(there) + (there == 1 ? " was" : " were") +
                                 " there already)"
                           : "")
             << ": " << bytes_text(reply.bytes_total);
  if (reply.pause_ms) {
    with.out() << ", pause " << ms_text(*reply.pause_ms);
  }
  if (reply.bytes_in_pause) {
    with.out() << " for " << bytes_text(*reply.bytes_in_pause);
  }
  with.out() << ", revision " << reply.revision << "\n";
  print_notes(with, reply);
}

int done(const context& with, std::string_view member, const boost::json::object& parameters,
         const std::string& message) {
  return with.show<nothing>(member, parameters,
                            [&](const nothing&) { with.out() << message << "\n"; });
}

}  // namespace

int move_parts(const context& with, const std::vector<std::string>& patterns,
               const std::string& device, std::optional<std::int64_t> revision) {
  int code = exit_done;
  auto wanted = request_for(with, patterns, code);
  const auto target = wanted ? with.full_device(device, code) : std::nullopt;
  auto client = target ? with.connect(code) : std::nullopt;
  if (!client) {
    return code;
  }
  wanted->request.device = *target;
  wanted->request.revision = revision;
  const auto moved =
      client->stream(method_name("Move"), to_json(wanted->request),
                     [&](const boost::json::object& object, bool more) {
                       if (with.json()) {
                         with.print_json(object);
                       } else if (const auto reply = with.understand<move_reply>(object, code)) {
                         more ? print_progress(with, *reply) : print_moved(with, *wanted, *reply);
                       }
                       return true;
                     });
  return moved ? code : with.report(moved.error());
}

int cancel_move(const context& with, std::int64_t move) {
  return done(with, "CancelMove", to_json(cancel_move_request{move}),
              "move " + std::to_string(move) + " was cancelled");
}

int stop_reply(const context& with, std::int64_t session) {
  return done(with, "StopGenerate", to_json(session_request{session}),
              "the reply of session " + std::to_string(session) + " was stopped");
}

int close_session(const context& with, std::int64_t session) {
  return done(with, "CloseSession", to_json(session_request{session}),
              "session " + std::to_string(session) + " was closed");
}

int spill_kv(const context& with, const spill_kv_request& request) {
  spill_kv_request wanted = request;
  if (wanted.device) {
    int code = exit_done;
    wanted.device = with.full_device(*request.device, code);
    if (!wanted.device) {
      return code;
    }
  }
  return with.show<kv_reply>("SpillKv", to_json(wanted), [&](const kv_reply& reply) {
    with.out() << "spilled " << bytes_text(reply.bytes) << " of KV, revision " << reply.revision
               << "\n";
  });
}

int fetch_kv(const context& with, const fetch_kv_request& request) {
  return with.show<kv_reply>("FetchKv", to_json(request), [&](const kv_reply& reply) {
    with.out() << "fetched " << bytes_text(reply.bytes) << " of KV, revision " << reply.revision
               << "\n";
  });
}

}  // namespace terrane::ipc::ctl

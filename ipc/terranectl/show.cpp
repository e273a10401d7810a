#include <algorithm>

#include "ipc/control/part_pattern.hpp"
#include "ipc/terranectl/commands.hpp"
#include "ipc/terranectl/words.hpp"

namespace terrane::ipc::ctl {
namespace {

std::string count(std::int64_t number, const char* one, const char* many) {
  return std::to_string(number) + " " + (number == 1 ? one : many);
}

void line(const context& with, const char* name, const std::string& value) {
  const std::string padded = std::string(name) + std::string(10 - std::string(name).size(), ' ');
  with.out() << with.paint(colour::title, padded) << printable(value) << "\n";
}

std::string model_text(const model_info& model) {
  return model.name + ", " + model.architecture + ", " + model.format + ", " +
         count(model.layers, "layer", "layers") + ", " + bytes_text(model.weights_bytes) +
         ", context " + std::to_string(model.context_tokens) + ", " +
         (model.chat_format ? "chat format " + *model.chat_format : "no chat format");
}

const char* verb_of(access_level level) {
  switch (level) {
    case access_level::observe:
      return "observe";
    case access_level::operate:
      return "observe and operate";
    case access_level::admin:
      return "observe, operate and administer";
  }
  return "";
}

void print_working(const context& with, const status_reply& status) {
  line(with, "model", status.model ? model_text(*status.model) : "none");
  line(with, "placement",
       "revision " + std::to_string(status.revision) + ", " +
           count(status.devices, "device", "devices") + ", " +
           count(status.moves, "move", "moves") + " under way");
  const std::string rate = decimal(status.decode_tok_s, 1) + " tokens/s";
  line(with, "sessions",
       std::to_string(status.sessions) + ", of these generating " +
           std::to_string(status.generating) +
           (status.generating > 0     ? ", " + rate
            : status.decode_tok_s > 0 ? " (the last reply: " + rate + ")"
                                      : ""));
  line(with, "policies",
       std::to_string(status.policies) + ", revision " + status.policy_revision +
           (status.last_decision ? ", last decision " + std::to_string(*status.last_decision)
                                 : ", no decision yet"));
  std::string off;
  for (const std::string& name : status.switched_off) {
    off += (off.empty() ? "" : ", ") + name;
  }
  if (!off.empty()) {
    line(with, "off", off + " (terranectl policy enable NAME)");
  }
  for (const yield_info& one : status.yields) {
    line(with, "yields",
         device_names({one.device}).brief(one.device) + " " +
             yield_text(one, with.around().now_unix_ms()));
  }
  if (!status.yields.empty()) {
    line(with, "", "terranectl yield --end DEVICE ends it");
  }
  if (!status.predictions.empty()) {
    line(with, "predicted", predictions_text(status.predictions));
  }
}

void print_status(const context& with, const status_reply& status) {
  const char* state = boost::describe::enum_to_string(status.state, "");
  line(with, "daemon",
       std::string(state) + ", version " + status.version + ", process " +
           std::to_string(status.pid) + ", up " + duration_text(status.uptime_s));
  if (status.state == daemon_state::ready) {
    print_working(with, status);
  } else if (status.state == daemon_state::starting) {
    line(with, "model", "is being loaded");
  } else if (status.state == daemon_state::failed) {
    line(with, "model", "could not be loaded: " + status.reason.value_or("the journal says why"));
    line(with, "again", "put that right, then: kill -HUP " + std::to_string(status.pid));
  }
  line(with, "access", std::string("you may ") + verb_of(status.access));
  for (const std::string& warning : status.warnings) {
    with.out() << with.paint(colour::bad, "warning   ") << printable(warning) << "\n";
  }
}

std::vector<std::string> names_of(const std::vector<device_info>& devices) {
  std::vector<std::string> names;
  names.reserve(devices.size());
  for (const device_info& one : devices) {
    names.push_back(one.name);
  }
  return names;
}

std::string way_text(path_way way) {
  switch (way) {
    case path_way::peer:
      return "card to card, probed by checksum";
    case path_way::shared:
      return "within the card, probed by checksum";
    case path_way::memory:
      return "within the host's memory";
    case path_way::host:
      return "between the card and the host's memory";
    case path_way::staged:
      return "through the host's memory";
  }
  return "";
}

void print_paths(const context& with, const std::vector<device_path>& paths,
                 const device_names& names) {
  if (paths.empty()) return;
  table rows({{"FROM"}, {"TO"}, {"COPIES GO", align::left, true}});
  for (const device_path& one : paths) {
    rows.add({names.brief(one.from), names.brief(one.to),
              way_text(one.way) + (one.reason ? ": " + printable(*one.reason) : "")});
  }
  with.out() << "\n";
  with.print(rows);
}

void print_devices(const context& with, const devices_reply& reply) {
  const device_names names(names_of(reply.devices));
  table rows({{"DEVICE"},
              {"STATE"},
              {"PARTS", align::right},
              {"TOTAL", align::right},
              {"FREE", align::right},
              {"WEIGHTS", align::right},
              {"KV", align::right},
              {"SCRATCH", align::right},
              {"OTHERS", align::right},
              {"TEMP", align::right},
              {"WHAT", align::left, true}});
  for (const device_info& one : reply.devices) {
    rows.add({names.brief(one.name), boost::describe::enum_to_string(one.state, ""),
              std::to_string(one.parts), bytes_text(one.total_bytes), bytes_text(one.free_bytes),
              bytes_text(one.weights_bytes), bytes_text(one.kv_bytes),
              bytes_text(one.scratch_bytes + one.staging_bytes), bytes_text(one.others_bytes),
              one.temperature_c ? decimal(*one.temperature_c, 0) + " C" : "", one.description});
  }
  with.print(rows);
  for (const device_info& one : reply.devices) {
    if (one.reason) {
      with.out() << with.paint(colour::bad, names.brief(one.name)) << ": " << printable(*one.reason)
                 << "\n";
    }
  }
  print_yields(with, reply.yields, names);
  print_paths(with, reply.paths, names);
  if (names.any_cut()) {
    with.out() << "\n";
    for (const device_info& one : reply.devices) {
      if (names.brief(one.name) != one.name) {
        with.out() << with.paint(colour::dim, names.brief(one.name) + " = " + one.name) << "\n";
      }
    }
  }
}

bool wanted(const part_placement& one, const std::vector<std::string>& patterns) {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return part_matches(pattern, one.part); });
}

void print_placement(const context& with, const placement_reply& reply,
                     const std::vector<std::string>& patterns) {
  std::vector<std::string> all;
  for (const part_placement& one : reply.parts) {
    all.push_back(one.device);
    all.push_back(one.moving_to.value_or(one.device));
  }
  const device_names names(all);
  table rows({{"PART"},
              {"DEVICE"},
              {"MOVING TO"},
              {"WEIGHTS", align::right},
              {"KV", align::right},
              {"KV AWAY", align::right},
              {"SINCE", align::right},
              {"BY"},
              {"WHY", align::left, true}});
  const std::int64_t now = with.around().now_unix_ms();
  for (const part_placement& one : reply.parts) {
    if (wanted(one, patterns)) {
      rows.add({one.part, names.brief(one.device), one.moving_to ? names.brief(*one.moving_to) : "",
                bytes_text(one.weights_bytes), bytes_text(one.kv_bytes),
                one.kv_elsewhere_bytes > 0 ? bytes_text(one.kv_elsewhere_bytes) : "",
                duration_text(static_cast<double>(now - one.since_unix_ms) / 1000), one.by,
                one.reason});
    }
  }
  with.print(rows);
  with.out() << with.paint(colour::dim, "revision " + std::to_string(reply.revision)) << "\n";
}

void print_telemetry(const context& with, const telemetry_reply& reply) {
  table rows({{"OBJECT", align::left, true},
              {"METRIC"},
              {"VALUE", align::right},
              {"AGE", align::right},
              {"SOURCE"},
              {""}});
  for (const reading& one : reply.readings) {
    rows.add({one.object, one.metric, value_text(one.value, one.unit), duration_text(one.age_s),
              one.source, one.stale ? "stale" : ""});
  }
  with.print(rows);
  with.out() << with.paint(colour::dim, "snapshot " + std::to_string(reply.snapshot)) << "\n";
}

void print_sessions(const context& with, const sessions_reply& reply) {
  if (reply.sessions.empty()) {
    with.out() << "No sessions.\n";
    return;
  }
  std::vector<std::string> all;
  for (const session_info& one : reply.sessions) {
    for (const device_bytes& there : one.kv) {
      all.push_back(there.device);
    }
  }
  const device_names names(all);
  table rows({{"SESSION", align::right},
              {"USER", align::right},
              {"STATE"},
              {"CONTEXT", align::right},
              {"OF", align::right},
              {"IDLE", align::right},
              {"KV", align::left, true}});
  for (const session_info& one : reply.sessions) {
    std::string kv;
    for (const device_bytes& there : one.kv) {
      kv += (kv.empty() ? "" : ", ") + bytes_text(there.bytes) + " on " + names.brief(there.device);
      for (const device_bytes& reserved : one.kv_reserved)
        if (reserved.device == there.device && reserved.bytes > 0)
          kv += " (" + bytes_text(reserved.bytes) + " of it reserved)";
    }
    rows.add({std::to_string(one.id), std::to_string(one.owner_uid),
              boost::describe::enum_to_string(one.state, ""), std::to_string(one.context_tokens),
              std::to_string(one.context_limit_tokens), duration_text(one.idle_s), kv});
  }
  with.print(rows);
}

}  // namespace

int show_status(const context& with) {
  return with.show<status_reply>("Status", {},
                                 [&](const status_reply& reply) { print_status(with, reply); });
}

int show_devices(const context& with) {
  return with.show<devices_reply>("Devices", {},
                                  [&](const devices_reply& reply) { print_devices(with, reply); });
}

int show_placement(const context& with, const std::vector<std::string>& patterns) {
  return with.show<placement_reply>("Placement", {}, [&](const placement_reply& reply) {
    print_placement(with, reply, patterns);
  });
}

int show_telemetry(const context& with) {
  return with.show<telemetry_reply>(
      "Telemetry", {}, [&](const telemetry_reply& reply) { print_telemetry(with, reply); });
}

// As it is, for a file.
int print_snapshot(const context& with) {
  return with.show<snapshot_reply>("Snapshot", {},
                                   [&](const snapshot_reply& reply) { with.out() << reply.trace; });
}

int show_sessions(const context& with) {
  return with.show<sessions_reply>(
      "Sessions", {}, [&](const sessions_reply& reply) { print_sessions(with, reply); });
}

}  // namespace terrane::ipc::ctl

// terraned: reads the configuration, serves the control socket, loads the model, then ticks until
// told to stop. SIGTERM and SIGINT end it after the running step, SIGHUP loads the policies again.
//
// Exit status: 0 after a clean stop, 1 when it could not start, 2 for usage.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/config/config.hpp"
#include "daemon/journal/event.hpp"
#include "daemon/journal/log.hpp"
#include "daemon/loop/control_loop.hpp"
#include "daemon/service/service.hpp"
#include "daemon/version.hpp"
#include "ipc/control/server.hpp"
#include "kernels/cache/code_cache.hpp"

namespace terrane::daemon {
namespace {

std::int64_t steady_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void tell(const diagnostics& faults) {
  for (const policies::diagnostic& d : faults) log(d);
}

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, s);
  return set;
}

// Waits for a signal or until the clock shows `until_ms`; 0 when the time has come.
int wait_for_signal(const sigset_t& set, std::int64_t until_ms) {
  const std::int64_t left = std::max<std::int64_t>(0, until_ms - steady_ms());
  const timespec timeout{left / 1000, left % 1000 * 1'000'000};
  const int signal = sigtimedwait(&set, nullptr, &timeout);
  return signal < 0 ? 0 : signal;
}

// A socket that systemd passes in, else one of our own at the configured path.
ipc::result<ipc::varlink::listen_socket> open_socket(const config& c) {
  const int passed = sd_listen_fds(1);
  if (passed > 1)
    return ipc::fail(ipc::error_code::io,
                     std::to_string(passed) + " sockets were passed in, expected one");
  if (passed == 1) return ipc::varlink::listen_socket::from_descriptor(SD_LISTEN_FDS_START);
  return ipc::varlink::listen_socket::at_path(c.socket);
}

result<std::unique_ptr<engine::inference_engine>> start_engine(
    const config& c, const engine::device_settings& base) {
  result<std::unique_ptr<const engine::model>> model = engine::model::open(c.model_file);
  if (!model) return tl::unexpected<error>(model.error());
  std::vector<std::unique_ptr<engine::device>> devices;
  std::uint32_t start_on = 0;
  bool found = c.start_on.empty();
  for (const device_config& d : c.devices) {
    engine::device_settings settings = base;
    settings.cpu_threads = d.threads;
    result<std::unique_ptr<engine::device>> opened = engine::open_device(d.name, settings);
    if (!opened) return tl::unexpected<error>(opened.error());
    (*opened)->set_budget_bytes(d.budget_bytes);
    if (!found && (d.name == c.start_on || (*opened)->info().name == c.start_on)) {
      start_on = static_cast<std::uint32_t>(devices.size());
      found = true;
    }
    log(log_level::info, (*opened)->info().name + ": " + (*opened)->info().description);
    devices.push_back(std::move(*opened));
  }
  if (!found)
    return fail(error_code::not_found,
                "start_on names '" + c.start_on + "', which is not one of the devices");
  engine::engine_options options;
  options.context_tokens = std::min(c.context_tokens, (*model)->config().context_tokens);
  if (options.context_tokens < c.context_tokens) {
    log(log_level::warning, "context: " + std::to_string(c.context_tokens) +
                                " tokens are more than the model was trained for; it has " +
                                std::to_string(options.context_tokens));
  }
  options.sessions = c.sessions;
  options.rows = c.rows;
  options.check_numbers = c.check_numbers;
  options.placement.assign((*model)->parts().size(), start_on);
  int told = -1;
  return engine::inference_engine::start(
      std::move(*model), std::move(devices), options,
      [&told](std::uint64_t done, std::uint64_t total) {
        const int percent = static_cast<int>(done * 100 / std::max<std::uint64_t>(1, total));
        if (percent / 5 == told) return;
        told = percent / 5;
        sd_notifyf(0, "STATUS=Loading weights, %d %%\nEXTEND_TIMEOUT_USEC=60000000", percent);
      });
}

// A cache that cannot be kept is no reason not to start, but each start then compiles again.
void warn_of_cache(const std::string& folder) {
  std::error_code fault;
  std::filesystem::create_directories(folder, fault);
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    log(log_level::warning, "cache: " + folder + " cannot be written (" + std::strerror(errno) +
                                "); kernels will be compiled again at each start");
}

// Devices of the machine that the configuration names but that are refused are an error; others
// that are refused are shown by `terranectl devices`.
std::vector<engine::device_candidate> refused_devices(const engine::device_settings& settings) {
  std::vector<engine::device_candidate> out;
  for (engine::device_candidate& c : engine::list_devices(settings))
    if (!c.refused.empty()) out.push_back(std::move(c));
  return out;
}

void tick_until_stopped(const config& c, control_loop& loop, service& answers) {
  const sigset_t signals = watched_signals();
  std::int64_t next = steady_ms();
  while (true) {
    const int signal = wait_for_signal(signals, next);
    if (signal == SIGTERM || signal == SIGINT) return;
    if (signal == SIGHUP) {
      sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld", static_cast<long long>(steady_ms()) * 1000);
      static_cast<void>(answers.reload_policies());  // it tells the journal how it went
      sd_notify(0, "READY=1");
      continue;
    }
    loop.tick();
    sd_notify(0, "WATCHDOG=1");  // after a completed tick, so a stuck loop is noticed
    next = std::max(next + c.period_ms, steady_ms());
  }
}

int run(const config& c) {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // every thread from here on
  std::signal(SIGPIPE, SIG_IGN);

  auto set = policies::policy_set::load(c.policies);
  if (!set) {
    tell(set.error());
    log(log_level::error, "the policies have faults; terraned does not start with them");
    return 1;
  }
  tell((*set)->warnings());

  ipc::event_hub events;
  service answers(c, events);
  ipc::result<ipc::varlink::listen_socket> socket = open_socket(c);
  if (!socket) {
    log(log_level::error, socket.error().message);
    return 1;
  }
  ipc::control_server server(answers, events, {version, {c.operate_group, c.admin_group}, {}});
  const std::string at = socket->name();
  if (auto ok = server.start(std::move(*socket)); !ok) {
    log(log_level::error, ok.error().message);
    return 1;
  }
  log(log_level::info, "serving " + at + ", loading " + c.model_file.string());

  engine::device_settings settings;
  settings.cache_folder = c.cache_folder.empty() ? kernels::default_cache_folder() : c.cache_folder;
  warn_of_cache(settings.cache_folder);
  result<std::unique_ptr<engine::inference_engine>> started = start_engine(c, settings);
  if (!started) {
    log(log_level::error, to_string(started.error()));
    sd_notifyf(0, "STATUS=%s", to_string(started.error()).c_str());
    server.stop();
    return 1;
  }
  engine::inference_engine& e = **started;
  snapshot_builder builder(e, make_sources(c, e.devices()), c.pinned);
  for (const std::string& pattern : builder.pinned_nowhere())
    log(log_level::warning, "pinned: the model has no part '" + pattern + "'");
  control_loop loop(e, std::move(builder), *set, events, steady_ms);
  answers.set_ready(e, loop, refused_devices(settings));
  log(log_level::notice, "ready: " + e.loaded_model().config().name + " on " +
                             std::to_string(e.devices().size()) + " devices, " +
                             std::to_string((*set)->rules().size()) + " policies");
  events.publish(event_now(ipc::event_kind::started, e.loaded_model().config().name + " is ready"));
  sd_notifyf(0, "READY=1\nSTATUS=Ready: %s", e.loaded_model().config().name.c_str());

  tick_until_stopped(c, loop, answers);
  log(log_level::notice, "stopping");
  events.publish(event_now(ipc::event_kind::stopping, "the daemon is stopping"));
  sd_notify(0, "STOPPING=1\nSTATUS=Stopping");
  answers.set_stopping();
  server.stop();
  answers.finish();
  return 0;
}

int list_devices() {
  for (const engine::device_candidate& c : engine::list_devices({}))
    std::printf("%-46s %s%s\n", c.info.name.c_str(), c.info.description.c_str(),
                c.refused.empty() ? "" : (", refused: " + c.refused).c_str());
  return 0;
}

}  // namespace
}  // namespace terrane::daemon

int main(int argc, char** argv) {
  using namespace terrane::daemon;
  CLI::App app("Terrane's daemon: a language model across CPU and GPUs, placed by policy");
  std::string path = "/etc/terrane/terraned.yaml";
  bool check = false, list = false;
  app.add_option("-c,--config", path, "configuration file")->capture_default_str();
  app.add_flag("--check", check, "check configuration and policies, and exit");
  app.add_flag("--list-devices", list, "print the devices of this machine, and exit");
  app.set_version_flag("--version", version);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (list) return list_devices();
  auto c = load_config(path);
  if (!c) {
    tell(c.error());
    return 1;
  }
  if (check) {
    auto faults = terrane::policies::lint(c->policies);
    tell(faults);
    return std::any_of(faults.begin(), faults.end(),
                       [](const auto& d) { return d.level == terrane::policies::severity::error; });
  }
  return run(*c);
}

// terraned's command line. What it does then is in lifetime/lifetime.hpp. SIGTERM and SIGINT end it
// after the running step, SIGHUP loads the policies again, and the model if that has failed.
//
// Exit status: 0 after a clean stop, 1 when it could not start, 2 for usage.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include <CLI/CLI.hpp>

#include "daemon/config/config.hpp"
#include "daemon/journal/log.hpp"
#include "daemon/lifetime/engine_start.hpp"
#include "daemon/lifetime/lifetime.hpp"
#include "daemon/process/left_behind.hpp"
#include "daemon/version.hpp"
#include "engine/device/discovery.hpp"
#include "kernels/cache/code_cache.hpp"
#include "policies/pipeline/policy_set.hpp"

namespace terrane::daemon {
namespace {

void tell(const diagnostics& faults) {
  for (const policies::diagnostic& d : faults) log(d);
}

int list_devices() {
  for (const engine::device_candidate& c : engine::list_devices({})) {
    std::string what = c.info.description;
    if (!c.refused.empty()) what += (what.empty() ? "refused: " : ", refused: ") + c.refused;
    std::printf("%-46s %s\n", c.info.name.c_str(), what.c_str());
  }
  return 0;
}

// What is wrong with the device that parts are to begin on, on this machine; nothing if it is
// there.
std::string start_on_fault(const config& c) {
  const std::string& wanted = c.start_on;
  if (wanted.empty() || wanted == automatic_start) return "";
  std::string there, refused;
  for (const engine::device_candidate& d : engine::list_devices({})) {
    const bool meant = names_device(wanted, d.info.name);
    if (meant && d.refused.empty()) return "";
    if (meant) refused = "start_on: '" + wanted + "' cannot be used: " + d.refused;
    if (d.refused.empty()) there += (there.empty() ? "" : ", ") + d.info.name;
  }
  if (!refused.empty()) return refused;
  return "start_on: there is no device '" + wanted + "' on this machine; there are " + there;
}

// The configuration itself has been read without a fault.
int check_on_this_machine(const config& c, const std::string& path) {
  if (const std::string fault = start_on_fault(c); !fault.empty()) {
    log(log_level::error, path + ": " + fault);
    return 1;
  }
  const auto faults = policies::lint(c.policies);
  tell(faults);
  if (std::any_of(faults.begin(), faults.end(),
                  [](const auto& d) { return d.level == policies::severity::error; }))
    return 1;
  std::printf("%s: no faults\n", path.c_str());
  return 0;
}

start_settings offline_start(const config& c) {
  start_settings settings;
  settings.cache_folder = c.cache_folder.empty() ? kernels::default_cache_folder() : c.cache_folder;
  settings.warn = [](const std::string& text) { log(log_level::warning, text); };
  return settings;
}

// What could not be written was not told: a full disk must not look like an answer.
int all_written(int code) {
  const bool was_whole = std::cout.good() && std::ferror(stdout) == 0;
  // What failed long ago has forgotten why: the end of the line says it again.
  if (!was_whole) {
    std::cout.clear();
    std::fputs("\n", stdout);
  }
  errno = 0;
  const bool flushed = std::cout.flush().good() && std::fflush(stdout) == 0;
  if (was_whole && flushed && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "terraned: the output could not be written whole: %s\n",
               errno != 0 ? std::strerror(errno) : "its end is closed");
  return code == 0 ? 1 : code;
}

int tell(const result<std::string>& answer) {
  if (!answer) {
    log(log_level::error, to_string(answer.error()));
    return 1;
  }
  std::fputs(answer->c_str(), stdout);
  return 0;
}

// Before any byte of the weights is read, and beside a daemon that runs: it counts what that one
// holds as others' use.
int tell_fit(const config& c, bool json) { return tell(describe_fit(c, offline_start(c), json)); }

int tell_telemetry(const config& c, bool json) {
  nvml_options nvml;
  nvml.patience = std::chrono::seconds(5);  // nobody else waits
  return tell(describe_telemetry(c, offline_start(c), nvml, json));
}

int run(int argc, char** argv) {
  CLI::App app("Terrane's daemon: a language model across CPU and GPUs, placed by policy");
  std::string path = "/etc/terrane/terraned.yaml";
  bool check = false, list = false, fit = false, telemetry = false, json = false;
  app.add_option("-c,--config", path, "configuration file")->capture_default_str();
  app.add_flag("--check", check, "check configuration and policies, and exit");
  app.add_flag("--list-devices", list, "print the devices of this machine, and exit");
  CLI::Option* fit_option = app.add_flag(
      "--fit", fit,
      "say whether the configured model fits, where, with what context, how fast; and exit");
  CLI::Option* telemetry_option =
      app.add_flag("--telemetry", telemetry,
                   "print what is measured of this machine and the configured devices, and exit");
  telemetry_option->excludes(fit_option);
  app.add_flag("--json", json, "with --fit or --telemetry: as JSON");
  app.set_version_flag("--version", std::string("terraned ") + version);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return all_written(app.exit(error) == 0 ? 0 : 2);
  }
  if (json && !fit && !telemetry) {
    std::fputs("--json goes with --fit or --telemetry\n", stderr);
    return 2;
  }
  if (list) return all_written(list_devices());
  auto c = load_config(path);
  if (!c) {
    tell(c.error());
    return 1;
  }
  if (check) return all_written(check_on_this_machine(*c, path));
  if (fit) return all_written(tell_fit(*c, json));
  if (telemetry) return all_written(tell_telemetry(*c, json));
  return live(*c);
}

}  // namespace
}  // namespace terrane::daemon

int main(int argc, char** argv) {
  const int status = terrane::daemon::run(argc, argv);
  if (terrane::daemon::threads_left_behind() == 0) return status;
  // What they still use is not taken down.
  std::fflush(nullptr);
  std::_Exit(status);
}

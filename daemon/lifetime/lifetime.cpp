#include "daemon/lifetime/lifetime.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <utility>

#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/journal/event.hpp"
#include "daemon/journal/log.hpp"
#include "daemon/journal/warnings.hpp"
#include "daemon/lifetime/load_thread.hpp"
#include "daemon/lifetime/wake_up.hpp"
#include "daemon/loop/control_loop.hpp"
#include "daemon/process/folder_lock.hpp"
#include "daemon/service/service.hpp"
#include "daemon/version.hpp"
#include "ipc/control/access.hpp"
#include "ipc/control/server.hpp"
#include "kernels/cache/code_cache.hpp"

namespace terrane::daemon {

namespace {

// Why nothing can be kept in a folder; empty: it can. It is tried: permissions do not tell of a
// disk that is full.
std::string why_not_kept(const std::string& folder) {
  std::error_code fault;
  std::filesystem::create_directories(folder, fault);
  if (fault) return fault.message();
  std::string trial = folder + "/trial-XXXXXX";
  const int file = mkstemp(trial.data());
  if (file < 0) return std::strerror(errno);
  const std::array<char, 4096> block{};
  errno = ENOSPC;  // of a part that is written
  const bool whole = write(file, block.data(), block.size()) == std::ssize(block);
  const std::string why = whole ? "" : std::strerror(errno);
  close(file);
  unlink(trial.c_str());
  return why;
}

// A cache that cannot be kept is no reason not to start, but each start then takes longer.
void check_cache(const std::string& folder, warnings& to) {
  const std::string why = why_not_kept(folder);
  if (!why.empty())
    to.add("cache: " + folder + " cannot be written (" + why +
           "); kernels will be compiled and timed again at each start. Make room or mend its "
           "permissions, or name another folder with 'cache'");
}

// A group that is not there lets nobody in, which nobody would guess from a refusal.
void check_groups(const config& c, warnings& to) {
  const std::array<std::pair<const char*, const std::string&>, 2> groups = {
      {{"operate_group", c.operate_group}, {"admin_group", c.admin_group}}};
  for (const auto& [key, name] : groups) {
    if (ipc::group_named(name)) continue;
    to.add(std::string("control.") + key + ": there is no group '" + name +
           "' on this machine, so it lets nobody in; root and terraned's own user may do all");
  }
}

engine::session_observer tell_sessions(ipc::event_hub& events) {
  return [&events](engine::session_change change, engine::session_id session, std::int64_t owner) {
    const bool opened = change == engine::session_change::opened;
    ipc::event e =
        event_now(opened ? ipc::event_kind::session_opened : ipc::event_kind::session_closed,
                  "session " + std::to_string(session) + " of user " + std::to_string(owner) +
                      (opened ? " was opened" : " was closed"));
    e.session = static_cast<std::int64_t>(session);
    events.publish(e);
  };
}

// systemd takes a message as lines; a text from elsewhere, such as a file's name, is one.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text;
}

// As configured, or the one that systemd made (StateDirectory=).
std::filesystem::path state_folder(const config& c) {
  if (!c.state_folder.empty()) return c.state_folder;
  const char* given = std::getenv("STATE_DIRECTORY");
  return given == nullptr ? "" : std::string(given).substr(0, std::string_view(given).find(':'));
}

constexpr const char* state_name = "policies.state";

// Where the state is written to, which may be elsewhere when its file is a link; nothing if
// nowhere.
std::filesystem::path written_folder(const config& c) {
  const std::filesystem::path folder = state_folder(c);
  return folder.empty() ? folder : state_file::written(folder / state_name).parent_path();
}

// What two daemons wrote at once would be neither's. Null, and told why, where another is there.
// Threads that write hold on to it: one that hangs on its disk outlives what began it.
std::shared_ptr<folder_locks> lock_folders(const config& c) {
  auto locks = std::make_shared<folder_locks>();
  for (const auto& [what, folder] :
       {std::pair("state", state_folder(c)), std::pair("state", written_folder(c)),
        std::pair("record", c.record.folder)}) {
    if (folder.empty()) continue;
    const std::string taken = locks->take(folder);
    if (taken.empty()) continue;
    log(log_level::error, std::string(what) + ": " + taken);
    return nullptr;
  }
  return locks;
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

// Tells systemd how far the weights are, each twentieth of the way.
engine::load_progress tell_systemd() {
  return [told = -1](std::uint64_t done, std::uint64_t total) mutable {
    const int percent = static_cast<int>(done * 100 / std::max<std::uint64_t>(1, total));
    if (percent / 5 == told) return true;
    told = percent / 5;
    sd_notifyf(0, "STATUS=Loading weights, %d %%\nEXTEND_TIMEOUT_USEC=60000000", percent);
    return true;
  };
}

// What became of what was on lost devices: told, and in Status as long as it is the newest.
auto tell_refuge(warnings& standing) {
  return [&](const engine::refuge_report&, const std::string& sentence) {
    standing.hold("lost devices", sentence);
    sd_notifyf(0, "STATUS=%s", one_line(sentence).c_str());
  };
}

class lifetime {
 public:
  lifetime(const config& c, policies::policy_set_ptr set, std::shared_ptr<folder_locks> locks)
      : config_(c),
        set_(std::move(set)),
        locks_(std::move(locks)),
        warnings_(events_),
        answers_(c, events_, warnings_),
        server_(answers_, events_, {version, {c.operate_group, c.admin_group}, {}}),
        loading_(call_main) {
    answers_.on_reload([this](policies::policy_set_ptr taken) {
      {
        std::lock_guard lock(reload_guard_);
        reloaded_ = std::move(taken);
      }
      call_main();
    });
  }

  bool serve();
  void run();  // until it is told to stop
  void stop();

 private:
  void begin_load();
  void end_load(result<started_engine> outcome);
  void take_into_use(started_engine started);
  void serve_without_model(const error& why);
  void reload();
  void take_reloaded();
  void pass_time();
  void look();
  void say_ready(const std::string& status);

  const config& config_;
  policies::policy_set_ptr set_;  // in force, or to be once there is a model
  std::shared_ptr<folder_locks> locks_;
  std::mutex reload_guard_;
  policies::policy_set_ptr reloaded_;  // to be taken over by the main thread
  ipc::event_hub events_;
  warnings warnings_;
  std::size_t lasting_warnings_ = 0;  // those that another load does not take back
  service answers_;
  ipc::control_server server_;
  load_thread loading_;
  std::unique_ptr<engine::inference_engine> engine_;
  std::unique_ptr<recorder> recorder_;
  std::unique_ptr<state_file> state_file_;
  std::optional<control_loop> loop_;
  std::int64_t next_tick_ms_ = 0;
  bool said_ready_ = false, failed_ = false;
  bool looked_ = false;  // since the model is there
};

bool lifetime::serve() {
  ipc::result<ipc::varlink::listen_socket> socket = open_socket(config_);
  if (!socket) {
    log(log_level::error, socket.error().message);
    return false;
  }
  const std::string at = socket->name();
  if (auto ok = server_.start(std::move(*socket)); !ok) {
    log(log_level::error, ok.error().message);
    return false;
  }
  log(log_level::info, "serving " + at + ", loading " + config_.model_file.string());
  check_groups(config_, warnings_);
  lasting_warnings_ = warnings_.count();
  return true;
}

void lifetime::run() {
  begin_load();
  std::uint64_t watchdog_us = 0;
  const bool watched = sd_watchdog_enabled(0, &watchdog_us) > 0;
  while (true) {
    std::int64_t until = next_tick_ms_;
    if (watched)
      until = std::min(until, steady_ms() + static_cast<std::int64_t>(watchdog_us / 2000));
    switch (wait_for_wake_up(until)) {
      case wake_up::stop:
        return;
      case wake_up::reload:
        reload();
        break;
      case wake_up::called:
        take_reloaded();
        if (auto outcome = loading_.take()) end_load(std::move(*outcome));
        break;
      case wake_up::time:
        pass_time();
        break;
    }
  }
}

void lifetime::pass_time() {
  if (steady_ms() >= next_tick_ms_) {
    if (loop_) look();
    next_tick_ms_ = std::max(next_tick_ms_ + config_.period_ms, steady_ms());
  }
  sd_notify(0, "WATCHDOG=1");  // after a completed tick, so that a stuck one is noticed
}

void lifetime::look() {
  loop_->tick();
  if (!std::exchange(looked_, true)) answers_.begin_to_tell_what_cannot_act();
}

void lifetime::begin_load() {
  failed_ = false;
  start_settings settings;
  settings.cache_folder =
      config_.cache_folder.empty() ? kernels::default_cache_folder() : config_.cache_folder;
  settings.warn = [this](const std::string& sentence) { warnings_.add(sentence); };
  settings.progress = tell_systemd();
  settings.on_session = tell_sessions(events_);
  settings.on_refuge = tell_refuge(warnings_);
  warnings_.forget_after(lasting_warnings_);
  check_cache(settings.cache_folder, warnings_);
  next_tick_ms_ = steady_ms();
  loading_.start(config_, std::move(settings));
}

void lifetime::end_load(result<started_engine> outcome) {
  if (outcome)
    take_into_use(std::move(*outcome));
  else
    serve_without_model(outcome.error());
}

void lifetime::take_into_use(started_engine started) {
  engine_ = std::move(started.engine);
  load_facts load = started.planned ? facts_of(*started.planned) : load_facts();
  load.promotes = config_.promotes;
  snapshot_builder builder(*engine_, make_sources(config_, started.devices, engine_->devices()),
                           config_.pinned, config_.limits, std::move(load));
  for (const std::string& pattern : builder.pinned_nowhere())
    warnings_.add("pinned: the model has no part '" + pattern + "'");
  loop_.emplace(*engine_, std::move(builder), set_, events_, steady_ms);
  if (!config_.record.folder.empty()) {
    record_settings settings = config_.record;
    settings.refused = [locks = locks_, folder = settings.folder] { return locks->keep(folder); };
    recorder_ = std::make_unique<recorder>(std::move(settings));
    loop_->record(*recorder_);
  }
  if (const std::filesystem::path folder = state_folder(config_); !folder.empty()) {
    state_file_ = std::make_unique<state_file>(folder / state_name, state_file::under(locks_));
    for (const std::string& sentence : loop_->keep(*state_file_)) warnings_.add(sentence);
  }
  looked_ = false;
  answers_.set_ready(*engine_, *loop_, std::move(started.devices), std::move(started.refused),
                     std::move(started.paths));
  const std::string& name = engine_->loaded_model().config().name;
  const std::size_t devices = engine_->devices().size(), policies = set_->rules().size();
  log(log_level::notice, "ready: " + name + " on " + std::to_string(devices) +
                             (devices == 1 ? " device, " : " devices, ") +
                             std::to_string(policies) + (policies == 1 ? " policy" : " policies"));
  events_.publish(event_now(ipc::event_kind::started, name + " is ready"));
  say_ready("Ready: " + name);
  next_tick_ms_ = steady_ms();
}

void lifetime::serve_without_model(const error& why) {
  failed_ = true;
  const std::string reason = to_string(why);
  answers_.set_failed(reason);
  log(log_level::error, "the model could not be loaded: " + reason +
                            "; terraned stays, and SIGHUP makes it try again");
  events_.publish(event_now(ipc::event_kind::warning, "the model could not be loaded: " + reason));
  say_ready("No model: " + reason);
}

// A start is over for systemd when it is known what came of it: without a model there is a daemon
// that says why.
void lifetime::say_ready(const std::string& status) {
  sd_notifyf(0, "READY=1\nSTATUS=%s", one_line(status).c_str());
  said_ready_ = true;
}

void lifetime::reload() {
  if (said_ready_)
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld", static_cast<long long>(steady_ms()) * 1000);
  answers_.reload_policies([said = said_ready_] {  // it tells how it went
    if (said) sd_notify(0, "READY=1");
  });
  if (!failed_) return;
  log(log_level::notice, "loading " + config_.model_file.string() + " again");
  answers_.set_starting();
  begin_load();
}

// The model may be there only since the set was loaded.
void lifetime::take_reloaded() {
  std::lock_guard lock(reload_guard_);
  if (reloaded_ == nullptr) return;
  set_ = std::move(reloaded_);
  reloaded_ = nullptr;
  if (loop_ && loop_->policies() != set_) loop_->use(set_);
}

void lifetime::stop() {
  log(log_level::notice, "stopping");
  events_.publish(event_now(ipc::event_kind::stopping, "the daemon is stopping"));
  sd_notify(0, "STOPPING=1\nSTATUS=Stopping");
  loading_.give_up();
  answers_.set_stopping();
  server_.stop();
  if (engine_ != nullptr) engine_->refuse_waiting("the daemon is stopping");
  answers_.finish();
  if (loop_) loop_->save();  // after the last order has been answered
}

}  // namespace

int live(const config& c) {
  block_signals();
  auto set = policies::policy_set::load(c.policies);
  if (!set) {
    for (const policies::diagnostic& d : set.error()) log(d);
    log(log_level::error, "the policies have faults; terraned does not start with them");
    return 1;
  }
  for (const policies::diagnostic& d : (*set)->warnings()) log(d);
  std::shared_ptr<folder_locks> locks = lock_folders(c);
  if (locks == nullptr) return 1;
  lifetime life(c, std::move(*set), std::move(locks));
  if (!life.serve()) return 1;
  life.run();
  life.stop();
  return 0;
}

}  // namespace terrane::daemon

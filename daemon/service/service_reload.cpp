// The part of the service that loads policies again: a set is tried before it is put in force.
#include <chrono>

#include "daemon/journal/event.hpp"
#include "daemon/journal/log.hpp"
#include "daemon/service/service.hpp"
#include "daemon/service/to_protocol.hpp"
#include "policies/canary/canary.hpp"

namespace terrane::daemon {

namespace {

// A test that would begin later is not run, and the set refused.
constexpr std::chrono::seconds longest_tests{20};

std::string sentence(const policies::diagnostic& d) {
  return to_string(d.where) + ": " + d.message;
}

// The first fault, without what follows its first line.
std::string brief(const std::vector<policies::diagnostic>& faults) {
  std::string text = to_string(faults.front());
  text = text.substr(0, text.find('\n'));
  if (faults.size() > 1) text += " (and " + std::to_string(faults.size() - 1) + " more)";
  return text;
}

}  // namespace

void service::reload_policies(std::function<void()> ended) {
  reloader_.add([this, ended = std::move(ended)] {
    reload_now();
    ended();
  });
}

policies::policy_set::load_result<service::reloaded> service::reload_now() {
  const auto refuse = [&](std::vector<policies::diagnostic> faults) {
    for (const policies::diagnostic& d : faults) log(d);
    warnings_.hold("policies",
                   "policies were not replaced, the old set stays in force: " + brief(faults));
    return tl::unexpected(std::move(faults));
  };
  auto set = policies::policy_set::load(config_.policies);
  if (!set) return refuse(std::move(set.error()));
  const auto until = std::chrono::steady_clock::now() + longest_tests;
  auto tests = policies::canary::run_tests(config_.policies, [&] {
    return std::chrono::steady_clock::now() < until && state_ != ipc::daemon_state::stopping;
  });
  if (!tests.faults.empty()) return refuse(std::move(tests.faults));
  reloaded out{*set, tests.passed, {}};
  const bool ready = state_ == ipc::daemon_state::ready;
  if (ready) out.notes = notes_on(**set);
  // Told first: whoever puts in force what was told last never puts back an older one.
  if (told_) told_(*set);
  if (ready) {
    loop_->use(*set);
    tell_what_cannot_act();
  }
  warnings_.hold("policies", "");
  const std::size_t policies = (*set)->rules().size();
  std::string text = std::to_string(policies) + (policies == 1 ? " policy" : " policies") +
                     " in force, revision " + (*set)->revision();
  if (tests.passed > 0)
    text +=
        ", " + std::to_string(tests.passed) + (tests.passed == 1 ? " test" : " tests") + " passed";
  for (const std::string& note : out.notes) text += "; " + note;
  events_.publish(event_now(ipc::event_kind::policy_reloaded, text));
  log(log_level::notice, text);
  return out;
}

void service::begin_to_tell_what_cannot_act() {
  reloader_.add([this] { tell_what_cannot_act(); });
}

void service::tell_what_cannot_act() {
  std::string text;
  for (const policies::diagnostic& d :
       policies::canary::what_cannot_act(*loop_->policies(), loop_->this_moment().seen))
    text += (text.empty() ? "" : "; ") + sentence(d);
  warnings_.hold("policies that cannot act", text);
}

std::vector<std::string> service::notes_on(const policies::policy_set& next) {
  const policies::policy_set_ptr old = loop_->policies();
  std::vector<std::string> notes;
  const control_loop::moment m = loop_->this_moment();  // copies: nothing is changed or held up
  if (old->revision() != next.revision())
    notes = policies::canary::differences(*old, next, m.seen, m.memory);
  for (const policies::diagnostic& d : policies::canary::what_cannot_act(next, m.seen))
    notes.push_back(sentence(d));
  // Of those that go now; Status names all that are off.
  for (const std::string& name : loop_->standing().disabled()) {
    if (old->find(name) == nullptr || next.find(name) != nullptr) continue;
    notes.push_back("policy '" + name +
                    "' is switched off and not among these; it stays off should it come back, "
                    "unless terranectl policy enable " +
                    name + " forgets that");
  }
  return notes;
}

void service::policy_reload(const ipc::caller&, ipc::answer<ipc::policy_reload_reply> to) {
  if (const auto refused = no_engine()) return to.fail(*refused);
  reloader_.add([this, to] {
    auto done = reload_now();
    if (!done) {
      return to.fail(
          ipc::refuse::policy_invalid(to_protocol(done.error()), "the old set stays in force"));
    }
    const auto count = [](std::size_t n) { return static_cast<std::int64_t>(n); };
    to.finish({done->set->revision(), count(done->set->rules().size()),
               to_protocol(done->set->warnings()), count(done->tests), done->notes});
  });
}

}  // namespace terrane::daemon

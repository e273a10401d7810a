#include "policies/pipeline/policy_set.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <system_error>
#include <tuple>

#include "policies/lua/loader.hpp"
#include "policies/rule/contradictions.hpp"
#include "policies/rule/lint.hpp"
#include "policies/yaml/loader.hpp"

namespace terrane::policies {
namespace {

namespace fs = std::filesystem;

bool is_yaml(const fs::path& p) { return p.extension() == ".yaml" || p.extension() == ".yml"; }
bool is_lua(const fs::path& p) { return p.extension() == ".lua"; }
bool is_test(const fs::path& p) { return p.filename().string().ends_with(test_ending); }

policy_language language_of(const policy_source& source) {
  if (source.language != policy_language::by_name) return source.language;
  if (is_yaml(source.name)) return policy_language::yaml;
  return is_lua(source.name) ? policy_language::lua : policy_language::by_name;
}

void error_at(const std::string& file, std::string message, std::vector<diagnostic>& faults) {
  faults.push_back({severity::error, {file}, std::move(message)});
}

void read_file(const fs::path& path, std::vector<policy_source>& sources,
               std::vector<diagnostic>& faults) {
  std::error_code fault;
  // Opening a pipe or a device could wait for ever.
  if (!fs::is_regular_file(path, fault)) {
    return error_at(path.string(), "is no regular file", faults);
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(max_policy_file_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) return error_at(path.string(), "cannot be read", faults);
  text.resize(static_cast<std::size_t>(file.gcount()));
  sources.push_back({path.string(), std::move(text)});
}

void read_path(const fs::path& path, std::vector<policy_source>& sources,
               std::vector<diagnostic>& faults) {
  std::error_code fault;
  const fs::file_status status = fs::status(path, fault);
  if (!fs::exists(status)) {
    return error_at(path.string(), "does not exist", faults);
  }
  if (!fs::is_directory(status)) {
    if (is_test(path))
      return error_at(path.string(),
                      "is a test of policies and no policy; terranectl policy test runs it, and "
                      "what it tests is named without '.test'",
                      faults);
    return read_file(path, sources, faults);
  }
  std::vector<fs::path> files;
  for (fs::directory_iterator at(path, fault), end; !fault && at != end; at.increment(fault)) {
    const bool is_policy = is_yaml(at->path()) || is_lua(at->path());
    if (is_policy && !is_test(at->path())) files.push_back(at->path());
  }
  if (fault) return error_at(path.string(), "cannot be read: " + fault.message(), faults);
  std::ranges::sort(files);
  for (const fs::path& file : files) read_file(file, sources, faults);
}

void compile(const policy_source& source, std::vector<rule>& rules,
             std::vector<diagnostic>& faults) {
  if (source.text.size() > max_policy_file_bytes) {
    return error_at(source.name,
                    "is larger than " + std::to_string(max_policy_file_bytes / 1024) +
                        " KiB, the most a policy file may be",
                    faults);
  }
  switch (language_of(source)) {
    case policy_language::yaml:
      return yaml::load_rules(source.name, source.text, rules, faults);
    case policy_language::lua:
      return lua::load_rules(source.name, source.text, rules, faults);
    case policy_language::by_name:
      error_at(source.name, "is neither .yaml, .yml nor .lua", faults);
  }
}

// FNV-1a, 64 bits (Fowler, Noll, Vo): names sources, protects nothing.
std::string revision_of(const std::vector<policy_source>& sources) {
  std::uint64_t hash = 14695981039346656037u;
  const auto mix = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    hash = (hash ^ 0xffu) * 1099511628211u;
  };
  for (const policy_source& s : sources) {
    mix(s.name);
    mix(s.text);
  }
  std::array<char, 17> digits;
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash));
  return digits.data();
}

bool is_error(const diagnostic& d) { return d.level == severity::error; }

struct compiled {
  std::vector<rule> rules;
  std::vector<diagnostic> faults;
};

compiled compile_all(const std::vector<policy_source>& sources) {
  compiled all;
  for (const policy_source& s : sources) compile(s, all.rules, all.faults);
  lint_names(all.rules, all.faults);
  for (const rule& built_in : built_in_rules()) {
    for (const rule& r : all.rules) {
      if (r.name != built_in.name) continue;
      all.faults.push_back({severity::error, r.where,
                            "'" + r.name + "' is the name of a built-in policy; take another"});
    }
  }
  return all;
}

// What can never be, which was no fault when recordings were made that are replayed today.
void lint_what_can_never_be(const std::vector<rule>& rules, std::vector<diagnostic>& faults) {
  for (const rule& r : rules) lint_conditions(r, faults);
  if (std::ranges::none_of(faults, is_error)) lint_contradictions(rules, faults);
}

// In the order of the files and of what stands in them, whichever part of lint found it.
void put_in_order(const std::vector<policy_source>& sources, std::vector<diagnostic>& faults) {
  std::ranges::stable_sort(faults, {}, [&](const diagnostic& d) {
    const auto file = std::ranges::find(sources, d.where.file, &policy_source::name);
    return std::tuple(file - sources.begin(), d.where.line, d.where.column);
  });
}

std::vector<diagnostic> faults_of(const std::vector<policy_source>& sources) {
  compiled all = compile_all(sources);
  lint_what_can_never_be(all.rules, all.faults);
  put_in_order(sources, all.faults);
  return std::move(all.faults);
}

}  // namespace

policy_set::load_result<policy_set_ptr> policy_set::from_sources(
    const std::vector<policy_source>& sources) {
  auto set = as_recorded(sources);
  if (!set) return tl::unexpected(faults_of(sources));
  std::vector<diagnostic> faults = (*set)->warnings();
  lint_what_can_never_be((*set)->rules(), faults);
  put_in_order(sources, faults);
  if (std::ranges::any_of(faults, is_error)) return tl::unexpected(std::move(faults));
  std::shared_ptr<policy_set> linted(new policy_set(**set));
  linted->warnings_ = std::move(faults);
  return policy_set_ptr(std::move(linted));
}

policy_set::load_result<policy_set_ptr> policy_set::as_recorded(
    const std::vector<policy_source>& sources) {
  compiled all = compile_all(sources);
  if (std::ranges::any_of(all.faults, is_error)) return tl::unexpected(std::move(all.faults));
  std::shared_ptr<policy_set> set(new policy_set());
  set->rules_ = std::move(all.rules);
  set->warnings_ = std::move(all.faults);
  set->sources_ = sources;
  set->revision_ = revision_of(sources);
  std::ranges::stable_sort(set->rules_, std::greater{}, &rule::priority);
  set->asked_ = set->rules_;
  for (rule& r : built_in_rules())
    set->asked_.insert(r.priority > 100 ? set->asked_.begin() : set->asked_.end(), std::move(r));
  return policy_set_ptr(std::move(set));
}

policy_set::load_result<policy_set_ptr> policy_set::load(const std::vector<fs::path>& paths,
                                                         std::vector<policy_source> further) {
  std::vector<policy_source> sources;
  std::vector<diagnostic> faults;
  for (const fs::path& p : paths) read_path(p, sources, faults);
  std::ranges::move(further, std::back_inserter(sources));
  if (faults.empty()) return from_sources(sources);
  std::ranges::move(faults_of(sources), std::back_inserter(faults));
  return tl::unexpected(std::move(faults));
}

namespace {

condition while_it_is(metric_id truth, bool is) {
  condition c;
  c.terms.push_back({truth, comparison::is, is ? 1.0 : 0.0, 0, 0, {}});
  return c;
}

rule yield_rule() {
  rule yield;
  yield.name = yield_policy;
  yield.for_each = scope::device;
  yield.priority = 101;
  yield.enter = while_it_is(metric_id::yield_asked, true);
  yield.leave = while_it_is(metric_id::yield_asked, false);
  yield.min_stay_ms = 0;
  // Who asks for the memory may do so as often as they like.
  yield.flapping.times = std::numeric_limits<std::int32_t>::max();
  declarative_action action;
  action.action = verb::yield;
  yield.action = std::move(action);
  yield.undo = undo_kind::restore;
  return yield;
}

rule promotion_rule() {
  rule promote;
  promote.name = promotion_policy;
  promote.for_each = scope::host;
  promote.priority = -1;
  promote.enter = while_it_is(metric_id::promotion_on, true);
  // What a load leaves behind has been seen by then.
  promote.enter.held_ms = 10'000;
  promote.leave = while_it_is(metric_id::promotion_on, false);
  // What has to leave before something can come is followed soon; in vain it looks each minute.
  promote.cooldown_ms = 10'000;
  promote.min_stay_ms = 5 * 60'000;
  promote.action = promotion_action{};
  return promote;
}

}  // namespace

std::vector<rule> built_in_rules() { return {yield_rule(), promotion_rule()}; }

policy_set_ptr policy_set::empty() {
  static const policy_set_ptr none = *from_sources({});
  return none;
}

const rule* policy_set::find(const std::string& name) const {
  const auto at = std::ranges::find(rules_, name, &rule::name);
  return at == rules_.end() ? nullptr : &*at;
}

std::vector<diagnostic> lint(const std::vector<fs::path>& paths) {
  std::vector<diagnostic> found;
  for (const fs::path& p : paths) {
    std::vector<policy_source> within;
    std::vector<diagnostic> told_below;
    read_path(p, within, told_below);
    if (within.empty() && told_below.empty())
      found.push_back({severity::warning,
                       {p.string()},
                       "holds no policy: none of its files ends in .yaml, .yml or .lua (those in " +
                           std::string(test_ending) + " are tests)"});
  }
  auto set = policy_set::load(paths);
  std::ranges::copy(set ? (*set)->warnings() : set.error(), std::back_inserter(found));
  return found;
}

}  // namespace terrane::policies

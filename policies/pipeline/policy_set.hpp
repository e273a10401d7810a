// An immutable set of policies, built whole from files or not at all. A caller keeps the old set
// when building a new one fails. Sets are shared by pointer; reading one is safe from any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "policies/diagnostic.hpp"
#include "policies/rule/rule.hpp"

namespace terrane::policies {

// By the name's ending, .yaml or .yml or .lua, unless it is said.
enum class policy_language { by_name, yaml, lua };

// One policy file's name (as shown in messages) and text.
struct policy_source {
  std::string name;
  std::string text;
  policy_language language = policy_language::by_name;
};

// A file that ends so is the test of the policies in the file beside it (policies/scenario/): of
// vram.yaml or vram.lua in vram.test.yaml. It is no policy file.
inline constexpr std::string_view test_ending = ".test.yaml";

// The largest policy file that is read, in bytes.
inline constexpr std::size_t max_policy_file_bytes = 256 * 1024;

class policy_set;
using policy_set_ptr = std::shared_ptr<const policy_set>;

class policy_set {
 public:
  // Every fault of every file; at least one is an error.
  template <class T>
  using load_result = tl::expected<T, std::vector<diagnostic>>;

  // Reads the given files, and of a directory every *.yaml, *.yml and *.lua in name order (not
  // deeper) but for tests, and takes `further` texts after them.
  static load_result<policy_set_ptr> load(const std::vector<std::filesystem::path>& paths,
                                          std::vector<policy_source> further = {});
  // The same from texts at hand; touches no file.
  static load_result<policy_set_ptr> from_sources(const std::vector<policy_source>& sources);
  // Of what was in force once, for replays: taken though of its policies some can never be obeyed.
  static load_result<policy_set_ptr> as_recorded(const std::vector<policy_source>& sources);
  // A set without policies.
  static policy_set_ptr empty();

  // In the order in which they are asked: priority first, then file and place in the file.
  const std::vector<rule>& rules() const { return rules_; }
  // The same with those that every set has; see built_in_rules().
  const std::vector<rule>& asked() const { return asked_; }
  // Null when there is none of that name.
  const rule* find(const std::string& name) const;
  // Lint that does not stop a set from being used.
  const std::vector<diagnostic>& warnings() const { return warnings_; }
  // What it was made of.
  const std::vector<policy_source>& sources() const { return sources_; }
  // 16 hex digits that name the sources; equal sources have equal revisions.
  const std::string& revision() const { return revision_; }

 private:
  policy_set() = default;

  std::vector<rule> rules_;
  std::vector<rule> asked_;
  std::vector<diagnostic> warnings_;
  std::vector<policy_source> sources_;
  std::string revision_;
};

// What every set does besides what its authors wrote: "yield", asked before all others, gives the
// memory of a device back for as long as someone wants it; "promotion", asked after all others,
// moves parts to where a token takes less, where the configuration wants that.
inline constexpr std::string_view yield_policy = "yield";
inline constexpr std::string_view promotion_policy = "promotion";
std::vector<rule> built_in_rules();

// All errors and warnings of these paths, in file order; empty when they are clean. Never throws.
std::vector<diagnostic> lint(const std::vector<std::filesystem::path>& paths);

}  // namespace terrane::policies

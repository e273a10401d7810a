#include "policies/scenario/sources.hpp"

#include <algorithm>
#include <system_error>

#include "policies/scenario/keys.hpp"

namespace terrane::policies::scenario {
namespace {

namespace fs = std::filesystem;

using yaml::map_reader;
using yaml::node;
using yaml::node_kind;

std::string_view line_at(std::string_view text, int number) {
  for (int line = 1; line < number; ++line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

// A block text, `yaml: |`, with as many lines before it and spaces in its lines as in the file, so
// that faults are reported where they stand.
std::string in_place(const scenario_file& file, const node& block) {
  const std::string_view opening = line_at(file.text, block.where.line);
  const std::size_t column = static_cast<std::size_t>(std::max(1, block.where.column)) - 1;
  if (column >= opening.size() || opening[column] != '|') return block.text;
  const std::string_view first = line_at(file.text, block.where.line + 1);
  const std::string indent(std::min(first.find_first_not_of(' '), first.size()), ' ');
  std::string text(static_cast<std::size_t>(block.where.line), '\n');
  for (std::string_view rest = block.text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
    if (rest.front() != '\n') text += indent;
    text += rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
  }
  return text;
}

// vram.test.yaml → vram; the name itself without the ending of a test.
fs::path tested_by(const fs::path& test) {
  std::string stem = test.filename().string();
  if (!stem.ends_with(test_ending)) return {};
  stem.resize(stem.size() - test_ending.size());
  return test.parent_path() / stem;
}

// The policy file beside a test; empty when there is none.
fs::path file_beside(const scenario_file& file) {
  const fs::path stem = tested_by(file.folder / fs::path(file.name).filename());
  if (stem.empty()) return {};
  for (const char* ending : {".yaml", ".yml", ".lua"}) {
    const fs::path policy = fs::path(stem.string() + ending);
    std::error_code ignored;
    if (fs::is_regular_file(policy, ignored)) return policy;
  }
  return {};
}

// The files that `policies` names.
std::vector<fs::path> named_files(const node& names, const scenario_file& file, map_reader& top) {
  std::vector<fs::path> paths;
  const std::vector<node> single = {names};
  for (const node& name : names.kind == node_kind::list ? names.items : single) {
    if (name.kind != node_kind::scalar) {
      top.fault(name.where,
                "'policies' must be a file or a list of files, beside this one or by "
                "their paths from it");
      continue;
    }
    const fs::path path = (file.folder / name.text).lexically_normal();
    std::error_code ignored;
    if (fs::exists(path, ignored)) {
      paths.push_back(path);
    } else {
      top.fault(name.where, "there is no policy file " + path.string());
    }
  }
  return paths;
}

}  // namespace

policy_set_ptr load_policies(const scenario_file& file, map_reader& top,
                             std::vector<diagnostic>& faults) {
  const std::size_t before = faults.size();
  std::vector<fs::path> paths;
  std::vector<policy_source> within;
  if (const node* names = top.optional_key(test_key::policies))
    paths = named_files(*names, file, top);
  for (const policy_language language : {policy_language::yaml, policy_language::lua}) {
    const test_key key = language == policy_language::yaml ? test_key::yaml : test_key::lua;
    if (const node* block = top.optional_key(key); block != nullptr && top.text(key)) {
      within.push_back({file.name, in_place(file, *block), language});
    }
  }
  if (faults.size() > before) return nullptr;
  if (paths.empty() && within.empty()) {
    paths.push_back(file_beside(file));
    if (paths.front().empty()) {
      top.fault(top.where(),
                "a scenario needs policies: 'policies' with the names of files, or "
                "'yaml' or 'lua' with their text");
      return nullptr;
    }
  }
  auto set = policy_set::load(paths, within);
  if (set) return *set;
  std::ranges::copy(set.error(), std::back_inserter(faults));
  return nullptr;
}

}  // namespace terrane::policies::scenario

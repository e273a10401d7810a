// terranectl policy new: a policy that works and its test, to start from.
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>

#include "daemon/terranectl/commands.hpp"
#include "daemon/terranectl/policy_templates.hpp"
#include "policies/pipeline/policy_set.hpp"
#include "policies/reference/reference.hpp"
#include "policies/rule/lint.hpp"

namespace terrane::daemon::ctl {
namespace {

namespace fs = std::filesystem;

using ipc::ctl::context;

struct wanted_policy {
  std::string name;
  bool lua = false;
  std::string folder = ".";
  std::string reference;  // the folder with the schema and the stubs; empty: the installed one
};

constexpr const char* schema_file = "policy.schema.json";
constexpr const char* test_schema_file = "test.schema.json";
constexpr const char* stubs_file = "terrane.lua";
constexpr const char* page_file = "REFERENCE.md";

// Where an installed terranectl has what editors read: ../share/terrane/reference.
fs::path installed_reference() {
  std::error_code fault;
  const fs::path program = fs::read_symlink("/proc/self/exe", fault);
  return program.parent_path().parent_path() / "share" / "terrane" / "reference";
}

// The file of that folder, by its whole path; empty when it is not there.
std::string reference_file(const wanted_policy& wanted, const char* name) {
  std::error_code fault;
  const fs::path folder =
      wanted.reference.empty() ? installed_reference() : fs::absolute(wanted.reference, fault);
  const fs::path file = (folder / name).lexically_normal();
  return fs::is_regular_file(file, fault) ? file.string() : "";
}

std::string filled(std::string_view form, const std::string& name) {
  constexpr std::string_view mark = "@NAME@";
  std::string text(form);
  for (std::size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + name.size())) {
    text.replace(at, mark.size(), name);
  }
  return text;
}

// Why the file could not be written, or nothing. What is there is never touched.
std::string write_new(const fs::path& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wx");
  if (file == nullptr) return path.string() + ": " + std::strerror(errno);
  const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  return whole && closed ? "" : path.string() + " could not be written whole";
}

// What yaml-language-server looks for in a file's first line.
std::string schema_line(const std::string& schema) {
  return schema.empty() ? "" : "# yaml-language-server: $schema=" + schema + "\n";
}

// The policy as it is written. A name that YAML reads as something else, such as no or null, stands
// in quotes.
std::string policy_text(const wanted_policy& wanted, const std::string& schema) {
  if (wanted.lua) return filled(lua_policy_template, wanted.name);
  std::string text = filled(yaml_policy_template, wanted.name);
  if (!policies::policy_set::from_sources({{"new.yaml", text}})) {
    const std::string key = "name: ";
    text.insert(text.find(key) + key.size(), "\"");
    text.insert(text.find('\n', text.find(key)), "\"");
  }
  return schema_line(schema) + text;
}

// Writes what lua-language-server reads, where there are stubs and no such file yet; its path, or
// "".
std::string write_settings(const wanted_policy& wanted, const std::string& stubs) {
  if (!wanted.lua || stubs.empty()) return "";
  const fs::path settings = (fs::path(wanted.folder) / ".luarc.json").lexically_normal();
  return write_new(settings, policies::reference::lua_settings(stubs)).empty() ? settings.string()
                                                                               : "";
}

// How an editor learns the words, and where a person reads them.
void help_editors(const context& with, const wanted_policy& wanted, const std::string& file,
                  const std::string& settings) {
  const std::string page = reference_file(wanted, page_file);
  with.out() << "Every word: " << (page.empty() ? "terranectl policy reference" : page) << "\n";
  if (file.empty()) {
    with.out() << "For an editor: terranectl policy "
               << (wanted.lua ? "stubs >terrane.lua" : "schema >policy.schema.json") << "\n";
  } else if (wanted.lua) {
    with.out() << (settings.empty() ? "For lua-language-server, its stubs are " + file + "\n"
                                    : "Wrote " + settings + " for lua-language-server.\n");
  } else {
    with.out() << "Their first lines tell yaml-language-server where the schemas are.\n";
  }
}

// Hidden files, options of commands and other kinds of file are called otherwise.
bool names_files(const std::string& name) {
  const auto first = static_cast<unsigned char>(name.front());
  return std::isalnum(first) != 0 && !name.ends_with(".test") && !name.ends_with(".yaml") &&
         !name.ends_with(".yml") && !name.ends_with(".lua");
}

int write_policy(const context& with, const wanted_policy& wanted) {
  if (!policies::is_plain_name(wanted.name, "-_.")) {
    return with.fail(
        "'" + wanted.name + "' is no policy name: 1 to 64 letters, digits, '-', '_' and '.'",
        ipc::ctl::exit_usage);
  }
  if (!names_files(wanted.name)) {
    return with.fail("'" + wanted.name +
                         "' cannot name the policy's files too: it has to begin with a letter or a "
                         "digit and must not end in '.test', '.yaml', '.yml' or '.lua'",
                     ipc::ctl::exit_usage);
  }
  const fs::path folder = wanted.folder;
  const auto file = [&](const std::string& ending) {
    return (folder / (wanted.name + ending)).lexically_normal();
  };
  const fs::path policy = file(wanted.lua ? ".lua" : ".yaml");
  const fs::path test = file(std::string(policies::test_ending));
  std::error_code fault;
  if (!fs::is_directory(folder, fault)) {
    return with.fail("there is no folder " + folder.string());
  }
  for (const fs::path& path : {policy, test}) {
    if (fs::exists(fs::symlink_status(path, fault))) {
      return with.fail(path.string() + " is there already; nothing was written");
    }
  }
  const std::string for_editors = reference_file(wanted, wanted.lua ? stubs_file : schema_file);
  const std::string text = policy_text(wanted, for_editors);
  // A name that is taken is told before anything is written.
  if (const auto right = policies::policy_set::from_sources({{policy.string(), text}}); !right) {
    return with.fail(
        "nothing was written, since lint would refuse it: " + to_string(right.error().front()),
        ipc::ctl::exit_usage);
  }
  const std::string test_text =
      schema_line(reference_file(wanted, test_schema_file)) + filled(test_template, wanted.name);
  for (const auto& [path, whole] : {std::pair(policy, text), std::pair(test, test_text)}) {
    const std::string why = write_new(path, whole);
    if (!why.empty()) return with.fail(why);
  }
  const std::string settings = write_settings(wanted, for_editors);
  if (with.json()) {
    with.print_json({{"policy", policy.string()},
                     {"test", test.string()},
                     {wanted.lua ? "stubs" : "schema", for_editors},
                     {"settings", settings}});
    return ipc::ctl::exit_done;
  }
  with.out() << "Wrote " << policy.string() << " and " << test.string() << ". Next:\n"
             << "  terranectl policy lint " << policy.string() << "\n"
             << "  terranectl policy test " << test.string() << "\n"
             << "  terranectl plan --file " << policy.string()
             << "    (asks the daemon what it would do now)\n"
             << "Once both files lie where the configuration's 'policies' says, such as "
                "/etc/terrane/policies:\n"
             << "  terranectl policy reload    (tests it again and puts it in force)\n";
  help_editors(with, wanted, for_editors, settings);
  return ipc::ctl::exit_done;
}

}  // namespace

ipc::ctl::further_command policy_new() {
  return {"policy", "new", "Write a policy that works, and its test, to start from",
          [](CLI::App& parser) -> ipc::ctl::command_action {
            const auto wanted = std::make_shared<wanted_policy>();
            parser.add_option("NAME", wanted->name, "How the policy and its files are called")
                ->required();
            parser.add_flag("--lua", wanted->lua, "In Lua instead of YAML");
            parser.add_option("--dir", wanted->folder, "The folder to write to (default: here)");
            parser.add_option(
                "--reference", wanted->reference,
                "The folder with the schema and the stubs (default: the installed one)");
            return [wanted](const context& with) { return write_policy(with, *wanted); };
          }};
}

}  // namespace terrane::daemon::ctl

// terranectl policy reference, schema, stubs: what authors read beside their editor.
#include <filesystem>
#include <fstream>
#include <memory>

#include <CLI/CLI.hpp>

#include "daemon/terranectl/commands.hpp"
#include "policies/reference/reference.hpp"

namespace terrane::daemon::ctl {
namespace {

namespace fs = std::filesystem;
namespace reference = policies::reference;

using ipc::ctl::context;

int print_text(const context& with, const std::string& text) {
  if (with.json()) {
    with.print_json({{"text", text}});
  } else {
    with.out() << text;
  }
  return ipc::ctl::exit_done;
}

// Writes every file that is made to its place below the folder.
int write_all(const context& with, const fs::path& folder) {
  for (const reference::made_file& made : reference::made_files()) {
    const fs::path path = folder / made.path;
    std::error_code fault;
    fs::create_directories(path.parent_path(), fault);
    std::ofstream file(path, std::ios::binary);
    file << made.make();
    file.close();
    if (!file) return with.fail(path.string() + " could not be written");
    if (!with.json()) with.out() << "Wrote " << path.string() << "\n";
  }
  return ipc::ctl::exit_done;
}

}  // namespace

ipc::ctl::further_command policy_reference() {
  return {"policy", "reference", "Print every word of the policy language, as Markdown",
          [](CLI::App& parser) -> ipc::ctl::command_action {
            const auto folder = std::make_shared<std::string>();
            parser.add_option("--into", *folder,
                              "Write it, the schemas and the stubs to this folder instead");
            return [folder](const context& with) {
              return folder->empty() ? print_text(with, reference::page())
                                     : write_all(with, *folder);
            };
          }};
}

ipc::ctl::further_command policy_schema() {
  return {"policy", "schema", "Print the JSON Schema of YAML policies, for editors",
          [](CLI::App& parser) -> ipc::ctl::command_action {
            const auto of_tests = std::make_shared<bool>(false);
            parser.add_flag("--tests", *of_tests, "That of their tests, NAME.test.yaml");
            return [of_tests](const context& with) {
              with.out() << (*of_tests ? reference::test_schema() : reference::policy_schema());
              return ipc::ctl::exit_done;
            };
          }};
}

ipc::ctl::further_command policy_stubs() {
  return {"policy", "stubs", "Print what Lua policies can name, for lua-language-server",
          [](CLI::App&) -> ipc::ctl::command_action {
            return [](const context& with) { return print_text(with, reference::lua_stubs()); };
          }};
}

}  // namespace terrane::daemon::ctl

// Who and what a test may name, and what is wrong with a name that is nobody's: "the machine has no
// part 'layer.3'; it has 'layer.3.attn', 'layer.3.ffn'". What is wrong is a clause, empty where
// nothing is. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace terrane::policies::scenario {

struct machine_names {
  std::vector<std::string> devices;
  std::vector<std::string> parts;
  std::vector<std::string> sessions;  // those that have ended too
  std::vector<std::string> users;     // of sessions, and patterns of those that policies name
};

std::string why_no_device(std::string_view name, const machine_names& known);
std::string why_no_part(std::string_view name, const machine_names& known);
std::string why_no_session(std::string_view name, const machine_names& known);
std::string why_no_part_or_session(std::string_view name, const machine_names& known);

// Who holds nothing is admitted whatever a policy says, so a name that is misspelt must not pass
// for somebody new: that is who makes a request, and is called otherwise than the others.
std::string why_no_user(std::string_view name, const machine_names& known, bool makes_request);

}  // namespace terrane::policies::scenario

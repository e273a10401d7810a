// What `terranectl policy new` writes: a policy that works as it is, told line by line, and its
// test. Texts with @NAME@ where the policy's name goes. Constant data; any thread.
#pragma once

#include <string_view>

namespace terrane::daemon::ctl {

extern const std::string_view yaml_policy_template;
extern const std::string_view lua_policy_template;
// Fits both.
extern const std::string_view test_template;

}  // namespace terrane::daemon::ctl

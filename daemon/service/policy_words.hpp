// What the policies say, in the words of the control protocol. A word that is new on one side is a
// warning of the compiler here (-Wswitch). Uses no engine: terranectl's commands that need no
// daemon link it too. Pure; any thread.
#pragma once

#include <vector>

#include "ipc/control/types.hpp"
#include "policies/diagnostic.hpp"
#include "policies/explain/forecasts.hpp"
#include "policies/explain/record.hpp"
#include "policies/rule/rule.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::daemon {

ipc::action_verb to_protocol(policies::verb v);
ipc::condition_verdict to_protocol(policies::verdict v);
ipc::decision_cause to_protocol(policies::decision_event e);
ipc::unit to_protocol(policies::unit u);
ipc::condition_side to_protocol(policies::comparison c);
ipc::policy_mode to_protocol(policies::rule_mode m);
ipc::diagnostic to_protocol(const policies::diagnostic& d);
std::vector<ipc::diagnostic> to_protocol(const std::vector<policies::diagnostic>& all);
std::vector<ipc::condition_info> to_protocol(const std::vector<policies::condition_value>& all);
// Of its moves, only that they are planned; `time_unix_ms` is left at 0.
ipc::decision_info to_protocol(const policies::decision_record& r);
std::vector<ipc::prediction_info> to_protocol(const policies::forecasts& all);

}  // namespace terrane::daemon

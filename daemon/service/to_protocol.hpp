// The words of engine and policies in those of the control protocol, and back. A word that is new
// on one side is a warning of the compiler here (-Wswitch). Pure; any thread.
#pragma once

#include <vector>

#include "engine/chat/conversation.hpp"
#include "engine/engine.hpp"
#include "ipc/control/types.hpp"
#include "policies/diagnostic.hpp"
#include "policies/explain/record.hpp"
#include "policies/vocabulary/table.hpp"

namespace terrane::daemon {

ipc::device_kind to_protocol(engine::device_kind k);
ipc::session_state to_protocol(engine::session_state s);
// `failed` is no reason of the protocol: such a reply ends with a named error. Here it is stopped.
ipc::stop_reason to_protocol(engine::stop_reason r);
ipc::action_verb to_protocol(policies::verb v);
ipc::condition_verdict to_protocol(policies::verdict v);
ipc::decision_cause to_protocol(policies::decision_event e);
ipc::unit to_protocol(policies::unit u);
ipc::condition_side to_protocol(policies::comparison c);
ipc::policy_mode to_protocol(policies::rule_mode m);
ipc::diagnostic to_protocol(const policies::diagnostic& d);
std::vector<ipc::diagnostic> to_protocol(const std::vector<policies::diagnostic>& all);

engine::chat_role from_protocol(ipc::chat_role r);

}  // namespace terrane::daemon

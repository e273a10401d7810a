// The words of the engine in those of the control protocol, and back; those of the policies are in
// policy_words.hpp. A word that is new on one side is a warning of the compiler here (-Wswitch).
// Pure; any thread.
#pragma once

#include "daemon/service/policy_words.hpp"
#include "engine/chat/conversation.hpp"
#include "engine/device/paths.hpp"
#include "engine/engine.hpp"
#include "ipc/control/types.hpp"

namespace terrane::daemon {

ipc::device_kind to_protocol(engine::device_kind k);
ipc::path_way to_protocol(engine::copy_way w);
ipc::session_state to_protocol(engine::session_state s);
// `failed` is no reason of the protocol: such a reply ends with a named error. Here it is stopped.
ipc::stop_reason to_protocol(engine::stop_reason r);
engine::chat_role from_protocol(ipc::chat_role r);

}  // namespace terrane::daemon

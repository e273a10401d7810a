#include "daemon/service/to_protocol.hpp"

namespace terrane::daemon {

ipc::path_way to_protocol(engine::copy_way w) {
  switch (w) {
    case engine::copy_way::peer:
      return ipc::path_way::peer;
    case engine::copy_way::shared:
      return ipc::path_way::shared;
    case engine::copy_way::memory:
      return ipc::path_way::memory;
    case engine::copy_way::host:
      return ipc::path_way::host;
    case engine::copy_way::staged:
      return ipc::path_way::staged;
  }
  return ipc::path_way::staged;
}

ipc::device_kind to_protocol(engine::device_kind k) {
  switch (k) {
    case engine::device_kind::cpu:
      return ipc::device_kind::cpu;
    case engine::device_kind::vulkan:
      return ipc::device_kind::vulkan;
    case engine::device_kind::cuda:
      return ipc::device_kind::cuda;
  }
  return ipc::device_kind::cpu;
}

ipc::session_state to_protocol(engine::session_state s) {
  switch (s) {
    case engine::session_state::waiting:
      return ipc::session_state::waiting;
    case engine::session_state::prefill:
      return ipc::session_state::prefill;
    case engine::session_state::generating:
      return ipc::session_state::generating;
    case engine::session_state::idle:
      return ipc::session_state::idle;
  }
  return ipc::session_state::idle;
}

ipc::stop_reason to_protocol(engine::stop_reason r) {
  switch (r) {
    case engine::stop_reason::end_of_text:
      return ipc::stop_reason::end_of_text;
    case engine::stop_reason::max_tokens:
      return ipc::stop_reason::max_tokens;
    case engine::stop_reason::stop_text:
      return ipc::stop_reason::stop_text;
    case engine::stop_reason::context_full:
      return ipc::stop_reason::context_full;
    case engine::stop_reason::closed:
      return ipc::stop_reason::closed;
    case engine::stop_reason::stopped:
    case engine::stop_reason::failed:
      return ipc::stop_reason::stopped;
  }
  return ipc::stop_reason::stopped;
}

engine::chat_role from_protocol(ipc::chat_role r) {
  switch (r) {
    case ipc::chat_role::system:
      return engine::chat_role::system;
    case ipc::chat_role::user:
      return engine::chat_role::user;
    case ipc::chat_role::assistant:
      return engine::chat_role::assistant;
  }
  return engine::chat_role::user;
}

}  // namespace terrane::daemon

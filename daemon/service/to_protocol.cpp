#include "daemon/service/to_protocol.hpp"

namespace terrane::daemon {

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
    case engine::stop_reason::stopped:
    case engine::stop_reason::failed:
      return ipc::stop_reason::stopped;
  }
  return ipc::stop_reason::stopped;
}

ipc::action_verb to_protocol(policies::verb v) {
  switch (v) {
    case policies::verb::move:
      return ipc::action_verb::move;
    case policies::verb::spill:
      return ipc::action_verb::spill;
    case policies::verb::fetch:
      return ipc::action_verb::fetch;
    case policies::verb::restore:
      return ipc::action_verb::restore;
    case policies::verb::decline:
      return ipc::action_verb::decline;
    case policies::verb::yield:
      return ipc::action_verb::yield;
  }
  return ipc::action_verb::move;
}

ipc::condition_verdict to_protocol(policies::verdict v) {
  switch (v) {
    case policies::verdict::met:
      return ipc::condition_verdict::met;
    case policies::verdict::not_met:
      return ipc::condition_verdict::not_met;
    case policies::verdict::stale:
      return ipc::condition_verdict::stale;
    case policies::verdict::missing:
      return ipc::condition_verdict::missing;
  }
  return ipc::condition_verdict::missing;
}

ipc::decision_cause to_protocol(policies::decision_event e) {
  switch (e) {
    case policies::decision_event::entered:
      return ipc::decision_cause::entered;
    case policies::decision_event::again:
      return ipc::decision_cause::again;
    case policies::decision_event::left:
      return ipc::decision_cause::left;
    case policies::decision_event::restored:
      return ipc::decision_cause::restored;
    case policies::decision_event::faulted:
      return ipc::decision_cause::faulted;
    case policies::decision_event::emergency:
      return ipc::decision_cause::emergency;
    case policies::decision_event::flapped:
      return ipc::decision_cause::flapped;
  }
  return ipc::decision_cause::entered;
}

ipc::unit to_protocol(policies::unit u) {
  switch (u) {
    case policies::unit::ratio:
      return ipc::unit::ratio;
    case policies::unit::bytes:
      return ipc::unit::bytes;
    case policies::unit::celsius:
      return ipc::unit::celsius;
    case policies::unit::seconds:
      return ipc::unit::seconds;
    case policies::unit::tokens:
      return ipc::unit::tokens;
    case policies::unit::percent:
      return ipc::unit::percent;
    case policies::unit::watts:
      return ipc::unit::watts;
    case policies::unit::count:
      return ipc::unit::count;
    case policies::unit::truth:
      return ipc::unit::truth;
    case policies::unit::time_of_day:
      return ipc::unit::time_of_day;
    case policies::unit::weekday:
      return ipc::unit::weekday;
  }
  return ipc::unit::ratio;
}

ipc::condition_side to_protocol(policies::comparison c) {
  switch (c) {
    case policies::comparison::above:
      return ipc::condition_side::above;
    case policies::comparison::below:
      return ipc::condition_side::below;
    case policies::comparison::is:
      return ipc::condition_side::is;
    case policies::comparison::within:
      return ipc::condition_side::within;
    case policies::comparison::outside:
      return ipc::condition_side::outside;
  }
  return ipc::condition_side::above;
}

ipc::policy_mode to_protocol(policies::rule_mode m) {
  switch (m) {
    case policies::rule_mode::enforce:
      return ipc::policy_mode::enforce;
    case policies::rule_mode::shadow:
      return ipc::policy_mode::shadow;
  }
  return ipc::policy_mode::enforce;
}

ipc::diagnostic to_protocol(const policies::diagnostic& d) {
  ipc::diagnostic out;
  out.file = d.where.file;
  out.line = d.where.line;
  out.column = d.where.column;
  out.severity = d.level == policies::severity::error ? ipc::diagnostic_severity::error
                                                      : ipc::diagnostic_severity::warning;
  out.message = d.message;
  return out;
}

std::vector<ipc::diagnostic> to_protocol(const std::vector<policies::diagnostic>& all) {
  std::vector<ipc::diagnostic> out;
  out.reserve(all.size());
  for (const policies::diagnostic& d : all) out.push_back(to_protocol(d));
  return out;
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

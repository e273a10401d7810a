#include "policies/explain/record.hpp"

namespace terrane::policies {

const char* to_string(verdict v) {
  switch (v) {
    case verdict::met:
      return "met";
    case verdict::not_met:
      return "not met";
    case verdict::stale:
      return "stale";
    case verdict::missing:
      return "missing";
  }
  return "";
}

const char* to_string(filter f) {
  switch (f) {
    case filter::none:
      return "none";
    case filter::not_needed:
      return "not needed";
    case filter::unknown_subject:
      return "unknown";
    case filter::not_movable:
      return "not movable";
    case filter::pinned:
      return "pinned";
    case filter::already_moving:
      return "already moving";
    case filter::taken:
      return "planned by another policy";
    case filter::unknown_device:
      return "no such device";
    case filter::already_there:
      return "already there";
    case filter::min_stay:
      return "arrived too recently";
    case filter::over_limit:
      return "target is being relieved";
    case filter::backing_off:
      return "failed lately";
    case filter::no_room:
      return "no room";
    case filter::rate_limit:
      return "rate limit";
    case filter::held_away:
      return "held away";
    case filter::no_help:
      return "would not help";
    case filter::not_worth:
      return "not worth its cost";
    case filter::move_quota:
      return "quota";
    case filter::flapping:
      return "pinned for flapping";
    case filter::unfinished:
      return "still being written";
    case filter::user_quota:
      return "its user's quota";
  }
  return "";
}

const char* to_string(decision_event e) {
  switch (e) {
    case decision_event::entered:
      return "entered";
    case decision_event::again:
      return "again";
    case decision_event::left:
      return "left";
    case decision_event::restored:
      return "restored";
    case decision_event::faulted:
      return "faulted";
    case decision_event::emergency:
      return "emergency";
    case decision_event::flapped:
      return "flapped";
  }
  return "";
}

}  // namespace terrane::policies

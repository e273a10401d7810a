// What the policies ask for: a list of concrete moves, each with who asked, why, and the line of
// the policy file that says so. A plan only says what to do; the daemon carries it out and reports
// each move's end in a later snapshot under the same id. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

// Where in a policy file something stands. Lines and columns count from 1; 0 is unknown.
struct source_location {
  std::string file;
  int line = 0;
  int column = 0;
};

// "file:line:column", leaving out what is unknown.
std::string to_string(const source_location& where);

enum class verb { move, spill, fetch, restore, decline, yield };

struct planned_move {
  std::uint64_t id = 0;        // unique for the life of a pipeline_state; 0 in shadow mode
  std::uint64_t decision = 0;  // the decision_record that explains it
  verb action = verb::move;    // move (a part), spill or fetch (a session's KV)
  subject_kind kind = subject_kind::part;
  std::string subject;             // part name or session id
  std::string from;                // device; for KV the one that holds most of what moves
  std::string to;                  // device; for fetch empty means "beside the parts that use it"
  std::uint64_t bytes = 0;         // what it takes on the target: weights and KV
  std::uint64_t copied_bytes = 0;  // of these, what travels: reserved pages do not
  std::uint64_t keep_tokens = 0;   // spill: the newest tokens whose KV stays where it is
  std::string only_from;    // spill: only what is on this device; empty: what is beside its parts
  double predicted_ms = 0;  // how long it takes, by what the link has measured; 0: unknown
  double predicted_pause_ms = 0;  // of this, how long replies stand still
  // What a token is predicted to take on the devices once all moves of the decision are made, by
  // what parts have been measured to take; 0: unknown.
  double predicted_token_ms = 0;
  std::string reason;
  std::string policy;
  source_location where;
};

struct plan {
  std::uint64_t snapshot_sequence = 0;
  std::vector<planned_move> moves;  // to be carried out, in this order
  std::vector<planned_move>
      shadow;  // what policies in shadow mode would have done; never act on it
};

}  // namespace terrane::policies

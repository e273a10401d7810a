// The engine: one model on the devices of this machine, its sessions, and the moves between
// devices.
//
// The engine owns devices, model and one thread, the step loop, which alone touches sessions and
// placement. Every call here may come from any thread but the observers' own; it hands a command to
// the loop, which takes it between two steps. Observers are called on the loop's thread (moves: on
// the mover's) and must return at once.
//
// No call changes a bit of any reply: moves, batches and page residency are invisible in the logits
// (see the numeric contract).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/device/device.hpp"
#include "engine/model/model.hpp"
#include "engine/sampling/sampler.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "engine/tuning/tuner.hpp"
#include "kernels/result.hpp"

namespace terrane::engine {

using session_id = std::uint64_t;
using move_id = std::uint64_t;
using wall_time = std::chrono::system_clock::time_point;

// ---- Replies

struct token_event {
  token_id token = 0;
  std::string_view text;  // whole UTF-8 characters only; may be empty; valid during the call
  std::uint64_t logits_hash = 0;  // of the bits of all logits it was drawn from; 0 if not asked for
};

// stopped: stop() ended it; closed: close() did.
enum class stop_reason {
  end_of_text,
  max_tokens,
  stop_text,
  context_full,
  stopped,
  closed,
  failed
};
const char* to_string(stop_reason reason);

struct reply_summary {
  session_id session = 0;
  stop_reason reason = stop_reason::stopped;
  std::optional<error> failure;  // of `failed`
  std::string closed_by;         // of `closed`, as close() was told
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;  // of these, whose KV was there before
  std::uint32_t generated_tokens = 0;
  double prefill_ms = 0, decode_ms = 0;
  std::uint32_t moves = 0;  // committed during the reply
  double longest_pause_ms = 0;
  std::uint64_t logits_hash = 0;  // over all tokens of the reply; 0 if not asked for
  std::string rest;  // text held back until the end: the beginning of a stop text or character
};

class reply_observer {
 public:
  virtual ~reply_observer() = default;
  virtual void on_token(const token_event& token) = 0;
  // With generate_request::every_logit: the logits after each prompt token, `position` of that
  // token.
  virtual void on_logits(std::uint32_t position, std::span<const float> logits);
  // Exactly once, last. Also when generate() was accepted and then stopped or failed.
  virtual void on_end(const reply_summary& summary) = 0;
};

struct generate_request {
  session_id session = 0;        // 0: a new one
  bool keep = false;             // the session stays when the reply has ended
  std::int64_t owner = 0;        // uid, kept with the session
  std::vector<token_id> prompt;  // appended to what the session holds; not empty
  std::vector<token_id> stop_tokens;
  std::vector<std::string> stop_texts;
  std::uint32_t max_tokens = 256;  // 0: only read the prompt
  std::uint32_t prompt_chunk = 0;  // tokens of the prompt in one step, at most; 0: as many as fit
  sampling_parameters sampling;
  bool hash_logits = false;
  bool every_logit = false;
};

// ---- Moves

// Where a page or part is to be; KV of a session is moved without its parts by `spill`.
struct part_move {
  part_index part = 0;
  std::uint32_t device = 0;  // index into devices()
};
struct spill_request {
  session_id session = 0;
  std::uint32_t keep_tokens = 0;        // the newest, which stay with their parts
  std::optional<std::uint32_t> device;  // empty: bring all pages home to their parts
  // Only pages that are there; empty: those beside their parts.
  std::optional<std::uint32_t> from = {};
};

enum class move_state { waiting, preparing, committed, failed, cancelled };
const char* to_string(move_state state);

struct move_status {
  move_id id = 0;
  move_state state = move_state::waiting;
  std::vector<part_move> parts;
  std::optional<spill_request> spill;
  std::string by, reason;         // as given
  std::uint64_t bytes_total = 0;  // known once it prepares
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_in_pause = 0;  // copied while replies waited
  double prepare_ms = 0;
  double pause_ms = 0;         // how long the step loop stood still
  std::uint64_t revision = 0;  // of the placement after the commit
  // Committed, but all was where it was to be: the placement is the same, and so is its revision.
  bool nothing_moved = false;
  std::optional<error> failure;
  wall_time ended;
  std::chrono::steady_clock::time_point committed_at;  // the end of the pause
};
// Called at each change of state, and while it prepares each time another share of the bytes is
// there.
using move_observer = std::function<void(const move_status&)>;

struct move_request {
  std::vector<part_move> parts;
  std::optional<spill_request> spill;     // instead of parts
  std::optional<std::uint64_t> revision;  // fails with conflict when the placement has another
  std::string by = "user", reason;
  // Parts that are there already are from now on there by this: `by` and `reason` are theirs.
  bool claims = false;
};

// ---- Lost devices

// What was on a device that is lost (device::lost()) goes elsewhere at once, unasked: its weights
// are read again, KV that was there is computed again from the sessions' tokens. Replies wait
// meanwhile and go on with the same bits. Where it all fits nowhere, sessions end with an error,
// those with lost pages first; where it does not fit without them either, requests are refused.

struct lost_placement {
  std::vector<std::uint32_t> parts;  // device by part, as it was
  std::vector<bool> lost;            // by device
};
// Says on which devices, none of them lost, parts are to be; nothing, or one without room: each
// goes to the nearest that has room. Called on the mover's thread.
using refuge_chooser =
    std::function<std::optional<std::vector<std::uint32_t>>(const lost_placement&)>;

// What became of it; told on the mover's thread.
struct refuge_report {
  std::vector<std::uint32_t> lost;   // all devices that are
  std::vector<part_move> parts;      // that have another place now
  std::size_t sessions_rebuilt = 0;  // KV of which was lost
  std::size_t sessions_ended = 0;
  std::optional<error> failure;  // no place was found
  double took_ms = 0;
};
using refuge_observer = std::function<void(const refuge_report&)>;

// ---- What is where, now

struct part_status {
  std::uint32_t device = 0;
  std::optional<std::uint32_t> moving_to;
  std::uint64_t weight_bytes = 0;
  std::uint64_t kv_bytes = 0;            // its pages here
  std::uint64_t kv_blank_bytes = 0;      // of these, what a move of the part need not copy
  std::uint64_t kv_elsewhere_bytes = 0;  // its pages on other devices
  wall_time since;                       // for people; decisions go by moved_at
  std::optional<std::chrono::steady_clock::time_point> moved_at;  // empty: not since the start
  std::string by, reason;
};
enum class session_state { waiting, prefill, generating, idle };
// A session's pages on one device.
struct kv_share {
  std::uint64_t bytes = 0;
  std::uint64_t open_bytes = 0;   // of these, not full yet: a spill leaves them beside their parts
  std::uint64_t empty_bytes = 0;  // of the open ones, reserved: no token is in them yet
  std::uint64_t past_bytes = 0;   // of the full ones, that no query sees again: never copied
  std::uint64_t away_bytes = 0;   // of all, not on the device of their part
  std::uint64_t elsewhere_bytes = 0;  // not here, though the part that they belong to is
};
struct session_status {
  session_id id = 0;
  std::int64_t owner = 0;
  session_state state = session_state::idle;
  std::uint32_t context_tokens = 0;
  std::vector<kv_share> kv;  // by device
  wall_time created;
  double idle_s = 0;
};
// What moves have copied from one device to another since the start, without what they loaded from
// the file or copied in a pause.
struct link_traffic {
  std::uint32_t from = 0, to = 0;
  std::uint64_t bytes = 0;
  double copy_ms = 0;         // that these copies took
  std::uint64_t commits = 0;  // of moves that copied along there
  double pause_ms = 0;        // of these, all together
};
// What a device has computed for steps of nothing but decoding, in the placement of this revision.
struct decode_time {
  std::uint64_t tokens = 0;
  double ms = 0;
  std::uint64_t steps = 0;     // that gave them: as many as tokens where one reply ran alone
  std::uint64_t attended = 0;  // positions that these tokens looked back on, added up
};
// The same of the placement before, as it was left.
struct past_decode {
  std::uint64_t revision = 0;        // 0: there was none
  std::vector<std::uint32_t> parts;  // device by part
  std::vector<decode_time> times;    // by device
};
struct engine_status {
  std::uint64_t revision = 0;
  std::vector<part_status> parts;  // as loaded_model().parts()
  std::vector<session_status> sessions;
  std::vector<move_status> moves;  // waiting and preparing
  std::uint64_t steps = 0, tokens = 0;
  double decode_tok_s = 0;                // over the last steps that decoded
  std::vector<decode_time> decode_times;  // by device
  past_decode decode_before;
  std::vector<link_traffic> links;  // those that have been used
  // Parts are on a device that is lost: nothing is computed until they are elsewhere.
  bool stranded = false;
  std::optional<error> unplaced;  // they fit nowhere: requests are refused with it
};

// Sessions as they come and go; called on the loop's thread.
enum class session_change { opened, closed };
using session_observer =
    std::function<void(session_change change, session_id session, std::int64_t owner)>;

struct engine_options {
  std::uint32_t context_tokens = 2048;   // of a session; at most what the model was trained for
  std::uint32_t sessions = 4;            // at once
  std::uint32_t rows = 64;               // tokens of one step; a multiple of 8
  std::vector<std::uint32_t> placement;  // device by part; empty: all on device 0
  // Of each device, for partial results of attention: a step whose rows have more is attended a few
  // rows after another. 0: 64 MiB, or a 256th of the memory of the smallest GPU that has its own.
  std::uint64_t attention_bytes = 0;
  bool check_numbers = true;  // refuse weights with scales that are not finite
  // How long a move runs steps for nothing on a device before anything is there, so that the first
  // that counts finds it ready. A tenth of it where the device works in the host's memory and so
  // may take processors from the replies. At least one step.
  std::chrono::milliseconds warming{500};
  session_observer on_session;   // may be empty
  refuge_chooser choose_refuge;  // may be empty
  refuge_observer on_refuge;     // may be empty
  // Layouts of kernels that are remembered are used. What is not is timed at the start, within the
  // budget for all devices together, those of the placement first.
  tuner_settings tuning;
};

// Called while weights are loaded, with bytes done and in all; returns false to give up.
using load_progress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

class inference_engine {
 public:
  // Loads the model's weights to their places. Fails with `cancelled` when `progress` gives up.
  static result<std::unique_ptr<inference_engine>> start(
      std::unique_ptr<const model> of, std::vector<std::unique_ptr<device>> devices,
      const engine_options& options, const load_progress& progress = {});
  virtual ~inference_engine() = default;  // ends replies and moves, then the threads

  virtual const model& loaded_model() const = 0;
  virtual const tokenizer& words() const = 0;
  virtual std::span<device* const> devices() const = 0;
  virtual const engine_options& options() const = 0;

  // Accepts a request or says why not: context exceeded, no room for its KV (with the numbers),
  // session unknown or busy. The observer lives until its on_end has returned.
  virtual result<session_id> generate(generate_request request,
                                      std::shared_ptr<reply_observer> observer) = 0;
  virtual result<void> stop(session_id session) = 0;  // ends its reply; the session stays if kept
  // Ends it all; its pages have returned then. A reply that is given ends as `closed`, by `by`.
  virtual result<void> close(session_id session, const std::string& by = {}) = 0;

  // Moves are carried out one after another. Refused at once: unknown indices, a stale revision.
  // Everything later is told to the observer: no room (with the numbers), before anything is
  // copied.
  virtual result<move_id> move(move_request request, move_observer observer = {}) = 0;
  virtual result<void> cancel_move(move_id move) = 0;  // conflict once it commits

  // Times the kernels of a device anew, on the calling thread, and uses what is found. Refused with
  // conflict while a reply, a move or another timing goes on. A reply or move that comes meanwhile
  // waits for the kernel that is being timed and ends the rest: the report says so.
  // `budget` and `progress` replace those of engine_options::tuning.
  virtual result<tuning_report> tune(
      std::uint32_t device, std::chrono::milliseconds budget,
      const std::function<bool(const tuning_progress&)>& progress) = 0;

  // Gives back what steps need on a device beside parts and pages, once neither is there: at once,
  // or after the move that is under way; while one is there nothing happens. A move to the device
  // makes it anew. Does not wait.
  virtual void give_back_scratch(std::uint32_t device) = 0;

  // Looks whether a device was lost while nothing ran, and once more for a place for parts that
  // have found none.
  virtual void look_for_lost_devices() = 0;

  // Requests that wait for a place for lost parts are refused from now on, for the daemon's end.
  virtual void refuse_waiting(const std::string& why) = 0;

  virtual engine_status status() = 0;  // waits for the end of the running step
  virtual std::uint64_t revision() const = 0;
};

}  // namespace terrane::engine

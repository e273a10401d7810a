// A move while it is carried out: what it brings where, and how far it is. Made by the mover,
// filled in turn by the mover's thread (allocations, copies) and by the step loop (survey, commit);
// the two hand it over, so it has no lock.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/engine.hpp"
#include "engine/session/execution_plan.hpp"

namespace terrane::engine {

// One KV page on its way.
struct page_move {
  session_id session = 0;
  std::uint32_t layer = 0;
  std::uint32_t page = 0;
  std::uint32_t target = 0;  // device
  kv_page_ptr from, to;
  bool full = false;  // it can never change again, so it may be copied ahead
  bool soon = false;  // it is written, or will be within a page's tokens
  bool copied = false;
  bool tried = false;         // it was copied once, full or not
  std::uint64_t seen_by = 0;  // the last survey that found it in use
};

// A session's page tables on one device: [layers][pages_per_slot].
struct slot_tables {
  std::uint32_t device = 0, slot = 0;
  std::vector<std::uint64_t> entries;
  bool changed = false;  // by the move that they were made for
};

struct move_job {
  move_status status;
  move_observer observer;
  std::vector<std::uint32_t> parts_after;  // device by part
  std::vector<page_move> pages;
  std::unordered_map<const kv_page*, std::size_t> page_at;    // in `pages`, by `from`
  std::vector<std::vector<resident_block_ptr>> blocks_after;  // by part that moves, else empty
  residency where_after;                                      // as of the last survey
  // What the commit does, made by a survey that finds nothing more to bring, so that the commit
  // need not look at each page of a long context. Good as long as the loop's pages_state() is
  // `surveyed`.
  struct switch_over {
    // A session's pages of one layer, as they will be; once switched, as they were.
    struct layer_pages {
      std::vector<kv_page_ptr>* of_session = nullptr;
      std::vector<kv_page_ptr> pages;
    };
    std::vector<layer_pages> layers;
    std::vector<std::size_t> last;    // pages to copy first
    std::vector<slot_tables> tables;  // those that change
  };
  std::uint64_t surveyed = 0;
  std::uint64_t surveys = 0;
  bool ready = false;
  std::uint64_t ready_step = 0;  // steps made when it was found ready last
  switch_over ready_switch;
  std::vector<std::uint32_t> devices_now;  // that take part in steps
  std::vector<step_size> sizes;            // steps to record before the commit
  std::unique_ptr<execution_plan> plan;
  std::chrono::steady_clock::time_point began;
  double rested_ms = 0;               // for the replies' sake
  std::uint64_t bytes_told = 0;       // of status.bytes_done, at the last report of progress
  std::vector<link_traffic> traffic;  // its own copies, by pair; only the mover's thread
  std::atomic<bool> cancelled{false};
  std::atomic<bool> overtaken{false};  // given up because a device was lost
  bool committing = false;
  bool unasked = false;             // away from a lost device: nobody gives it up
  bool claims = false;              // as move_request says
  std::vector<part_index> claimed;  // once it is carried out

  // What the commit took out of use; freed by the mover's thread, outside the pause.
  std::unique_ptr<execution_plan> old_plan;
  std::vector<std::vector<resident_block_ptr>> old_blocks;
};

}  // namespace terrane::engine

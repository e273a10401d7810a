// How a step runs for one placement: for each size of step, a list of stages, each a recorded
// command list on one device or a copy between two. Sizes are rounded up to powers of two and
// recorded when first needed, so a plan serves a growing context.
//
// A plan is built by whoever prepares a placement (start-up, a move) and then used by the step loop
// alone. It holds the weights it reads.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/kv/page_pool.hpp"
#include "engine/model/part_recorder.hpp"
#include "engine/session/workspace.hpp"
#include "engine/weights/weight_store.hpp"

namespace terrane::engine {

// A device with all that the engine keeps on it. The workspace is made before the first part comes.
struct device_room {
  device_room(std::unique_ptr<device> d, std::uint32_t index, const model& of);
  // Makes the workspace if there is none yet. The step loop sees it only after that.
  result<void> open(const model& of, const workspace_shape& shape);

  std::unique_ptr<device> on;
  std::uint32_t index;
  weight_store weights;
  kernel_library kernels;
  page_pool pages;
  std::unique_ptr<workspace> space;
};
using device_rooms = std::vector<std::unique_ptr<device_room>>;

// Where everything a step reads lives.
struct residency {
  std::vector<std::uint32_t> parts;  // device by part
  std::vector<std::uint32_t>
      away;  // by layer: bit d set if device d, not the part's own, holds pages
  bool operator==(const residency&) const = default;
};

// What the rows of a step are, for the copies between devices.
struct step_row_span {
  std::uint32_t first_row = 0, rows = 0;  // of one session, consecutive positions
  std::uint32_t last_position = 0;
  const std::vector<std::vector<kv_page_ptr>>* pages = nullptr;  // of the session, [layer][page]
};

class execution_plan {
 public:
  // Blocks of each part must be on its device; fails if one is not.
  static result<std::unique_ptr<execution_plan>> make(const model& of, const device_rooms& rooms,
                                                      residency where);
  ~execution_plan();

  const residency& where() const { return where_; }
  std::span<const std::uint32_t> devices() const { return devices_; }  // that take part in a step

  // Whether a step of this size is recorded.
  bool has(step_size size) { return find(size) != nullptr; }
  // Sizes that steps had last, newest first, and then those recorded for them that have not come
  // yet; 16 at most.
  std::vector<step_size> recent() const;
  // Records what a step of this size needs, if it is new.
  result<void> prepare(step_size size);
  // Runs the lists of a device for steps of few rows once without any, those of fewest rows first,
  // so that the first step on it finds everything in place; not what is warm there already, as it
  // would take the device's time from replies beside. Begins none once `budget` has passed.
  // Only for a device that no running plan uses.
  result<void> warm(std::uint32_t device, std::chrono::milliseconds budget);
  // A step in two halves: begin() records what it needs, if it is new; run() computes it, and
  // meanwhile only what is const may be called. Its inputs are written; the logits of its selected
  // rows lie on logits_room() after.
  result<void> begin(step_size size);
  result<void> run(std::span<const step_row_span> rows);
  // How long each device computed in the last run, by device; what was computed elsewhere or copied
  // meanwhile is left out.
  std::span<const double> busy_ms() const { return busy_ms_; }
  device_room& logits_room() const { return *rooms_[where_.parts.back()]; }

  // After a step gave non-finite logits: runs it again part by part and returns the name of the
  // first part whose output is not finite.
  result<std::string> find_not_finite(step_size size, std::uint32_t rows,
                                      std::span<const step_row_span> spans);

 private:
  struct stage;
  struct recorded;
  execution_plan(const model& of, const device_rooms& rooms, residency where);

  recorded* find(step_size size);
  result<std::unique_ptr<recorded>> record(step_size size, bool part_by_part);
  result<void> close_list(recorded& to, device_room& room, std::vector<dispatch>& phases,
                          part_index last);
  result<void> record_attention(recorded& to, part_recorder& r, part_index part);
  result<void> add_away_stages(recorded& to, std::uint32_t layer, device_room& home, step_size size,
                               row_range rows);
  result<void> run_stage(const stage& s, step_size size, std::span<const step_row_span> rows);
  result<void> carry_hidden(device_room& from, device_room& to, std::uint32_t rows);
  result<void> attend_away(const stage& s, std::span<const step_row_span> spans);
  result<void> submit(const stage& s);
  result<void> wait(device_room& room);

  const model& model_;
  const device_rooms& rooms_;
  residency where_;
  std::vector<std::uint32_t> devices_;
  std::vector<std::vector<resident_block_ptr>> blocks_;  // by part
  std::vector<std::unique_ptr<recorded>> recorded_;
  recorded* running_ = nullptr;  // begun last
  std::uint64_t runs_ = 0;
  std::vector<double> busy_ms_;
  std::optional<std::chrono::steady_clock::time_point> busy_since_;
};

// Rounded up to what plans are recorded for.
step_size rounded(step_size exact);

}  // namespace terrane::engine

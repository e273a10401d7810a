#include "engine/session/execution_plan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace terrane::engine {

device_room::device_room(std::unique_ptr<device> d, std::uint32_t i, const model& of)
    : on(std::move(d)),
      index(i),
      weights(*on, of),
      kernels(*on),
      pages(*on, i, of.config().layers, kernels::page_bytes(of.config().attention)) {}

result<void> device_room::open(const model& of, const workspace_shape& shape) {
  if (space != nullptr) return {};
  result<std::unique_ptr<workspace>> made = workspace::make(*on, of, shape);
  if (!made) return tl::unexpected<error>(made.error());
  space = std::move(*made);
  return {};
}

struct execution_plan::stage {
  enum class action { run, carry_hidden, attend_away };
  action what = action::run;
  device_room* room = nullptr;   // where `list` runs; of a carry, the source
  device_room* other = nullptr;  // of a carry, the target; of attend_away, the part's own device
  std::unique_ptr<command_list> list;
  std::uint32_t layer = 0;   // of attend_away
  row_range rows;            // of attend_away
  part_index last_part = 0;  // the last part that `list` computes
};

struct execution_plan::recorded {
  step_size size;
  std::uint64_t last_run = 0;  // number of the last run that used it
  std::uint32_t warm_on = 0;   // mask of devices
  std::vector<stage> stages;
};

execution_plan::~execution_plan() = default;

step_size rounded(step_size exact) {
  return {std::bit_ceil(exact.rows), std::bit_ceil(exact.chunks),
          exact.logits == 0 ? 0 : std::bit_ceil(exact.logits)};
}

execution_plan::execution_plan(const model& of, const device_rooms& rooms, residency where)
    : model_(of), rooms_(rooms), where_(std::move(where)), busy_ms_(rooms.size(), 0) {
  std::uint32_t used = 0;
  for (std::uint32_t d : where_.parts) used |= 1U << d;
  for (std::uint32_t mask : where_.away) used |= mask;
  for (std::uint32_t d = 0; d < rooms_.size(); d++)
    if ((used >> d & 1U) != 0) devices_.push_back(d);
}

result<std::unique_ptr<execution_plan>> execution_plan::make(const model& of,
                                                             const device_rooms& rooms,
                                                             residency where) {
  std::unique_ptr<execution_plan> plan(new execution_plan(of, rooms, std::move(where)));
  for (part_index p = 0; p < of.parts().size(); p++) {
    std::vector<resident_block_ptr> blocks;
    for (std::uint32_t b : of.parts()[p].blocks) {
      blocks.push_back(rooms[plan->where_.parts[p]]->weights.find(b));
      if (blocks.back() == nullptr) {
        return fail(error_code::not_found,
                    "weights of " + of.parts()[p].name + " are not on the device",
                    rooms[plan->where_.parts[p]]->on->info().name);
      }
    }
    plan->blocks_.push_back(std::move(blocks));
  }
  return plan;
}

execution_plan::recorded* execution_plan::find(step_size size) {
  for (const auto& r : recorded_)
    if (r->size == size) return r.get();
  return nullptr;
}

std::vector<step_size> execution_plan::recent() const {
  constexpr std::size_t most = 16;
  std::vector<const recorded*> newest;
  for (const auto& r : recorded_) newest.push_back(r.get());
  std::ranges::stable_sort(newest, std::ranges::greater{}, &recorded::last_run);
  std::vector<step_size> out;
  for (const recorded* r : newest)
    if (out.size() < most) out.push_back(r->size);
  return out;
}

result<void> execution_plan::prepare(step_size size) {
  if (find(size) != nullptr) return {};
  result<std::unique_ptr<recorded>> made = record(size, false);
  if (!made) return tl::unexpected<error>(made.error());
  recorded_.push_back(std::move(*made));
  return {};
}

result<void> execution_plan::close_list(recorded& to, device_room& room,
                                        std::vector<dispatch>& phases, part_index last) {
  if (phases.empty()) return {};
  result<std::unique_ptr<command_list>> list = room.on->record(phases);
  if (!list) return tl::unexpected<error>(list.error());
  stage s;
  s.room = &room;
  s.list = std::move(*list);
  s.last_part = last;
  to.stages.push_back(std::move(s));
  phases.clear();
  return {};
}

// What lies between the halves of an attention part.
result<void> execution_plan::record_attention(recorded& to, part_recorder& r, part_index part) {
  const std::uint32_t layer = model_.parts()[part].layer;
  device_room& home = *rooms_[where_.parts[part]];
  if (where_.away[layer] == 0 && r.attends_at_once(layer)) {
    r.attend_at_once(layer);
    return {};
  }
  for (const row_range& rows : r.attention_passes()) {
    r.attend_here(layer, rows);
    if (r.failure()) return tl::unexpected<error>(*r.failure());
    if (where_.away[layer] != 0) {
      result<void> ok = close_list(to, home, r.phases(), part);
      if (ok) ok = add_away_stages(to, layer, home, r.size(), rows);
      if (!ok) return ok;
    }
    r.combine(layer, rows);
  }
  return {};
}

// Attention over the pages of a layer that live on other devices than the part.
result<void> execution_plan::add_away_stages(recorded& to, std::uint32_t layer, device_room& home,
                                             step_size size, row_range rows) {
  for (const auto& room : rooms_) {
    if ((where_.away[layer] >> room->index & 1U) == 0) continue;
    part_recorder r(*room->space, room->kernels, model_, size);
    r.attend_here(layer, rows);
    if (r.failure()) return tl::unexpected<error>(*r.failure());
    result<std::unique_ptr<command_list>> list = room->on->record(r.phases());
    if (!list) return tl::unexpected<error>(list.error());
    stage s;
    s.what = stage::action::attend_away;
    s.room = room.get();
    s.other = &home;
    s.list = std::move(*list);
    s.layer = layer;
    s.rows = rows;
    to.stages.push_back(std::move(s));
  }
  return {};
}

result<std::unique_ptr<execution_plan::recorded>> execution_plan::record(step_size size,
                                                                         bool part_by_part) {
  auto made = std::make_unique<recorded>();
  made->size = size;
  std::vector<dispatch> phases;  // of the run of parts that is open
  device_room* open = nullptr;
  const std::vector<model_part>& parts = model_.parts();
  for (part_index p = 0; p < parts.size(); p++) {
    if (parts[p].kind == part_kind::head && size.logits == 0) break;
    device_room& room = *rooms_[where_.parts[p]];
    if (open != nullptr && (open != &room || part_by_part)) {
      result<void> ok = close_list(*made, *open, phases, p - 1);
      if (!ok) return tl::unexpected<error>(ok.error());
    }
    if (open != nullptr && open != &room) {
      stage s;
      s.what = stage::action::carry_hidden;
      s.room = open;
      s.other = &room;
      made->stages.push_back(std::move(s));
    }
    open = &room;
    part_recorder r(*room.space, room.kernels, model_, size);
    r.phases() = std::move(phases);
    r.begin_part(parts[p], blocks_[p]);
    model_.record(r, parts[p], part_half::first);
    if (parts[p].kind == part_kind::attention && !r.failure()) {
      result<void> ok = record_attention(*made, r, p);
      if (!ok) return tl::unexpected<error>(ok.error());
      model_.record(r, parts[p], part_half::second);
    }
    if (r.failure()) return tl::unexpected<error>(*r.failure());
    phases = std::move(r.phases());
  }
  result<void> ok = close_list(*made, *open, phases, static_cast<part_index>(parts.size() - 1));
  if (!ok) return tl::unexpected<error>(ok.error());
  return made;
}

result<void> execution_plan::begin(step_size size) {
  result<void> ok = prepare(size);
  if (!ok) return ok;
  running_ = find(size);
  running_->last_run = ++runs_;
  busy_ms_.assign(rooms_.size(), 0);
  busy_since_.reset();
  return {};
}

result<void> execution_plan::run(std::span<const step_row_span> rows) {
  for (const stage& s : running_->stages) {
    result<void> ok = run_stage(s, running_->size, rows);
    if (!ok) return ok;
  }
  return wait(*running_->stages.back().room);
}

// Lists that follow each other on one device are one stretch of its time, up to the wait for them.
result<void> execution_plan::submit(const stage& s) {
  if (!busy_since_) busy_since_ = std::chrono::steady_clock::now();
  return s.room->on->submit(*s.list);
}

result<void> execution_plan::wait(device_room& room) {
  result<void> ok = room.on->wait();
  if (!busy_since_) return ok;
  const std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - *busy_since_;
  busy_ms_[room.index] += took.count();
  busy_since_.reset();
  return ok;
}

// Products are computed for all rows, read or not: to run the list of a prompt for nothing would
// take as long as a prompt does, beside which what is saved is nothing.
result<void> execution_plan::warm(std::uint32_t device, std::chrono::milliseconds budget) {
  constexpr std::uint32_t most_rows_warmed = 8;
  const auto begin = std::chrono::steady_clock::now();
  const std::uint32_t own = 1U << device;
  device_room& room = *rooms_[device];
  std::vector<recorded*> cold;
  for (const auto& r : recorded_)
    if (r->size.rows <= most_rows_warmed && (r->warm_on & own) == 0) cold.push_back(r.get());
  std::ranges::stable_sort(cold, {}, [](const recorded* r) { return r->size.rows; });
  result<void> ok = room.space->write_inputs(step_inputs(room.space->shape().rows));
  for (recorded* r : cold) {
    for (const stage& s : r->stages) {
      if (!ok) return ok;
      if (s.list == nullptr || s.room != &room || s.list->is_warm) continue;
      ok = room.on->submit(*s.list);
      if (ok) ok = room.on->wait();
    }
    r->warm_on |= own;
    if (std::chrono::steady_clock::now() - begin >= budget) break;
  }
  return ok;
}

result<void> execution_plan::run_stage(const stage& s, step_size size,
                                       std::span<const step_row_span> rows) {
  switch (s.what) {
    case stage::action::run:
      return submit(s);
    case stage::action::carry_hidden:
      return carry_hidden(*s.room, *s.other, size.rows);
    case stage::action::attend_away:
      return attend_away(s, rows);
  }
  return {};
}

result<void> execution_plan::carry_hidden(device_room& from, device_room& to, std::uint32_t rows) {
  result<void> ok = wait(from);
  if (!ok) return ok;
  const std::size_t bytes = std::size_t{rows} * from.space->hidden_stride() * 4;
  return copy_between(*from.on, from.space->memory(), from.space->at().hidden.offset, *to.on,
                      to.space->memory(), to.space->at().hidden.offset, bytes);
}

// Sends the queries to where the pages are and brings back the partials of those pages alone.
result<void> execution_plan::attend_away(const stage& s, std::span<const step_row_span> spans) {
  device_room &away = *s.room, &home = *s.other;
  result<void> ok = wait(home);
  if (!ok) return ok;
  const kernels::attention_shape shape = model_.config().attention_of(s.layer);
  const std::size_t q_bytes = std::size_t{4} * shape.heads * shape.head_size;
  ok = copy_between(*home.on, home.space->memory(),
                    home.space->at().q.offset + s.rows.first * q_bytes, *away.on,
                    away.space->memory(), away.space->at().q.offset + s.rows.first * q_bytes,
                    s.rows.count * q_bytes);
  if (ok) ok = away.on->submit(*s.list);
  if (ok) ok = away.on->wait();
  if (!ok) return ok;
  const std::size_t row_bytes = kernels::partial_row_bytes(shape);
  const std::size_t chunk_bytes = row_bytes * s.rows.count;
  for (const step_row_span& span : spans) {
    const std::uint32_t begin = std::max(span.first_row, s.rows.first);
    const std::uint32_t end = std::min(span.first_row + span.rows, s.rows.first + s.rows.count);
    if (begin >= end) continue;
    const std::vector<kv_page_ptr>& pages = (*span.pages)[s.layer];
    const std::uint32_t position_of_row_0 = span.last_position + 1 - span.rows - span.first_row;
    const std::uint32_t last_chunk = (position_of_row_0 + end - 1) / kernels::page_positions;
    for (std::size_t c =
             kernels::first_key(shape, position_of_row_0 + begin) / kernels::page_positions;
         c <= last_chunk; c++) {
      if (pages[c]->device() != away.index) continue;
      const std::size_t at = c * chunk_bytes + (begin - s.rows.first) * row_bytes;
      ok = copy_between(*away.on, away.space->memory(), away.space->at().partials.offset + at,
                        *home.on, home.space->memory(), home.space->at().partials.offset + at,
                        (end - begin) * row_bytes);
      if (!ok) return ok;
    }
  }
  return {};
}

result<std::string> execution_plan::find_not_finite(step_size size, std::uint32_t rows,
                                                    std::span<const step_row_span> spans) {
  result<std::unique_ptr<recorded>> made = record(size, true);
  if (!made) return tl::unexpected<error>(made.error());
  std::vector<float> hidden(std::size_t{rows} * model_.config().hidden);
  for (const stage& s : (*made)->stages) {
    result<void> ok = run_stage(s, size, spans);
    if (ok) ok = s.room->on->wait();
    if (!ok) return tl::unexpected<error>(ok.error());
    if (s.what != stage::action::run || model_.parts()[s.last_part].kind == part_kind::head)
      continue;
    ok = s.room->on->read(s.room->space->memory(), s.room->space->at().hidden.offset,
                          std::as_writable_bytes(std::span(hidden)));
    if (!ok) return tl::unexpected<error>(ok.error());
    if (!std::all_of(hidden.begin(), hidden.end(), [](float x) { return std::isfinite(x); }))
      return model_.parts()[s.last_part].name;
  }
  return model_.parts().back().name;
}

}  // namespace terrane::engine

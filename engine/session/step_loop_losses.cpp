// The step loop's side of a lost device: sessions go back to the last position of which all KV is
// whole, and nothing is computed until a move has put elsewhere what was on the device.
#include <algorithm>
#include <iterator>

#include "engine/session/step_loop.hpp"

namespace terrane::engine {

// Until devices that are whole have nothing more to do: the step that failed may have given them
// work.
void step_loop::settle() {
  for (std::uint32_t d : plan_->devices()) {
    device& on = *rooms_[d]->on;
    if (!on.lost()) static_cast<void>(on.wait());  // one that fails now is lost itself
  }
}

bool step_loop::needs_lost(const residency& where) const {
  std::uint32_t used = 0;
  for (std::uint32_t d : where.parts) used |= 1U << d;
  for (std::uint32_t mask : where.away) used |= mask;
  return (used & lost_) != 0;
}

bool step_loop::is_stranded() const { return lost_ != 0 && needs_lost(placement()); }

bool step_loop::notice_lost() {
  const std::uint32_t before = lost_;
  for (const auto& room : rooms_)
    if (room->on->lost()) lost_ |= 1U << room->index;
  if (lost_ == before) return is_stranded();
  if (!stranded_since_) {
    stranded_since_ = std::chrono::steady_clock::now();
    rebuilt_ = 0;
  }
  for (auto& s : sessions_) rewind(*s);
  pages_version_++;
  // Idle sessions have let go of their pages there: perhaps nothing needs the device any more.
  let_go_of_devices();
  leave_stranding();
  if (is_stranded() && on_stranded_) on_stranded_();
  return is_stranded();
}

// Back to where nothing is missing: before the first page that was lost, and before what a step
// that failed has computed but not handed out. What is computed again gets the same bits in the
// same pages.
void step_loop::rewind(session& s) {
  std::size_t whole = s.computed;
  bool windowed = false;
  for (std::uint32_t layer = 0; layer < s.pages.size(); layer++) {
    windowed |= s.page_is_past(0, model_.config().attention_of(layer));
    for (std::size_t p = 0; p < s.pages[layer].size(); p++)
      if (is_lost(s.pages[layer][p]->device()))
        whole = std::min(whole, p * kernels::page_positions);
  }
  if (whole < s.computed) {
    rebuilt_++;
    // A move does not bring pages before a window, which would be seen again from further back.
    if (windowed) whole = 0;
  }
  if (s.answering) {
    const reply& r = *s.answering;
    whole = std::min(whole, s.tokens.size() - 1);
    if (r.request.every_logit && r.told < r.prompt_end) whole = std::min(whole, r.told);
  }
  s.computed = whole;
  if (!s.answering) trim_pages(s);
}

std::vector<std::uint64_t> step_loop::lost_pages() const {
  std::vector<std::uint64_t> out(model_.config().layers, 0);
  for (const auto& s : sessions_)
    for (std::uint32_t layer = 0; layer < s->pages.size(); layer++)
      for (const kv_page_ptr& page : s->pages[layer])
        if (is_lost(page->device())) out[layer]++;
  return out;
}

bool step_loop::has_lost_pages(const session& s) const {
  return std::ranges::any_of(s.pages, [this](const auto& layer) {
    return std::ranges::any_of(layer, [this](const auto& page) { return is_lost(page->device()); });
  });
}

std::size_t step_loop::end_sessions(whom which, const error& why) {
  std::size_t count = 0;
  // From the last: a session leaves the list when it ends.
  for (std::size_t i = sessions_.size(); i-- > 0;) {
    if (which == whom::with_lost_pages && !has_lost_pages(*sessions_[i])) continue;
    count++;
    if (sessions_[i]->answering)
      finish(*sessions_[i], stop_reason::failed, why);
    else
      close_now(*sessions_[i]);
  }
  return count;
}

// Wherever the plan has changed. What replies waited for is what they were held up by the loss.
void step_loop::leave_stranding() {
  if (!stranded_since_ || is_stranded()) return;
  const std::chrono::duration<double, std::milli> waited =
      std::chrono::steady_clock::now() - *stranded_since_;
  for (auto& s : sessions_) {
    if (!s->answering) continue;
    double& longest = s->answering->summary.longest_pause_ms;
    longest = std::max(longest, waited.count());
  }
  stranded_since_.reset();
  unplaced_.reset();
}

std::vector<std::unique_ptr<workspace>> step_loop::take_workspaces(std::uint32_t of) {
  std::vector<std::unique_ptr<workspace>> out;
  for (const auto& room : rooms_) {
    if (room->space == nullptr || (of >> room->index & 1U) == 0) continue;
    if (std::ranges::find(plan_->devices(), room->index) != plan_->devices().end()) continue;
    out.push_back(std::move(room->space));
  }
  return out;
}

}  // namespace terrane::engine

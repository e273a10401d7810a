#include "policies/scenario/machine.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "policies/vocabulary/table.hpp"

namespace terrane::policies::scenario {
namespace {

template <class T>
T& found(std::vector<T>& list, const std::string& name, std::string T::*member) {
  const auto at = std::ranges::find(list, name, member);
  if (at == list.end()) throw std::invalid_argument("the machine has no '" + name + "'");
  return *at;
}

// The number in "layer.12.attn"; -1 where there is none.
int layer_of(std::string_view part) {
  constexpr std::string_view prefix = "layer.";
  int layer = -1;
  if (part.starts_with(prefix)) {
    std::from_chars(part.data() + prefix.size(), part.data() + part.size(), layer);
  }
  return layer;
}

part_kind kind_of(std::string_view part) {
  if (part == "embedding") return part_kind::embedding;
  if (part == "head") return part_kind::head;
  if (part.find(".expert.") != std::string_view::npos) return part_kind::expert;
  return part.ends_with(".attn") ? part_kind::attention : part_kind::feed_forward;
}

}  // namespace

machine_device& machine::add_device(const std::string& name, double total, double others) {
  machine_device d;
  d.state.name = name;
  d.state.kind = name == "cpu" ? device_kind::cpu : device_kind::gpu;
  d.total = total;
  d.others = others;
  devices_.push_back(d);
  return devices_.back();
}

void machine::add_layers(int count, double attn_bytes, double ffn_bytes, const std::string& device,
                         double kv_bytes) {
  for (int i = 0; i < count; ++i) {
    const std::string layer = "layer." + std::to_string(i);
    add_part(layer + ".attn", attn_bytes, device).kv_bytes = static_cast<std::uint64_t>(kv_bytes);
    add_part(layer + ".ffn", ffn_bytes, device);
  }
}

part_state& machine::add_part(const std::string& name, double bytes, const std::string& device) {
  part_state p;
  p.name = name;
  p.kind = kind_of(name);
  p.layer = layer_of(name);
  p.device = device;
  p.weight_bytes = static_cast<std::uint64_t>(bytes);
  now_.parts.push_back(std::move(p));
  return now_.parts.back();
}

session_state& machine::add_session(const std::string& id, std::uint64_t tokens, double kv_bytes,
                                    const std::string& device) {
  session_state s;
  s.id = id;
  s.context_tokens = tokens;
  s.home = device;
  s.kv.push_back({device, static_cast<std::uint64_t>(kv_bytes)});
  begin_session(std::move(s));
  return now_.sessions.back();
}

void machine::begin_session(session_state s) { now_.sessions.push_back(std::move(s)); }

void machine::reserve(const std::string& session_id, double bytes) {
  session_state& s = session(session_id);
  for (kv_residency& r : s.kv)
    if (r.device == s.home) r.open_bytes = r.empty_bytes = static_cast<std::uint64_t>(bytes);
}

void machine::end_session(const std::string& id) {
  std::erase_if(now_.sessions, [&](const session_state& s) { return s.id == id; });
}

machine_device& machine::device(const std::string& name) {
  for (machine_device& d : devices_) {
    if (d.state.name == name) return d;
  }
  throw std::invalid_argument("the machine has no device '" + name + "'");
}

part_state& machine::part(const std::string& name) {
  return found(now_.parts, name, &part_state::name);
}

session_state& machine::session(const std::string& id) {
  return found(now_.sessions, id, &session_state::id);
}

void machine::stop_sensor(const std::string& device_name, const std::string& sensor) {
  stopped_.insert({device(device_name).state.name, sensor});
}

void machine::resume_sensor(const std::string& device_name, const std::string& sensor) {
  stopped_.erase({device_name, sensor});
}

void machine::carry_out(const plan& p, std::int64_t now_ms) {
  for (const planned_move& m : p.moves) running_.push_back({m, now_ms + move_ms});
}

double machine::ours(const std::string& device_name) const {
  double sum = 0;
  bool used = false;
  for (const part_state& p : now_.parts) {
    if (p.device != device_name) continue;
    sum += static_cast<double>(p.weight_bytes + p.kv_bytes);
    used = true;
  }
  const auto at = std::ranges::find(devices_, device_name,
                                    [](const machine_device& d) { return d.state.name; });
  if (used && at != devices_.end()) sum += at->scratch;
  for (const session_state& s : now_.sessions) {
    for (const kv_residency& r : s.kv) {
      if (r.device == device_name) sum += static_cast<double>(r.bytes);
    }
  }
  // An engine reserves before it copies.
  for (const running_move& r : running_) {
    if (r.move.to == device_name) sum += static_cast<double>(r.move.bytes);
  }
  return sum;
}

// What does not fit fails and leaves the source as it was.
std::string machine::why_it_fails(const planned_move& m) const {
  if (broken_targets.contains(m.to)) return "the device is broken";
  const auto is_target = [&](const machine_device& d) { return d.state.name == m.to; };
  const auto to = std::ranges::find_if(devices_, is_target);
  if (to == devices_.end()) return "";  // a fetch to the parts that use it
  if (to->lost) return "the device is lost";
  const bool fits = to->others + ours(m.to) + static_cast<double>(m.bytes) <= to->total;
  return fits ? "" : "the device has no room";
}

void machine::arrive(const planned_move& m, std::int64_t now_ms) {
  if (m.kind == subject_kind::session_kv) return arrive_kv(m);
  part_state& p = part(m.subject);
  p.device = m.to;
  p.moved_ms = now_ms;
  p.placed_by_user = false;
}

void machine::arrive_kv(const planned_move& m) {
  const auto at = std::ranges::find(now_.sessions, m.subject, &session_state::id);
  if (at == now_.sessions.end()) return;  // it ended meanwhile
  std::vector<kv_residency>& kv = at->kv;
  const std::string& to = m.to.empty() ? at->home : m.to;
  std::uint64_t left = m.bytes;
  for (kv_residency& r : kv) {
    if (r.device == to) continue;
    const std::uint64_t taken = std::min(left, r.bytes);
    r.bytes -= taken;
    left -= taken;
  }
  const auto there = std::ranges::find(kv, to, &kv_residency::device);
  if (there != kv.end()) {
    there->bytes += m.bytes - left;
  } else {
    kv.push_back({to, m.bytes - left});
  }
  std::erase_if(kv, [](const kv_residency& r) { return r.bytes == 0; });
}

void machine::end_moves(std::int64_t now_ms) {
  now_.completed.clear();
  now_.moving.clear();
  for (std::size_t i = 0; i < running_.size();) {
    const planned_move m = running_[i].move;
    const std::int64_t ends_ms = running_[i].ends_ms;
    if (ends_ms > now_ms) {
      now_.moving.push_back({m.id, m.kind, m.subject, m.from, m.to, m.bytes});
      ++i;
      continue;
    }
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    const std::string why = why_it_fails(m);
    if (why.empty()) arrive(m, ends_ms);
    now_.completed.push_back({m.id, m.kind, m.subject, m.from, m.to, ends_ms,
                              why.empty() ? move_outcome::done : move_outcome::failed, why});
  }
}

machine machine::after_moves() const {
  machine then = *this;
  then.end_moves(std::numeric_limits<std::int64_t>::max());
  return then;
}

void machine::sample(machine_device& d, std::int64_t now_ms) {
  device_state& s = d.state;
  s.kv_bytes_per_s = d.kv_per_s > 0 ? d.kv_per_s : d.weights_per_s;
  if (!stopped_.contains({s.name, "vram"})) {
    s.vram_total = {d.total, now_ms};
    s.vram_used = {d.others + ours(s.name), now_ms};
    s.vram_ours = {ours(s.name), now_ms};
    s.vram_others = {d.others, now_ms};
  }
  for (const metric_entry& m : metrics()) {
    if (m.device_field == nullptr || m.name.starts_with("vram.") || is_stopped(s.name, m.name)) {
      continue;
    }
    reading& r = s.*m.device_field;
    if (r.present()) r.sampled_ms = now_ms;
  }
}

bool machine::is_stopped(const std::string& device, std::string_view metric) const {
  return std::ranges::any_of(stopped_, [&](const auto& stopped) {
    return stopped.first == device && metric.starts_with(stopped.second);
  });
}

// How long each part takes on the devices whose speeds were set.
void machine::measure() {
  for (const machine_device& d : devices_) {
    if (d.weights_per_s <= 0) continue;
    const double kv_per_s = d.kv_per_s > 0 ? d.kv_per_s : d.weights_per_s;
    for (part_state& p : now_.parts) {
      std::erase_if(p.measured, [&](const part_time& t) { return t.device == d.state.name; });
      const double seconds = static_cast<double>(p.weight_bytes) / d.weights_per_s +
                             static_cast<double>(p.kv_bytes) / kv_per_s;
      p.measured.push_back({d.state.name, seconds * 1000});
    }
  }
}

void machine::link_up() {
  now_.links.clear();
  if (link_bytes_per_s <= 0) return;
  for (const machine_device& a : devices_)
    for (const machine_device& b : devices_)
      if (&a != &b) now_.links.push_back({a.state.name, b.state.name, link_bytes_per_s, 0});
}

const snapshot& machine::at(std::int64_t now_ms) {
  ++now_.sequence;
  now_.time_ms = now_ms;
  end_moves(now_ms);
  now_.devices.clear();
  for (machine_device& d : devices_) {
    if (d.lost) {
      device_state silent;
      silent.name = d.state.name;
      silent.kind = d.state.kind;
      now_.devices.push_back(std::move(silent));
      continue;
    }
    sample(d, now_ms);
    now_.devices.push_back(d.state);
  }
  for (const metric_entry& m : metrics()) {
    if (m.host_field == nullptr) continue;
    reading& r = host.*m.host_field;
    if (r.present()) r.sampled_ms = now_ms;
  }
  now_.host = host;
  measure();
  link_up();
  now_.promotes = promotes;
  now_.tokens_per_s = tokens_per_s;
  now_.model.context_tokens = context_tokens;
  for (session_state& s : now_.sessions)
    for (kv_residency& r : s.kv)
      r.away_bytes = r.device == s.home ? 0 : static_cast<std::int64_t>(r.bytes);
  list_tenants(now_);
  return now_;
}

}  // namespace terrane::policies::scenario

#include "tests/policies/machine.hpp"

#include <algorithm>
#include <stdexcept>

namespace terrane::policies::tests {
namespace {

template <class T>
T& found(std::vector<T>& list, const std::string& name, std::string T::*member) {
  const auto at = std::ranges::find(list, name, member);
  if (at == list.end()) throw std::invalid_argument("the machine has no '" + name + "'");
  return *at;
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
    part_state attn;
    attn.name = "layer." + std::to_string(i) + ".attn";
    attn.kind = part_kind::attention;
    attn.layer = i;
    attn.device = device;
    attn.weight_bytes = static_cast<std::uint64_t>(attn_bytes);
    attn.kv_bytes = static_cast<std::uint64_t>(kv_bytes);
    part_state ffn = attn;
    ffn.name = "layer." + std::to_string(i) + ".ffn";
    ffn.kind = part_kind::feed_forward;
    ffn.weight_bytes = static_cast<std::uint64_t>(ffn_bytes);
    ffn.kv_bytes = 0;
    now_.parts.push_back(attn);
    now_.parts.push_back(ffn);
  }
}

void machine::add_session(const std::string& id, std::uint64_t tokens, double kv_bytes,
                          const std::string& device) {
  session_state s;
  s.id = id;
  s.context_tokens = tokens;
  s.home = device;
  s.kv.push_back({device, static_cast<std::uint64_t>(kv_bytes)});
  now_.sessions.push_back(s);
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
  for (const part_state& p : now_.parts) {
    if (p.device == device_name) sum += static_cast<double>(p.weight_bytes + p.kv_bytes);
  }
  for (const session_state& s : now_.sessions) {
    for (const kv_residency& r : s.kv) {
      if (r.device == device_name) sum += static_cast<double>(r.bytes);
    }
  }
  return sum;
}

void machine::arrive(const planned_move& m, std::int64_t now_ms) {
  if (m.kind == subject_kind::part) {
    part_state& p = part(m.subject);
    p.device = m.to;
    p.moved_ms = now_ms;
    return;
  }
  session_state& s = session(m.subject);
  std::uint64_t left = m.bytes;
  for (kv_residency& r : s.kv) {
    if (r.device == m.to) continue;
    const std::uint64_t taken = std::min(left, r.bytes);
    r.bytes -= taken;
    left -= taken;
  }
  const auto there = std::ranges::find(s.kv, m.to, &kv_residency::device);
  if (there != s.kv.end()) {
    there->bytes += m.bytes - left;
  } else {
    s.kv.push_back({m.to, m.bytes - left});
  }
  std::erase_if(s.kv, [](const kv_residency& r) { return r.bytes == 0; });
}

void machine::end_moves(std::int64_t now_ms) {
  now_.completed.clear();
  now_.moving.clear();
  for (const running_move& r : running_) {
    const planned_move& m = r.move;
    if (r.ends_ms > now_ms) {
      now_.moving.push_back({m.id, m.kind, m.subject, m.from, m.to, m.bytes});
      continue;
    }
    const bool fails = broken_targets.contains(m.to);
    if (!fails) arrive(m, r.ends_ms);
    now_.completed.push_back({m.id, m.kind, m.subject, m.from, m.to, r.ends_ms,
                              fails ? move_outcome::failed : move_outcome::done,
                              fails ? "the device is broken" : ""});
  }
  std::erase_if(running_, [&](const running_move& r) { return r.ends_ms <= now_ms; });
}

void machine::sample(machine_device& d, std::int64_t now_ms) {
  device_state& s = d.state;
  if (!stopped_.contains({s.name, "vram"})) {
    s.vram_total = {d.total, now_ms};
    s.vram_used = {d.others + ours(s.name), now_ms};
    s.vram_ours = {ours(s.name), now_ms};
  }
  if (s.temp_c.present() && !stopped_.contains({s.name, "temp"})) s.temp_c.sampled_ms = now_ms;
}

const snapshot& machine::at(std::int64_t now_ms) {
  ++now_.sequence;
  now_.time_ms = now_ms;
  end_moves(now_ms);
  now_.devices.clear();
  for (machine_device& d : devices_) {
    sample(d, now_ms);
    now_.devices.push_back(d.state);
  }
  for (reading* r : {&host.memory_total, &host.memory_available, &host.pressure_some_avg10}) {
    if (r->present()) r->sampled_ms = now_ms;
  }
  now_.host = host;
  return now_;
}

}  // namespace terrane::policies::tests

#include "policies/lua/selection.hpp"

#include <algorithm>

#include "policies/planner/propose.hpp"
#include "policies/planner/shared_matrix.hpp"

namespace terrane::policies::lua {
namespace {

// As many from the front as are needed to reach the bytes; size(one, those before it).
template <class Pointer, class Size>
std::vector<Pointer> until(const std::vector<Pointer>& list, double bytes, Size size) {
  std::vector<Pointer> taken;
  double sum = 0;
  for (Pointer one : list) {
    if (sum >= bytes) break;
    sum += static_cast<double>(size(one, taken));
    taken.push_back(one);
  }
  return taken;
}

// What becomes free where the part is, once those before it have left.
std::uint64_t freed_after(const snapshot& now, const part_state& part, const part_list& before) {
  return bytes_of_move(now, part, {},
                       [&](const part_state& other) {
                         const auto at = std::ranges::find(before, other.name, &part_state::name);
                         return at == before.end() ? other.device : std::string();
                       })
      .freed;
}

template <class Pointer>
std::vector<Pointer> front_of(std::vector<Pointer> list, double count) {
  if (count < static_cast<double>(list.size())) {
    list.resize(static_cast<std::size_t>(std::max(0.0, count)));
  }
  return list;
}

bool has_fresh_temperature(const snapshot& now, const device_state& d) {
  return d.temp_c.present() && !d.temp_c.stale(now.time_ms);
}

// The one of most value, the first of equals; those of negative value are none.
template <class Value>
device_list best(const device_list& list, Value value) {
  const device_state* found = nullptr;
  for (const device_state* d : list) {
    if (value(*d) < 0) continue;
    if (found == nullptr || value(*d) > value(*found)) found = d;
  }
  return found == nullptr ? device_list{} : device_list{found};
}

ordering order_of(selector s) {
  switch (s) {
    case selector::bottom_up:
      return ordering::bottom_up;
    case selector::largest_first:
      return ordering::largest_first;
    case selector::smallest_first:
      return ordering::smallest_first;
    case selector::longest_idle:
      return ordering::longest_idle;
    default:
      return ordering::top_down;
  }
}

}  // namespace

double known_room(const snapshot& now, const device_state& d) {
  const reading free = free_bytes(d);
  if (!free.present() || free.stale(now.time_ms)) return -1;
  const double reserve = d.vram_reserved.present() ? d.vram_reserved.value : 0;
  return std::max(0.0, free.value - reserve);
}

part_list select(const snapshot& now, part_list list, selector s, const selector_argument& a) {
  switch (s) {
    case selector::movable:
      std::erase_if(list, [](const part_state* p) { return !p->movable || p->pinned; });
      break;
    case selector::of_kind:
      std::erase_if(list, [&](const part_state* p) { return name_of(p->kind) != a.name; });
      break;
    case selector::matching:
      std::erase_if(list, [&](const part_state* p) { return !matches_pattern(a.name, p->name); });
      break;
    case selector::on:
      std::erase_if(list, [&](const part_state* p) { return p->device != a.name; });
      break;
    case selector::until_bytes:
      return until(list, a.number, [&](const part_state* p, const part_list& before) {
        return freed_after(now, *p, before);
      });
    case selector::first:
      return front_of(std::move(list), a.number);
    default:
      sort_parts(list, order_of(s));
  }
  return list;
}

device_list select(const snapshot& now, device_list list, selector s, const selector_argument& a) {
  switch (s) {
    case selector::except:
      std::erase_if(list, [&](const device_state* d) { return d->name == a.name; });
      break;
    case selector::gpus:
      std::erase_if(list, [](const device_state* d) { return d->kind != device_kind::gpu; });
      break;
    case selector::cpus:
      std::erase_if(list, [](const device_state* d) { return d->kind != device_kind::cpu; });
      break;
    case selector::cooler_than:
      std::erase_if(list, [&](const device_state* d) {
        return !has_fresh_temperature(now, *d) || d->temp_c.value >= a.number;
      });
      break;
    case selector::with_room:
      std::erase_if(list, [&](const device_state* d) { return known_room(now, *d) < a.number; });
      break;
    case selector::most_free:
      return best(list, [&](const device_state& d) { return known_room(now, d); });
    case selector::coolest:
      // Hotter is less; 1000 degrees keep every real temperature above zero.
      return best(list, [&](const device_state& d) {
        return has_fresh_temperature(now, d) ? 1000 - d.temp_c.value : -1;
      });
    default:
      break;
  }
  return list;
}

session_list select(const snapshot&, session_list list, selector s, const selector_argument& a) {
  switch (s) {
    case selector::idle_for:
      std::erase_if(list, [&](const session_state* one) { return one->idle_s <= a.number; });
      break;
    case selector::on:
      std::erase_if(list, [&](const session_state* one) {
        return std::ranges::none_of(
            one->kv, [&](const kv_residency& r) { return r.device == a.name && r.bytes > 0; });
      });
      break;
    case selector::of_tenant:
      std::erase_if(list, [&](const session_state* one) { return one->tenant != a.name; });
      break;
    case selector::until_bytes:
      return until(list, a.number, [](const session_state* one, const session_list&) {
        return kv_bytes_on(*one, nullptr);
      });
    case selector::first:
      return front_of(std::move(list), a.number);
    default:
      sort_sessions(list, order_of(s), nullptr);
  }
  return list;
}

tenant_list select(const snapshot&, tenant_list list, selector s, const selector_argument& a) {
  if (s == selector::first) return front_of(std::move(list), a.number);
  std::ranges::stable_sort(list, std::greater{}, [](const tenant_state* one) {
    std::uint64_t sum = 0;
    for (const kv_residency& r : one->kv) sum += r.bytes;
    return sum;
  });
  return list;
}

}  // namespace terrane::policies::lua

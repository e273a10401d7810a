#include "tests/policies/placement_cases.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace terrane::policies::tests {

using placement::placed;
using placement::request;

namespace {

double between(std::mt19937_64& random, double least, double most) {
  return least + (most - least) * static_cast<double>(random() % 1'000'000) / 1e6;
}
std::uint32_t below(std::mt19937_64& random, std::size_t n) {
  return static_cast<std::uint32_t>(random() % n);
}

void add_wishes(request& r, std::mt19937_64& random) {
  const auto part = [&] { return below(random, r.parts.size()); };
  const auto device = [&] { return below(random, r.devices.size()); };
  const std::uint32_t pinned = part();
  if (random() % 2 == 0) r.pins.push_back({pinned, device(), "test"});
  if (random() % 2 == 0) {
    const std::uint32_t p = part();
    if (p != pinned) r.exclusions.push_back({p, device(), "test"});
  }
  if (random() % 3 == 0) {
    const std::uint32_t d = device();
    r.limits.push_back({d, r.devices[d].budget_bytes * 2 / 3, "test"});
  }
}

}  // namespace

request random_request(std::mt19937_64& random, const case_shape& shape) {
  request r;
  r.activation_bytes = 1;
  const std::uint32_t works = shape.alike ? 2 : shape.parts;
  std::vector<std::uint64_t> bytes;
  for (std::uint32_t w = 0; w < works; ++w) bytes.push_back(50 + below(random, 100));
  std::uint64_t all = 0;
  for (std::uint32_t p = 0; p < shape.parts; ++p) {
    placement::part_demand d;
    d.name = "p" + std::to_string(p);
    d.work = p % works;
    d.weight_bytes = bytes[d.work];
    all += d.weight_bytes;
    r.parts.push_back(std::move(d));
  }
  if (shape.shared) {
    for (std::uint32_t p : {0U, shape.parts - 1}) {
      r.parts[p].shared = 0;
      r.parts[p].shared_bytes = 40;
    }
  }
  r.speeds = shape.devices;
  std::vector<double> speed;
  for (std::uint32_t d = 0; d < shape.devices; ++d) {
    placement::device_supply device;
    device.name = "d" + std::to_string(d);
    device.speed = d;
    device.fee_bytes = below(random, 30);
    device.reserve_bytes = below(random, 20);
    device.budget_bytes =
        device.fee_bytes + device.reserve_bytes +
        static_cast<std::uint64_t>(between(random, 0.4, 1.6) * static_cast<double>(all) /
                                   shape.tightness / shape.devices);
    speed.push_back(between(random, 1, 8));
    r.devices.push_back(std::move(device));
  }
  for (std::uint32_t w = 0; w < works; ++w)
    for (std::uint32_t d = 0; d < shape.devices; ++d)
      r.seconds.push_back(static_cast<double>(bytes[w]) / speed[d] * between(random, 0.8, 1.25));
  for (std::uint32_t a = 0; a < shape.devices; ++a)
    for (std::uint32_t b = 0; b < shape.devices; ++b)
      if (a != b)
        r.links.push_back(
            {a, b, {shape.crossing * static_cast<double>(all) / 4 * between(random, 0.3, 2), 0}});
  if (shape.wishes) add_wishes(r, random);
  return r;
}

request transformer(std::uint32_t layers, std::uint64_t attention_bytes,
                    std::uint64_t feed_forward_bytes, std::uint64_t kv_page_bytes) {
  request r;
  r.near = {30e-6, 10e9};
  r.far = {200e-6, 1e9};
  r.activation_bytes = 16384;
  const auto part = [&](std::string name, std::uint32_t work, std::uint64_t bytes,
                        std::uint64_t page) {
    placement::part_demand d;
    d.name = std::move(name);
    d.work = work;
    d.weight_bytes = bytes;
    d.kv_page_bytes = page;
    r.parts.push_back(std::move(d));
  };
  part("embedding", 0, 4 * attention_bytes, 0);
  for (std::uint32_t l = 0; l < layers; ++l) {
    part("layer." + std::to_string(l) + ".attn", 1, attention_bytes, kv_page_bytes);
    part("layer." + std::to_string(l) + ".ffn", 2, feed_forward_bytes, 0);
  }
  part("head", 3, 4 * attention_bytes, 0);
  r.context_tokens = 8192;
  return r;
}

std::uint32_t add_device(request& r, const std::string& name, std::uint64_t budget_bytes,
                         double bytes_per_s) {
  placement::device_supply device;
  device.name = name;
  device.budget_bytes = budget_bytes;
  device.speed = r.speeds;
  // A row is a work, and gets one more column.
  const std::uint32_t works = 4;
  std::vector<double> seconds;
  for (std::uint32_t w = 0; w < works; ++w) {
    for (std::uint32_t s = 0; s < r.speeds; ++s) seconds.push_back(r.seconds[w * r.speeds + s]);
    const auto of = std::find_if(r.parts.begin(), r.parts.end(),
                                 [&](const placement::part_demand& p) { return p.work == w; });
    seconds.push_back(w == 0 ? 2e-6 : 5e-6 + static_cast<double>(of->weight_bytes) / bytes_per_s);
  }
  r.seconds = std::move(seconds);
  r.speeds++;
  r.devices.push_back(std::move(device));
  return static_cast<std::uint32_t>(r.devices.size() - 1);
}

namespace {

class exhausting {
 public:
  exhausting(const request& r, std::uint32_t rank) : of_(r), rank_(rank) {
    for (const auto& d : r.devices)
      room_.push_back(static_cast<std::int64_t>(d.budget_bytes) -
                      static_cast<std::int64_t>(d.reserve_bytes) -
                      static_cast<std::int64_t>(d.fee_bytes));
    for (const auto& l : r.limits)
      room_[l.device] =
          std::min(room_[l.device], static_cast<std::int64_t>(l.bytes) -
                                        static_cast<std::int64_t>(r.devices[l.device].fee_bytes));
  }

  std::optional<double> run() {
    go_on(0, 0);
    return best_;
  }

 private:
  bool may(std::uint32_t p, std::uint32_t d) const {
    bool pinned = false;
    for (const auto& pin : of_.pins) {
      if (pin.part != p) continue;
      if (pin.device != d) return false;
      pinned = true;
    }
    for (const auto& k : of_.exclusions)
      if (k.device == d && k.part.value_or(p) == p) return false;
    return pinned || of_.devices[d].rank <= rank_;
  }

  bool keeps_to_pools() const {
    for (const placement::pool& pool : of_.pools) {
      std::uint64_t held = 0, reserve = 0;
      for (std::uint32_t d : pool.devices) {
        std::set<std::int32_t> shared;
        bool used = false;
        for (std::uint32_t p = 0; p < of_.parts.size(); ++p) {
          if (where_[p] != d) continue;
          used = true;
          held += placement::own_bytes(of_, p);
          if (of_.parts[p].shared >= 0 && shared.insert(of_.parts[p].shared).second)
            held += placement::shared_bytes(of_, p);
        }
        if (used) held += of_.devices[d].fee_bytes;
        reserve = std::max(reserve, of_.devices[d].reserve_bytes);
      }
      if (held + reserve > pool.budget_bytes) return false;
    }
    return true;
  }

  void go_on(std::uint32_t p, double spent) {
    if (best_ && spent >= *best_) return;
    if (p == of_.parts.size()) {
      if (keeps_to_pools()) best_ = spent;
      return;
    }
    for (std::uint32_t d = 0; d < of_.devices.size(); ++d) {
      if (!may(p, d)) continue;
      auto bytes = static_cast<std::int64_t>(placement::own_bytes(of_, p));
      bool held = false;
      for (std::uint32_t q = 0; q < p; ++q)
        held |= where_[q] == d && of_.parts[q].shared >= 0 &&
                of_.parts[q].shared == of_.parts[p].shared;
      if (!held) bytes += static_cast<std::int64_t>(placement::shared_bytes(of_, p));
      if (room_[d] < bytes) continue;
      double s = of_.seconds_of(p, d);
      if (p > 0 && where_[p - 1] != d && !of_.parts[p].begins)
        s += placement::link_of(of_, where_[p - 1], d).seconds(of_.activation_bytes);
      room_[d] -= bytes;
      where_.push_back(d);
      go_on(p + 1, spent + s);
      where_.pop_back();
      room_[d] += bytes;
    }
  }

  const request& of_;
  std::uint32_t rank_;
  std::vector<std::int64_t> room_;
  placed where_;
  std::optional<double> best_;
};

}  // namespace

std::optional<double> least_token_s(const request& r, std::uint32_t rank) {
  return exhausting(r, rank).run();
}

}  // namespace terrane::policies::tests

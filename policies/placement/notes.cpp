#include "policies/placement/notes.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "policies/vocabulary/quantity.hpp"

namespace terrane::policies::placement {

std::string milliseconds(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g ms", seconds * 1e3);
  return text.data();
}

namespace {

std::string count(std::uint32_t parts) {
  return std::to_string(parts) + (parts == 1 ? " part" : " parts");
}

class noting {
 public:
  noting(const request& r, const prediction& predicted)
      : of_(r), predicted_(predicted), room_(room_bytes(r)), whole_(r.devices.size(), 0) {
    std::vector<std::uint32_t> of_work(r.seconds.size() / r.speeds, 0);
    for (std::uint32_t p = 0; p < r.parts.size(); ++p) {
      of_work[r.parts[p].work]++;
      least_ = std::min(least_, own_bytes(r, p) + shared_bytes(r, p));
    }
    for (std::size_t d = 0; d < whole_.size(); ++d)
      for (std::size_t w = 0; w < of_work.size(); ++w)
        whole_[d] += of_work[w] * r.seconds[w * r.speeds + r.devices[d].speed];
    find_fastest();
  }

  device_note note(std::uint32_t d) const {
    return predicted_.devices[d].parts != 0 ? device_note{true, why_used(d)}
                                            : device_note{false, why_not(d)};
  }

 private:
  // Of the devices that hold parts.
  void find_fastest() {
    for (std::uint32_t d = 0; d < whole_.size(); ++d) {
      if (predicted_.devices[d].parts == 0) continue;
      used_.push_back(d);
    }
    std::stable_sort(used_.begin(), used_.end(), [&](std::uint32_t a, std::uint32_t b) {
      const auto rank = [&](std::uint32_t d) { return of_.devices[d].rank; };
      return rank(a) != rank(b) ? rank(a) < rank(b) : whole_[a] < whole_[b];
    });
  }

  bool is_pinned_there(std::uint32_t d) const {
    return std::any_of(of_.pins.begin(), of_.pins.end(),
                       [&](const pin& p) { return p.device == d; });
  }

  std::string why_used(std::uint32_t d) const {
    const device_share& share = predicted_.devices[d];
    std::string text = "holds " + count(share.parts) + ", " +
                       format_bytes(share.weight_bytes + share.kv_bytes + share.fee_bytes) + ": ";
    if (d == used_.front()) {
      text += used_.size() == 1 ? "all of the model, " : "the fastest, ";
      return text + "a token takes " + milliseconds(share.seconds) + " here";
    }
    const auto before = std::find(used_.begin(), used_.end(), d) - 1;
    const std::string& faster = of_.devices[*before].name;
    const device_share& full = predicted_.devices[*before];
    if (full.room_bytes < least_ || share.weight_bytes + share.kv_bytes > full.room_bytes)
      return text + faster + " has room for " + format_bytes(full.room_bytes) + " more, the " +
             count(share.parts) + " here need " + format_bytes(share.weight_bytes + share.kv_bytes);
    if (is_pinned_there(d)) return text + "parts are pinned to it";
    return text + "its parts are faster here than on " + faster + ", with the way there and back";
  }

  // Of a pool whose memory another device took.
  std::string taken_by_another(std::uint32_t d) const {
    for (const pool& p : of_.pools) {
      if (std::ranges::find(p.devices, d) == p.devices.end()) continue;
      const std::uint64_t most = most_bytes(of_, p), held = held_bytes(predicted_, p);
      if (held + of_.devices[d].fee_bytes + least_ <= most) return "";
      for (std::uint32_t other : p.devices)
        if (predicted_.devices[other].parts != 0)
          return "left out: it shares " + p.name + " with " + of_.devices[other].name +
                 ", which leaves no room for it";
    }
    return "";
  }

  std::string why_not(std::uint32_t d) const {
    const device_supply& device = of_.devices[d];
    if (!device.left_out.empty()) return "left out: " + device.left_out;
    for (const keep_off& k : of_.exclusions)
      if (k.device == d && !k.part)
        return "left out: everything is to keep off it" + (k.by.empty() ? "" : " (" + k.by + ")");
    if (room_[d] < least_)
      return "left out: after its reserve of " + format_bytes(device.reserve_bytes) +
             " and scratch of " + format_bytes(device.fee_bytes) + " it has room for " +
             format_bytes(room_[d]) + ", the smallest part needs " + format_bytes(least_);
    if (const std::string why = taken_by_another(d); !why.empty()) return why;
    if (used_.empty()) return "left out";
    if (device.rank > of_.devices[used_.back()].rank)
      return "not needed: it is to be filled after those that hold all";
    const std::uint32_t last = used_.back();
    if (whole_[d] > whole_[last])
      return "left out: it is slower than " + of_.devices[last].name + ", " +
             milliseconds(whole_[d]) + " a token with all of the model against " +
             milliseconds(whole_[last]);
    return "not needed: " + milliseconds(whole_[d]) +
           " a token with all of the model; with it the way between devices costs more than it "
           "gains";
  }

  const request& of_;
  const prediction& predicted_;
  std::vector<std::uint64_t> room_;
  std::vector<double> whole_;  // of a token with every part on the device
  std::vector<std::uint32_t> used_;
  std::uint64_t least_ = std::numeric_limits<std::uint64_t>::max();  // the smallest part
};

}  // namespace

std::vector<device_note> device_notes(const request& r, const prediction& predicted) {
  const noting n(r, predicted);
  std::vector<device_note> out;
  for (std::uint32_t d = 0; d < r.devices.size(); ++d) out.push_back(n.note(d));
  return out;
}

}  // namespace terrane::policies::placement

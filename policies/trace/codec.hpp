// Values as JSON and back, by the lists of fields.hpp. A double is written so that the same bits
// are read again. A reading is [value, age, period], its age before `now_ms`; null when absent. A
// map is a list of [key, value]. Pure; any thread.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include <tl/expected.hpp>

#include "policies/explain/json_writer.hpp"
#include "policies/trace/fields.hpp"
#include "policies/trace/json_value.hpp"
#include "policies/trace/versions.hpp"

namespace terrane::policies::trace {

// The last value of each word that is kept as a number: what lies beyond is damage.
constexpr device_kind last_of(device_kind) { return device_kind::other; }
constexpr part_kind last_of(part_kind) { return part_kind::head; }
constexpr subject_kind last_of(subject_kind) { return subject_kind::session_kv; }
constexpr move_outcome last_of(move_outcome) { return move_outcome::idle; }
constexpr verb last_of(verb) { return verb::yield; }
constexpr filter last_of(filter) { return filter::user_quota; }
constexpr latch_phase last_of(latch_phase) { return latch_phase::engaged; }

// The version that a file says it has; the error is a clause.
inline tl::expected<int, std::string> version_of(const json_value& said) {
  int number = 0;
  const char* const end = said.text.data() + said.text.size();
  const auto [stop, failed] = std::from_chars(said.text.data(), end, number);
  if (said.kind != json_kind::number || failed != std::errc() || stop != end || number < 1)
    return tl::unexpected("its version is no number of a version: " + said.text);
  if (number > version)
    return tl::unexpected("it has version " + said.text +
                          ", and this program knows versions up to " + std::to_string(version) +
                          "; read it with the terranectl that is as new as "
                          "what wrote it");
  return number;
}

class encoder {
 public:
  explicit encoder(std::int64_t now_ms) : now_ms_(now_ms) {}

  template <class T>
  std::string text_of(const T& x) {
    out_ = {};
    put(x);
    return out_.text();
  }

  template <class T>
  void operator()(std::string_view name, const T& x) {
    out_.key(name);
    put(x);
  }
  template <class T>
  void time(std::string_view name, const T& x) {
    (*this)(name, x);
  }
  template <class Field, class T>
  void later(const Field& field, const T& x) {
    (*this)(field.name, x);
  }

 private:
  void put(const std::string& s) { out_.value(s); }
  void put(bool b) { out_.value(b); }
  void put(double d) {
    // JSON has no word for these, and a sensor may say anything.
    if (std::isfinite(d)) {
      out_.value(d);
    } else {
      out_.value(std::isnan(d) ? "nan" : d > 0 ? "inf" : "-inf");
    }
  }
  template <std::integral T>
  void put(T n) {
    if constexpr (std::is_signed_v<T>) {
      out_.value(static_cast<std::int64_t>(n));
    } else {
      out_.value(static_cast<std::uint64_t>(n));
    }
  }
  template <class T>
  requires std::is_enum_v<T>
  void put(T e) { out_.value(static_cast<std::int64_t>(e)); }
  void put(const reading& r) {
    if (!r.present()) return void(out_.null());
    out_.begin_array();
    put(r.value);
    out_.value(now_ms_ - r.sampled_ms).value(static_cast<std::int64_t>(r.period_ms));
    out_.end_array();
  }
  template <class T>
  void put(const std::vector<T>& list) {
    out_.begin_array();
    for (const T& x : list) put(x);
    out_.end_array();
  }
  template <class T, std::size_t N>
  void put(const std::array<T, N>& list) {
    out_.begin_array();
    for (const T& x : list) put(x);
    out_.end_array();
  }
  template <class K, class T>
  void put(const std::map<K, T>& map) {
    out_.begin_array();
    for (const auto& [key, x] : map) {
      out_.begin_array();
      put(key);
      put(x);
      out_.end_array();
    }
    out_.end_array();
  }
  template <class T>
  requires requires(encoder& e, const T& x) { fields(e, x); }
  void put(const T& x) {
    out_.begin_object();
    fields(*this, x);
    out_.end_object();
  }

  std::int64_t now_ms_;
  json_writer out_;
};

// Reads into values that are there. What is not as it should be is told once, by the field's name;
// the value is then of no use.
class decoder {
 public:
  // `written`: the version of what is read.
  explicit decoder(std::int64_t now_ms, int written = version)
      : now_ms_(now_ms), written_(written) {}

  const std::string& fault() const { return fault_; }

  template <class T>
  void read(const json_value& from, T& to) {
    at_ = &from;
    get(from, to);
  }

  template <class T>
  void operator()(std::string_view name, T& x) {
    const json_value* object = at_;
    const json_value* value = object->find(name);
    if (value == nullptr) return wrong("'" + std::string(name) + "' is missing");
    name_ = name;
    get(*value, x);
    at_ = object;
  }
  template <class T>
  void time(std::string_view name, T& x) {
    (*this)(name, x);
  }
  template <class Field, class T>
  void later(const Field& field, T& x) {
    if (written_ >= field.since) return (*this)(field.name, x);
    x = field.otherwise;
  }

 private:
  void wrong(std::string what) {
    if (fault_.empty()) fault_ = std::move(what);
  }
  bool expect(const json_value& v, json_kind kind) {
    if (v.kind == kind) return true;
    wrong("'" + std::string(name_) + "' has another form than expected");
    return false;
  }
  template <class T>
  void number(const json_value& v, T& to) {
    if (!expect(v, json_kind::number)) return;
    const char* const end = v.text.data() + v.text.size();
    const auto [stop, failed] = std::from_chars(v.text.data(), end, to);
    if (failed != std::errc() || stop != end) {
      wrong("'" + std::string(name_) + "' is no number that fits: " + v.text);
    }
  }

  void get(const json_value& v, std::string& to) {
    if (expect(v, json_kind::text)) to = v.text;
  }
  void get(const json_value& v, bool& to) {
    if (expect(v, json_kind::boolean)) to = v.text == "true";
  }
  void get(const json_value& v, double& to) {
    if (v.kind != json_kind::text) return number(v, to);
    to = v.text == "nan"   ? std::numeric_limits<double>::quiet_NaN()
         : v.text == "inf" ? std::numeric_limits<double>::infinity()
                           : -std::numeric_limits<double>::infinity();
  }
  template <std::integral T>
  void get(const json_value& v, T& to) {
    number(v, to);
  }
  template <class T>
  requires std::is_enum_v<T>
  void get(const json_value& v, T& to) {
    std::uint8_t value = 0;
    number(v, value);
    if (value > static_cast<std::uint8_t>(last_of(T{}))) {
      return wrong("'" + std::string(name_) + "' has no value " + v.text);
    }
    to = static_cast<T>(value);
  }
  void get(const json_value& v, reading& to) {
    to = {};
    if (v.kind == json_kind::null) return;
    if (!expect(v, json_kind::list)) return;
    if (v.items.size() != 3) return wrong("'" + std::string(name_) + "' is no reading");
    std::int64_t age = 0;
    get(v.items[0], to.value);
    get(v.items[1], age);
    get(v.items[2], to.period_ms);
    to.sampled_ms = now_ms_ - age;
  }
  template <class T>
  void get(const json_value& v, std::vector<T>& to) {
    to.clear();
    if (!expect(v, json_kind::list)) return;
    for (const json_value& item : v.items) get(item, to.emplace_back());
  }
  template <class T, std::size_t N>
  void get(const json_value& v, std::array<T, N>& to) {
    if (!expect(v, json_kind::list)) return;
    if (v.items.size() != N) return wrong("'" + std::string(name_) + "' has another length");
    for (std::size_t i = 0; i < N; ++i) get(v.items[i], to[i]);
  }
  template <class K, class T>
  void get(const json_value& v, std::map<K, T>& to) {
    to.clear();
    if (!expect(v, json_kind::list)) return;
    for (const json_value& item : v.items) {
      if (!expect(item, json_kind::list)) return;
      if (item.items.size() != 2) return wrong("'" + std::string(name_) + "' has no pairs");
      K key{};
      get(item.items[0], key);
      get(item.items[1], to[std::move(key)]);
    }
  }
  template <class T>
  requires requires(decoder& d, T& x) { fields(d, x); }
  void get(const json_value& v, T& to) {
    if (!expect(v, json_kind::object)) return;
    at_ = &v;
    fields(*this, to);
  }

  std::int64_t now_ms_;
  int written_;
  const json_value* at_ = nullptr;
  std::string_view name_ = "it";
  std::string fault_;
};

}  // namespace terrane::policies::trace

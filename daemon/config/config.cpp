#include "daemon/config/config.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>

#include <sys/un.h>

#include "policies/vocabulary/nearest.hpp"
#include "policies/vocabulary/quantity.hpp"
#include "policies/yaml/map_reader.hpp"

namespace terrane::daemon {

namespace {

using policies::source_location;
using policies::yaml::map_reader;
using policies::yaml::node;
using policies::yaml::node_kind;

class config_reader {
 public:
  config_reader(const node& root, diagnostics& faults)
      : faults_(faults), root_(root, "the configuration", faults) {}

  config read() {
    if (!root_.usable()) return out_;
    if (auto version = root_.text("apiVersion"); version && *version != "terrane/v1")
      root_.fault(place_of(root_, "apiVersion"),
                  "apiVersion is '" + *version + "', expected 'terrane/v1'");
    if (const node* n = root_.required_key("model", "the model: {file: PATH}")) read_model(*n);
    if (const node* n = root_.optional_key("devices")) read_devices(*n);
    if (out_.devices.empty()) out_.devices.push_back({"cpu", 0, 0, 0, 0});
    read_start_on();
    read_promotion();
    read_texts(root_, "pinned", [&](std::string v) { out_.pinned.push_back(std::move(v)); });
    read_texts(root_, "policies", [&](std::string v) { out_.policies.emplace_back(std::move(v)); });
    if (const node* n = root_.optional_key("limits")) read_limits(*n);
    if (const node* n = root_.optional_key("telemetry")) read_telemetry(*n);
    if (const node* n = root_.optional_key("record")) read_record(*n);
    if (const node* n = root_.optional_key("control")) read_control(*n);
    if (const node* n = root_.optional_key("replies")) read_replies(*n);
    if (auto v = filled(root_, "cache")) out_.cache_folder = *v;
    if (auto v = filled(root_, "state")) out_.state_folder = *v;
    if (auto v = root_.text("tune")) read_tune(*v);
    root_.finish();
    return out_;
  }

 private:
  // Where the value of a key that is there stands.
  static source_location place_of(map_reader& r, std::string_view key) {
    const node* value = r.optional_key(key);
    return value == nullptr ? r.where() : value->where;
  }

  // A text with something in it: one that is empty by accident must not pass for one that is left
  // out.
  static std::optional<std::string> filled(map_reader& r, std::string_view key) {
    std::optional<std::string> v = r.text(key);
    if (!v || !v->empty()) return v;
    r.fault(place_of(r, key),
            "'" + std::string(key) + "' is empty; give it a value, or leave the key out");
    return std::nullopt;
  }

  // One of the devices above, or a word.
  void read_start_on() {
    const auto v = filled(root_, "start_on");
    if (!v) return;
    out_.start_on = *v;
    if (*v == automatic_start) return;
    // Who lists a kind alone may well begin on the very device that it comes to be.
    const auto names = [&](const device_config& d) {
      return names_device(*v, d.name) || names_device(d.name, *v);
    };
    if (std::ranges::any_of(out_.devices, names)) return;
    std::string possible;
    std::vector<std::string_view> known;
    for (const device_config& d : out_.devices) {
      known.push_back(d.name);
      possible += d.name + ", ";
    }
    known.push_back(automatic_start);
    const std::string_view near = policies::nearest_name(*v, known);
    root_.fault(place_of(root_, "start_on"),
                "start_on: '" + *v +
                    "' is not one of the devices that the configuration lists; possible: " +
                    possible + std::string(automatic_start) +
                    (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?"));
  }

  // On by default where the planner puts parts: who names a device means that one.
  void read_promotion() {
    const bool placed = out_.start_on == automatic_start;
    out_.promotes = placed;
    const node* given = root_.optional_key("promote");
    if (given == nullptr) return;
    read_truth(root_, "promote", out_.promotes);
    if (out_.promotes && !placed)
      root_.fault(
          given->where,
          "'promote: true' goes with 'start_on: automatic': it asks the same planner again");
  }

  void read_tune(const std::string& value) {
    if (value != "first_use" && value != "off")
      root_.fault(place_of(root_, "tune"), "'tune' is '" + value + "', expected first_use or off");
    out_.tune_at_first_use = value == "first_use";
  }

  void read_model(const node& n) {
    map_reader r(n, "'model'", faults_);
    if (!r.usable()) return;
    if (const node* file = r.required_key("file", "the path of a GGUF file"); file != nullptr) {
      if (auto v = filled(r, "file")) out_.model_file = *v;
    }
    read_integer(r, "context", 1, 1 << 24, out_.context_tokens);
    read_integer(r, "sessions", 1, 1024, out_.sessions);
    read_integer(r, "rows", 8, 4096, out_.rows);
    if (out_.rows % 8 != 0)
      r.fault(place_of(r, "rows"),
              "'rows' is " + std::to_string(out_.rows) + ", expected a multiple of 8");
    read_truth(r, "check_numbers", out_.check_numbers);
    r.finish();
  }

  void read_devices(const node& n) {
    if (n.kind != node_kind::list)
      return root_.fault(n.where, "'devices' is not a list of devices");
    for (const node& item : n.items) {
      map_reader r(item, "a device", faults_);
      if (!r.usable()) continue;
      device_config d;
      if (r.required_key("name", "a device's name, such as cpu or vulkan") != nullptr)
        d.name = device_name(r);
      std::uint32_t threads = 0;
      read_integer(r, "threads", 0, 4096, threads);
      d.threads = threads;
      d.budget_bytes = read_bytes(r, "budget");
      d.reserve_bytes = read_bytes(r, "reserve");
      if (d.budget_bytes != 0 && d.reserve_bytes >= d.budget_bytes)
        r.fault(place_of(r, "reserve"),
                "'reserve' is " + policies::format_bytes(static_cast<double>(d.reserve_bytes)) +
                    " of a 'budget' of " +
                    policies::format_bytes(static_cast<double>(d.budget_bytes)) +
                    ", so no policy and no placement could put anything there; make one of them "
                    "fit, or leave the device out");
      read_integer(r, "rank", 0, 100, d.rank);
      for (const device_config& other : out_.devices)
        if (other.name == d.name)
          r.fault(place_of(r, "name"), "device '" + d.name + "' stands here twice");
      r.finish();
      out_.devices.push_back(std::move(d));
    }
  }

  // A name that no driver can offer is a slip of the pen, and told before anything is started.
  static std::string device_name(map_reader& r) {
    static constexpr std::array<std::string_view, 3> kinds = {"cpu", "vulkan", "cuda"};
    const std::string name = r.text("name").value_or("");
    const std::string_view kind = std::string_view(name).substr(0, name.find(':'));
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
      r.fault(place_of(r, "name"), "there is no kind of device '" + std::string(kind) + "'" +
                                       policies::name_hint(kind, kinds));
    return name;
  }

  void read_limits(const node& n) {
    map_reader r(n, "'limits'", faults_);
    if (!r.usable()) return;
    if (const node* link = r.optional_key("link")) {
      map_reader l(*link, "'limits.link'", faults_);
      if (!l.usable()) return;
      if (l.required_key("bytes", "what may go along one way, such as 8GiB") != nullptr)
        out_.limits.link_bytes = read_bytes(l, "bytes");
      if (l.required_key("per", "the time for that, such as 1m") != nullptr)
        out_.limits.link_per_ms = l.duration_ms("per").value_or(0);
      l.finish();
    }
    out_.limits.in_flight_bytes = read_bytes(r, "in_flight");
    r.finish();
  }

  void read_telemetry(const node& n) {
    map_reader r(n, "'telemetry'", faults_);
    if (!r.usable()) return;
    if (auto v = r.duration_ms("period")) {
      if (*v < 10 || *v > 600'000)
        r.fault(place_of(r, "period"), "'period' is not between 10ms and 10m");
      out_.period_ms = *v;
    }
    if (auto v = filled(r, "readings_file")) out_.readings_file = *v;
    r.finish();
  }

  void read_record(const node& n) {
    map_reader r(n, "'record'", faults_);
    if (!r.usable()) return;
    if (r.required_key("directory", "where the files go") != nullptr)
      if (auto v = filled(r, "directory")) out_.record.folder = *v;
    constexpr double least_bytes = 64 << 10, most_bytes = 1 << 30;
    if (auto v = r.quantity("file_size", policies::unit::bytes)) {
      if (*v < least_bytes || *v > most_bytes)
        r.fault(place_of(r, "file_size"), "'file_size' is not between 64KiB and 1GiB");
      else
        out_.record.file_bytes = static_cast<std::uint64_t>(*v);
    }
    read_integer(r, "files", 1, 10'000, out_.record.files);
    r.finish();
  }

  void read_control(const node& n) {
    map_reader r(n, "'control'", faults_);
    if (!r.usable()) return;
    if (auto v = filled(r, "socket")) {
      constexpr std::size_t most = sizeof(sockaddr_un::sun_path) - 1;
      if (v->size() > most)
        r.fault(place_of(r, "socket"), "'socket' is a path of " + std::to_string(v->size()) +
                                           " bytes, and that of a Unix socket has at most " +
                                           std::to_string(most) + "; name a shorter one");
      out_.socket = *v;
    }
    if (auto v = r.text("operate_group")) out_.operate_group = *v;
    if (auto v = r.text("admin_group")) out_.admin_group = *v;
    r.finish();
  }

  void read_replies(const node& n) {
    map_reader r(n, "'replies'", faults_);
    if (!r.usable()) return;
    read_integer(r, "max_tokens", 1, 1 << 24, out_.max_tokens);
    read_real(r, "temperature", out_.sampling.temperature);
    read_integer(r, "top_k", 0, 1 << 24, out_.sampling.top_k);
    read_real(r, "top_p", out_.sampling.top_p);
    read_real(r, "min_p", out_.sampling.min_p);
    read_real(r, "repetition_penalty", out_.sampling.repetition_penalty);
    read_integer(r, "repetition_window", 0, 1 << 24, out_.sampling.repetition_window);
    read_truth(r, "hash_logits", out_.hash_logits);
    if (auto ok = engine::validate(out_.sampling); !ok) r.fault(r.where(), ok.error().message);
    r.finish();
  }

  static void read_truth(map_reader& r, std::string_view key, bool& to) {
    const auto v = r.text(key);
    if (!v) return;
    if (*v != "true" && *v != "false")
      r.fault(place_of(r, key),
              "'" + std::string(key) + "' is '" + *v + "', expected true or false");
    to = *v == "true";
  }

  static void read_integer(map_reader& r, std::string_view key, std::int64_t least,
                           std::int64_t most, std::uint32_t& to) {
    if (auto v = r.integer(key, least, most)) to = static_cast<std::uint32_t>(*v);
  }

  static void read_real(map_reader& r, std::string_view key, float& to) {
    auto text = r.text(key);
    if (!text) return;
    const char* const end = text->data() + text->size();
    float value = 0;
    const auto [stop, failed] = std::from_chars(text->data(), end, value);
    if (failed == std::errc() && stop == end && std::isfinite(value)) {
      to = value;
      return;
    }
    r.fault(place_of(r, key), "'" + std::string(key) + "' is '" + *text + "', expected a number");
  }

  static std::uint64_t read_bytes(map_reader& r, std::string_view key) {
    return static_cast<std::uint64_t>(r.quantity(key, policies::unit::bytes).value_or(0));
  }

  template <class F>
  void read_texts(map_reader& r, std::string_view key, F take) {
    const node* n = r.optional_key(key);
    if (n == nullptr) return;
    const std::string name = "'" + std::string(key) + "'";
    const auto take_one = [&](const node& item) {
      if (item.kind != node_kind::scalar)
        r.fault(item.where, "an item of " + name + " is not a text");
      else if (item.text.empty())
        r.fault(item.where, "an item of " + name + " is empty");
      else
        take(item.text);
    };
    if (n->kind == node_kind::scalar) return take_one(*n);
    if (n->kind != node_kind::list) return r.fault(n->where, name + " is not a list of texts");
    for (const node& item : n->items) take_one(item);
  }

  diagnostics& faults_;
  map_reader root_;
  config out_;
};

bool has_error(const diagnostics& faults) {
  for (const auto& f : faults)
    if (f.level == policies::severity::error) return true;
  return false;
}

}  // namespace

bool names_device(std::string_view word, std::string_view name) {
  return name == word || name.substr(0, name.find(':')) == word;
}

tl::expected<config, diagnostics> parse_config(const std::string& name, const std::string& text) {
  policies::result<node> root = policies::yaml::parse_document(name, text);
  if (!root) return tl::unexpected<diagnostics>(diagnostics(1, root.error()));
  diagnostics faults;
  config c = config_reader(*root, faults).read();
  if (has_error(faults)) return tl::unexpected<diagnostics>(std::move(faults));
  return c;
}

tl::expected<config, diagnostics> load_config(const std::filesystem::path& path) {
  constexpr std::size_t most_bytes = 1U << 20;
  std::ifstream in(path, std::ios::binary);
  std::string text(most_bytes + 1, '\0');
  // A folder can be opened, and fails here.
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  policies::diagnostic fault;
  fault.where.file = path.string();
  if (!in.is_open() || in.bad()) {
    fault.message = "cannot be read; name the file with --config";
    return tl::unexpected<diagnostics>(diagnostics(1, fault));
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > most_bytes) {
    fault.message = "is larger than a mebibyte; that is no configuration";
    return tl::unexpected<diagnostics>(diagnostics(1, fault));
  }
  return parse_config(path.string(), text);
}

}  // namespace terrane::daemon

#include "tests/policies/scenario.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "policies/explain/explain.hpp"
#include "policies/pipeline/evaluate.hpp"
#include "policies/yaml/map_reader.hpp"
#include "tests/policies/machine.hpp"

namespace terrane::policies::tests {
namespace {

constexpr std::int64_t tick_ms = 1000;

using yaml::map_reader;
using yaml::node;

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error(file.string() + " cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> texts(const node* list) {
  std::vector<std::string> all;
  if (list == nullptr) return all;
  if (list->kind == yaml::node_kind::scalar) return {list->text};
  for (const node& item : list->items) all.push_back(item.text);
  return all;
}

std::string as_text(const planned_move& m) {
  std::string text;
  for (const word<verb>& w : verbs()) {
    if (w.value == m.action) text = std::string(w.name);
  }
  text += " " + m.subject + " from " + m.from + " to " + (m.to.empty() ? "its parts" : m.to);
  if (m.keep_tokens > 0) text += " keeping " + std::to_string(m.keep_tokens);
  return text;
}

std::string lines(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& one : list) text += "    " + one + "\n";
  return text.empty() ? "    nothing\n" : text;
}

class scenario {
 public:
  scenario(std::filesystem::path file, std::filesystem::path root)
      : file_(std::move(file)), root_(std::move(root)) {}

  std::vector<std::string> run() {
    const std::string text = read_text(file_);
    const auto parsed = yaml::parse_document(file_.filename().string(), text);
    if (!parsed) return {to_string(parsed.error())};
    map_reader top(*parsed, "a scenario", faults_);
    top.required_key("scenario", "what it shows");
    load_policies(top);
    if (const node* m = top.required_key("machine", "devices, layers, sessions")) build(*m);
    const node* trace = top.required_key("trace", "a list of steps");
    top.finish();
    if (trace != nullptr && problems_.empty() && faults_.empty()) {
      for (const node& step : trace->items) run_step(step);
    }
    for (const diagnostic& d : faults_) problems_.push_back(to_string(d));
    return problems_;
  }

 private:
  void load_policies(map_reader& top);
  void build(const node& value);
  void build_device(const node& value);
  void build_layers(const node& value);
  void build_session(const node& value);
  void run_step(const node& value);
  void change(const node& changes);
  void change_device(map_reader& map, machine_device& d);
  void tick();
  void compare(const map_reader& step, const std::string& what, std::vector<std::string> expected,
               std::vector<std::string> actual);
  void check_texts(map_reader& step);
  double bytes(map_reader& map, std::string_view key) {
    return map.quantity(key, unit::bytes).value_or(0);
  }

  std::filesystem::path file_;
  std::filesystem::path root_;
  std::vector<diagnostic> faults_;
  std::vector<std::string> problems_;
  machine machine_;
  policy_set_ptr policies_;
  pipeline_state state_;
  journal past_;
  std::int64_t now_ms_ = -tick_ms;
  const snapshot* seen_ = nullptr;
  std::vector<std::string> moves_;
  std::vector<std::string> shadow_;
  std::string explained_;
};

void scenario::load_policies(map_reader& top) {
  std::vector<policy_source> sources;
  if (const auto text = top.text("yaml")) sources.push_back({"scenario.yaml", *text});
  if (const auto text = top.text("lua")) sources.push_back({"scenario.lua", *text});
  for (const std::string& name : texts(top.optional_key("files"))) {
    sources.push_back({name, read_text(root_ / name)});
  }
  auto set = policy_set::from_sources(sources);
  if (set) {
    policies_ = *set;
    return;
  }
  for (const diagnostic& d : set.error()) problems_.push_back(to_string(d));
}

void scenario::build(const node& value) {
  map_reader map(value, "the machine", faults_);
  if (const node* list = map.required_key("devices", "a list")) {
    for (const node& d : list->items) build_device(d);
  }
  if (const node* l = map.optional_key("layers")) {
    const std::vector<node> one = {*l};
    for (const node& layers : l->kind == yaml::node_kind::list ? l->items : one) {
      build_layers(layers);
    }
  }
  if (const node* list = map.optional_key("sessions")) {
    for (const node& s : list->items) build_session(s);
  }
  for (const std::string& name : texts(map.optional_key("pinned"))) {
    machine_.part(name).pinned = true;
  }
  for (const std::string& name : texts(map.optional_key("broken"))) {
    machine_.broken_targets.insert(name);
  }
  machine_.move_ms = map.duration_ms("moves_take").value_or(machine_.move_ms);
  if (const auto total = map.quantity("memory", unit::bytes)) {
    machine_.host.memory_total = {*total, 0};
    machine_.host.memory_available = {*total, 0};
  }
  map.finish();
}

void scenario::build_device(const node& value) {
  map_reader map(value, "a device", faults_);
  machine_device& d =
      machine_.add_device(map.text("name").value_or(""), bytes(map, "total"), bytes(map, "others"));
  if (const auto reserved = map.quantity("reserved", unit::bytes)) {
    d.state.vram_reserved = {*reserved, 0, 1'000'000'000};
  }
  change_device(map, d);
}

void scenario::change_device(map_reader& map, machine_device& d) {
  if (const auto others = map.quantity("others", unit::bytes)) d.others = *others;
  if (const auto t = map.quantity("temp", unit::celsius)) d.state.temp_c = {*t, now_ms_};
  map.finish();
}

void scenario::build_layers(const node& value) {
  map_reader map(value, "layers", faults_);
  const int count = static_cast<int>(map.integer("count", 1, 1000).value_or(1));
  machine_.add_layers(count, bytes(map, "attn"), bytes(map, "ffn"), map.text("on").value_or(""),
                      bytes(map, "kv"));
  map.finish();
}

void scenario::build_session(const node& value) {
  map_reader map(value, "a session", faults_);
  const auto tokens = static_cast<std::uint64_t>(map.integer("tokens", 0, 1 << 30).value_or(0));
  const std::string id = map.text("id").value_or("");
  machine_.add_session(id, tokens, bytes(map, "kv"), map.text("on").value_or(""));
  machine_.session(id).idle_s = map.quantity("idle", unit::seconds).value_or(0);
  map.finish();
}

void scenario::change(const node& changes) {
  for (const auto& [name, value] : changes.entries) {
    map_reader map(value, "'" + name.text + "'", faults_);
    const auto is_device = [&](const device_state& d) { return d.name == name.text; };
    if (name.text == "host") {
      if (const auto free = map.quantity("available", unit::bytes)) {
        machine_.host.memory_available = {*free, now_ms_};
      }
      map.finish();
    } else if (std::ranges::any_of(seen_->devices, is_device)) {
      change_device(map, machine_.device(name.text));
    } else if (find_session(*seen_, name.text) != nullptr) {
      session_state& s = machine_.session(name.text);
      s.idle_s = map.quantity("idle", unit::seconds).value_or(s.idle_s);
      s.context_tokens = static_cast<std::uint64_t>(
          map.integer("tokens", 0, 1 << 30).value_or(static_cast<int>(s.context_tokens)));
      map.finish();
    } else {
      part_state& p = machine_.part(name.text);
      p.device = map.text("device").value_or(p.device);
      if (const auto pinned = map.text("pinned")) p.pinned = *pinned == "true";
      map.finish();
    }
  }
}

void scenario::tick() {
  seen_ = &machine_.at(now_ms_);
  const decision d = evaluate(*policies_, *seen_, state_);
  past_.add(d);
  machine_.carry_out(d.planned, now_ms_);
  for (const planned_move& m : d.planned.moves) moves_.push_back(as_text(m));
  for (const planned_move& m : d.planned.shadow) shadow_.push_back(as_text(m));
  for (const decision_record& r : d.records) explained_ += explain_text(r);
}

void scenario::run_step(const node& value) {
  map_reader step(value, "a step", faults_);
  step.required_key("at", "a time such as 5s");
  const std::int64_t at = step.duration_ms("at").value_or(0);
  moves_.clear();
  shadow_.clear();
  explained_.clear();
  if (seen_ == nullptr) seen_ = &machine_.at(now_ms_);
  while (now_ms_ + tick_ms < at) {
    now_ms_ += tick_ms;
    tick();
  }
  now_ms_ = at;
  if (const node* changes = step.optional_key("set")) change(*changes);
  const auto each_sensor = [&](std::string_view key, auto f) {
    for (const std::string& sensor : texts(step.optional_key(key))) {
      const std::size_t dot = sensor.rfind('.');
      f(sensor.substr(0, dot), sensor.substr(dot + 1));
    }
  };
  each_sensor("stop", [&](const auto& d, const auto& s) { machine_.stop_sensor(d, s); });
  each_sensor("resume", [&](const auto& d, const auto& s) { machine_.resume_sensor(d, s); });
  tick();
  compare(step, "planned", texts(step.optional_key("expect")), moves_);
  compare(step, "planned in shadow mode", texts(step.optional_key("shadow")), shadow_);
  check_texts(step);
  step.finish();
}

void scenario::compare(const map_reader& step, const std::string& what,
                       std::vector<std::string> expected, std::vector<std::string> actual) {
  if (expected == actual) return;
  problems_.push_back(to_string(step.where()) + ": up to " + std::to_string(now_ms_ / 1000) +
                      " s there should be " + what + "\n" + lines(expected) + "  and was\n" +
                      lines(actual) + "  because\n" + explained_);
}

void scenario::check_texts(map_reader& step) {
  for (const std::string& part : texts(step.optional_key("says"))) {
    if (explained_.find(part) != std::string::npos) continue;
    problems_.push_back(to_string(step.where()) + ": no decision says '" + part + "'; they say\n" +
                        explained_);
  }
  const node* why = step.optional_key("why");
  if (why == nullptr) return;
  for (const auto& [subject, part] : why->entries) {
    const std::string text = why_text(subject.text, *policies_, *seen_, state_, past_);
    if (text.find(part.text) != std::string::npos) continue;
    problems_.push_back(to_string(step.where()) + ": why " + subject.text + " does not say '" +
                        part.text + "' but\n" + text);
  }
}

}  // namespace

std::vector<std::string> run_scenario(const std::filesystem::path& file,
                                      const std::filesystem::path& root) {
  try {
    return scenario(file, root).run();
  } catch (const std::exception& e) {
    return {e.what()};
  }
}

}  // namespace terrane::policies::tests

#include "policies/trace/trace.hpp"

#include "policies/explain/explain.hpp"
#include "policies/explain/json_writer.hpp"
#include "policies/trace/codec.hpp"

namespace terrane::policies::trace {
namespace {

void append_sources(json_writer& out, const policy_set& policies) {
  out.key("policies").begin_array();
  for (const policy_source& s : policies.sources()) {
    out.begin_object().field("name", s.name).field("text", s.text).end_object();
  }
  out.end_array();
}

// Writes only the sections of a snapshot that have changed.
class section_writer {
 public:
  section_writer(std::string& line, std::map<std::string, std::string, std::less<>>& last,
                 std::int64_t now_ms)
      : line_(line), last_(last), encoder_(now_ms) {}

  template <class T>
  void operator()(std::string_view name, const T& x) {
    std::string text = encoder_.text_of(x);
    std::string& before = last_[std::string(name)];
    if (before == text) return;
    line_ += ",\"" + std::string(name) + "\":" + text;
    before = std::move(text);
  }

 private:
  std::string& line_;
  std::map<std::string, std::string, std::less<>>& last_;
  encoder encoder_;
};

bool decides(const decision& d) {
  return !d.records.empty() || !d.planned.moves.empty() || !d.planned.shadow.empty();
}

}  // namespace

std::string writer::begin(const policy_set& policies, const pipeline_state& state,
                          std::int64_t unix_offset_ms) {
  last_.clear();
  revision_ = policies.revision();
  json_writer out;
  out.begin_object().field("terrane_trace", version).field("unix_offset_ms", unix_offset_ms);
  append_sources(out, policies);
  std::string line = out.text();
  line += ",\"state\":" + encoder(0).text_of(state) + "}\n";
  return line;
}

std::string writer::tick(const policy_set& policies, const snapshot& now, const decision& d) {
  std::string line;
  if (revision_ != policies.revision()) {
    revision_ = policies.revision();
    json_writer out;
    out.begin_object();
    append_sources(out, policies);
    out.end_object();
    line = out.text() + "\n";
  }
  line +=
      "{\"tick\":" + std::to_string(now.sequence) + ",\"time_ms\":" + std::to_string(now.time_ms);
  section_writer sections(line, last_, now.time_ms);
  fields(sections, now);
  if (decides(d)) line += ",\"decision\":" + plan_json(d);
  return line + "}\n";
}

namespace {

// Sessions have other numbers after a restart, and moves that were under way are not any more.
pipeline_state without_sessions(pipeline_state s) {
  const auto of_session = [](const auto& entry) {
    return entry.first.kind == subject_kind::session_kv;
  };
  std::erase_if(s.held, of_session);
  std::erase_if(s.flaps, of_session);
  std::erase_if(s.failures, [](const auto& entry) {
    return entry.first.first.kind == subject_kind::session_kv;
  });
  s.issued.clear();
  s.link_spent.clear();
  for (policy_memory& m : s.policies) {
    std::erase_if(m.latches, [](const object_latch& l) {
      return l.object.find_first_not_of("0123456789") == std::string::npos;
    });
    for (object_latch& l : m.latches) l.latch.unfinished_moves = 0;
  }
  return s;
}

// Moves all points in time by so much.
class shifter {
 public:
  explicit shifter(std::int64_t by_ms) : by_ms_(by_ms) {}

  template <class T>
  void operator()(std::string_view, T& x) {
    visit(x);
  }
  template <class Field, class T>
  void later(const Field& field, T& x) {
    (*this)(field.name, x);
  }
  void time(std::string_view, std::int64_t& t) {
    if (t != reading::never) t += by_ms_;
  }
  template <class List>
  void time(std::string_view name, List& list) {
    for (std::int64_t& t : list) time(name, t);
  }

 private:
  template <class T>
  void visit(T& x) {
    if constexpr (requires(shifter & s) { fields(s, x); }) fields(*this, x);
  }
  template <class T>
  void visit(std::vector<T>& list) {
    for (T& x : list) visit(x);
  }
  template <class K, class T>
  void visit(std::map<K, T>& map) {
    for (auto& [key, x] : map) visit(x);
  }

  std::int64_t by_ms_;
};

}  // namespace

std::string state_text(const pipeline_state& state, std::int64_t now_ms) {
  return "{\"terrane_state\":" + std::to_string(version) +
         ",\"clock_ms\":" + std::to_string(now_ms) +
         ",\"state\":" + encoder(0).text_of(without_sessions(state)) + "}\n";
}

tl::expected<pipeline_state, std::string> state_from_text(std::string_view text,
                                                          std::int64_t now_ms,
                                                          std::int64_t passed_ms) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const auto root = parse_json(text);
  if (!root) return tl::unexpected(root.error());
  const json_value* v = root->find("terrane_state");
  const json_value* clock = root->find("clock_ms");
  const json_value* body = root->find("state");
  if (v == nullptr || clock == nullptr || body == nullptr) {
    return tl::unexpected<std::string>("it is no state of policies");
  }
  const tl::expected<int, std::string> written = version_of(*v);
  if (!written) return tl::unexpected(written.error());
  pipeline_state state;
  std::int64_t then_ms = 0;
  decoder in(0, *written);
  in.read(*clock, then_ms);
  in.read(*body, state);
  if (!in.fault().empty()) return tl::unexpected(in.fault());
  shifter shift(now_ms - passed_ms - then_ms);
  fields(shift, state);
  return state;
}

}  // namespace terrane::policies::trace

#include "policies/explain/journal.hpp"

#include <algorithm>

namespace terrane::policies {
namespace {

// Subjects come and go with sessions; more of them than this are not remembered one by one.
constexpr std::size_t most_subjects = 4096;

using subject_memory = std::map<std::string, std::shared_ptr<const decision_record>>;

void remember(subject_memory& memory, const std::string& subject,
              const std::shared_ptr<const decision_record>& record) {
  memory[subject] = record;
  if (memory.size() <= most_subjects) return;
  const auto oldest =
      std::ranges::min_element(memory, {}, [](const auto& entry) { return entry.second->id; });
  memory.erase(oldest);
}

const decision_record* recall(const subject_memory& memory, const std::string& subject) {
  const auto at = memory.find(subject);
  return at == memory.end() ? nullptr : at->second.get();
}

}  // namespace

void journal::add(const decision& d) {
  for (const decision_record& r : d.records) {
    const auto record = std::make_shared<const decision_record>(r);
    records_.push_back(record);
    if (records_.size() > keep_) records_.pop_front();
    for (const candidate& c : r.candidates) {
      const bool moved = c.removed_by == filter::none && r.mode == rule_mode::enforce;
      remember(moved ? moved_ : refused_, c.subject, record);
    }
  }
}

const decision_record* journal::find(std::uint64_t id) const {
  const auto at = std::ranges::find(records_, id, [](const record_ptr& r) { return r->id; });
  return at == records_.end() ? nullptr : at->get();
}

std::vector<const decision_record*> journal::recent(std::size_t count) const {
  std::vector<const decision_record*> list;
  for (auto at = records_.rbegin(); at != records_.rend() && list.size() < count; ++at) {
    list.push_back(at->get());
  }
  return list;
}

const decision_record* journal::last_move_of(const std::string& subject) const {
  return recall(moved_, subject);
}

const decision_record* journal::last_refusal_of(const std::string& subject) const {
  return recall(refused_, subject);
}

}  // namespace terrane::policies

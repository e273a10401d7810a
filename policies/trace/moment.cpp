#include "policies/trace/moment.hpp"

#include "policies/trace/trace.hpp"

namespace terrane::policies::trace {

tl::expected<moment, no_moment> moment_of(std::istream& in, std::optional<std::uint64_t> number) {
  std::optional<moment> found;
  std::string revision;
  std::uint64_t first = 0, last = 0;
  const replay_report r = replay(in, nullptr,
                                 [&](const policy_set& set, const snapshot& seen,
                                     const pipeline_state& before, const decision&) {
                                   if (first == 0) first = seen.sequence;
                                   last = seen.sequence;
                                   if (number && seen.sequence != *number) return;
                                   if (!found) found.emplace();
                                   if (found->policies == nullptr || revision != set.revision()) {
                                     // The replay's own set ends with it; it was made of these.
                                     found->policies = *policy_set::as_recorded(set.sources());
                                     revision = set.revision();
                                   }
                                   found->seen = seen;
                                   found->before = before;
                                 });
  if (found && (number || !r.fault || r.fault->cut)) return std::move(*found);
  if (r.fault) {
    const std::string at = r.fault->line == 0 ? "" : "line " + std::to_string(r.fault->line) + ": ";
    return tl::unexpected(no_moment{at + r.fault->message, r.fault->cut && first == 0});
  }
  if (first == 0) return tl::unexpected(no_moment{"it holds no snapshot", true});
  return tl::unexpected(no_moment{"it has no snapshot " + std::to_string(*number) + "; it has " +
                                  std::to_string(first) + " to " + std::to_string(last)});
}

}  // namespace terrane::policies::trace

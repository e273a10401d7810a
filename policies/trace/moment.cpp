#include "policies/trace/moment.hpp"

#include "policies/trace/trace.hpp"

namespace terrane::policies::trace {

tl::expected<moment, std::string> moment_of(std::istream& in, std::optional<std::uint64_t> number) {
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
    return tl::unexpected(
        (r.fault->line == 0 ? "" : "line " + std::to_string(r.fault->line) + ": ") +
        r.fault->message);
  }
  if (first == 0) return tl::unexpected<std::string>("it holds no snapshot");
  return tl::unexpected("it has no snapshot " + std::to_string(*number) + "; it has " +
                        std::to_string(first) + " to " + std::to_string(last));
}

}  // namespace terrane::policies::trace

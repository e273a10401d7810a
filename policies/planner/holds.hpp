// Who keeps what away from home. A policy that moves something holds it for the object it judged;
// when its latch releases it lets go; a thing goes home once no policy holds it any more. A policy
// only ever restores what it moved itself, and what a person moved since is forgotten. These work
// on the state given; one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "policies/pipeline/state.hpp"
#include "policies/vocabulary/snapshot.hpp"

namespace terrane::policies {

// A policy other than `mine` that holds the subject and has not let go; null when there is none.
const hold* held_by_other(const pipeline_state& state, const subject_ref& subject,
                          const std::string& mine);

// Notes that a planned move takes its subject away; returns whether that is a new hold.
bool hold_away(pipeline_state& state, const planned_move& m, const std::string& object,
               const std::string& home);
// The policy engaged again: what it had let go of and still is away, it holds on.
void hold_on(pipeline_state& state, const std::string& policy, const std::string& object);
// The policy lets go; `only` limits it to one subject. Returns how many it let go of.
int let_go(pipeline_state& state, const std::string& policy, const std::string& object,
           const std::string& reason, const subject_ref* only = nullptr);
// The policy no longer cares for what it has not let go of; what no one else holds stays where it
// is. Returns how many.
int forget(pipeline_state& state, const std::string& policy, const std::string& object);

// A policy holds nothing any more; what it moved stays where it is.
void drop_holds(pipeline_state& state, const std::string& policy);

// Forgets what is gone, and what someone else moved since.
void reconcile(pipeline_state& state, const snapshot& now);

// Whether it is pinned for a while because it came home too often.
bool is_pinned_for_flapping(const snapshot& now, const pipeline_state& state,
                            const subject_ref& subject);

// Something that may go home when all who held it have let go.
struct homecoming {
  subject_ref subject;
  const holding* held = nullptr;
  const hold* released = nullptr;  // by the last that let go of it
  const hold* kept_by = nullptr;   // a policy that has not; null when it may go
};
// In the snapshot's order of parts, then sessions; only what at least one policy let go of.
std::vector<homecoming> homecomings(const pipeline_state& state, const snapshot& now);

}  // namespace terrane::policies

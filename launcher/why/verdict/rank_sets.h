#pragma once

#include "launcher/why/verdict/scene.h"

#include <map>

namespace ddprun::launcher::why {

// Of whom the rules of the verdict speak. Pure.

Ranks without(Ranks ranks, const Ranks& others);
Ranks common_to(const Ranks& ranks, const Ranks& others);

bool any_gets_on(const Scene& scene, const Ranks& ranks);
/// The same of ranks that are in collectives: one that has begun it asynchronously may compute.
bool any_computes(const Scene& scene, const Ranks& ranks);

Ranks ended_ranks(const Scene& scene);
bool have_ended_with_0(const Scene& scene, const Ranks& ended);

/// Those who wait for nobody, as far as one can see. Who waits for something else, perhaps in a group of which not all
/// tell, is not the first to blame: of messages and keys nobody knows from whom they are to come, and that may be one
/// who gets on.
Ranks idle_among(const Scene& scene, const Ranks& ranks);
/// Who spins in what it has begun: it may wait, and is not the first to blame.
Ranks spinning(const Scene& scene);
/// Who does not wait itself, and for whom those may wait, as far as one can see.
Ranks suspects(const Scene& scene, const Ranks& waiting);
/// Of these, who was not seen, or not well enough to say that it does not wait.
Ranks unknown_among(const Scene& scene, const Ranks& ranks);

struct Ends {
  Ranks waiting;
  Ranks roots;  ///< for whom others wait, and who waits for nobody
};
/// Of who waits for whom (Scene::waits_for).
Ends ends_of(const std::map<int, Ranks>& edges);

}  // namespace ddprun::launcher::why

#include "launcher/why/verdict/rank_sets.h"

#include <algorithm>

namespace ddprun::launcher::why {

Ranks without(Ranks ranks, const Ranks& others) {
  for (const int rank : others) ranks.erase(rank);
  return ranks;
}

Ranks common_to(const Ranks& ranks, const Ranks& others) { return without(ranks, without(ranks, others)); }

bool any_gets_on(const Scene& scene, const Ranks& ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](int rank) { return gets_on(scene.activity(rank).doing); });
}

bool any_computes(const Scene& scene, const Ranks& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
    const Doing doing = scene.activity(rank).doing;
    return gets_on(doing) && doing != Doing::kWaitsForGpu;
  });
}

Ranks ended_ranks(const Scene& scene) {
  return scene.ranks_that([](Doing doing) { return doing == Doing::kEnded; });
}

bool have_ended_with_0(const Scene& scene, const Ranks& ended) {
  return std::all_of(ended.begin(), ended.end(), [&](int rank) { return scene.facts(rank).ended_with_0; });
}

Ranks idle_among(const Scene& scene, const Ranks& ranks) {
  return without(ranks, scene.ranks_that(awaits_others));
}

Ranks spinning(const Scene& scene) {
  return scene.ranks_that(
      [](const Activity& activity) { return activity.is_in_open && activity.doing == Doing::kWaitsForGpu; });
}

Ranks suspects(const Scene& scene, const Ranks& waiting) {
  const Ranks all = scene.ranks_that([](Doing) { return true; });
  Ranks others = without(without(all, scene.waiting_or_spinning()), spinning(scene));
  others.merge(scene.unseen());
  return scene.may_be_awaited(others, waiting);
}

Ranks unknown_among(const Scene& scene, const Ranks& ranks) { return common_to(ranks, scene.unclear()); }

Ends ends_of(const std::map<int, Ranks>& edges) {
  Ends ends;
  for (const auto& [rank, late] : edges) {
    ends.waiting.insert(rank);
    ends.roots.insert(late.begin(), late.end());
  }
  ends.roots = without(ends.roots, ends.waiting);
  return ends;
}

}  // namespace ddprun::launcher::why

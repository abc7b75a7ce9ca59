// Of ranks that nothing recorded names: stacks and calls show who may be meant.
#include "launcher/why/verdict/rank_sets.h"
#include "launcher/why/verdict/rules.h"
#include "launcher/why/verdict/verdict_words.h"

#include <algorithm>

namespace ddprun::launcher::why {

std::optional<Accusation> accuse_suspects(const Scene& scene) {
  if (scene.has_progress()) return std::nullopt;
  const auto [behind, roots] = ends_of(scene.without_progress(scene.waits_for()));
  Ranks waiting = scene.waiting_or_spinning();
  waiting.insert(behind.begin(), behind.end());
  if (waiting.empty() || scene.is_usual(scene.waited_by(waiting))) return std::nullopt;
  const Ranks all = suspects(scene, waiting);
  const Ranks unknown = unknown_among(scene, all);
  Ranks known = without(all, unknown);
  if (!known.empty()) known.merge(scene.wait_for_any(roots));
  if (known.empty() && unknown.empty()) known = roots;
  // Nobody knows since when the others wait.
  if (known.empty() ||
      std::any_of(known.begin(), known.end(), [&](int rank) { return scene.was_just_in_one(rank); }))
    return std::nullopt;
  const Ranks living = without(known, ended_ranks(scene));
  const bool may_be_others = !without(scene.may_be_awaited(spinning(scene), waiting), known).empty();
  const bool is_guess = !unknown.empty() || may_be_others || (known.size() > 1 && !living.empty());
  const bool awaits_group =
      std::any_of(known.begin(), known.end(), [&](int rank) { return scene.activity(rank).awaits_group; });
  waiting = without(waiting, known);
  return Accusation{.health = any_gets_on(scene, living) ? Health::kLate : Health::kStuck,
                    .confidence = is_guess || awaits_group ? Confidence::kGuess : Confidence::kLikely,
                    .guilty = known,
                    .waiting = waiting,
                    .reason = is_guess         ? suspects_words(scene, known, unknown, waiting)
                              : living.empty() ? ended_words(known, have_ended_with_0(scene, known), waiting)
                              : common_to(known, roots) == known ? late_words(scene, known)
                                                                 : unrecorded_words(scene, known, waiting)};
}

}  // namespace ddprun::launcher::why

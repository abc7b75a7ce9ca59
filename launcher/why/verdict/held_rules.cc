// Of ranks that cannot come: who has ended, and who is held.
#include "launcher/why/verdict/rank_sets.h"
#include "launcher/why/verdict/rules.h"
#include "launcher/why/verdict/verdict_words.h"

#include <algorithm>

namespace ddprun::launcher::why {

std::optional<Accusation> accuse_ended(const Scene& scene) {
  const Ranks missing = scene.missing_among(ended_ranks(scene));
  const Ranks waiting = scene.waiting_or_spinning();
  if (missing.empty() || waiting.empty() || scene.has_progress()) return std::nullopt;
  // Then their GPUs may still compute what was queued before, though not for ever, and each is free of some
  // collectives when it has done its part.
  constexpr double kQueueIsDone = 60, kNobodyWaits = 300;
  const bool all_spin = scene.ranks_that(waits).empty();
  const double waited = scene.waited_by(waiting);
  if (all_spin && scene.is_usual(waited)) return std::nullopt;
  const bool is_in_synchronize = std::all_of(
      waiting.begin(), waiting.end(), [&](int rank) { return scene.activity(rank).is_in_synchronize; });
  // Of a call that is not of those that wait, nobody knows; a collective of a CUDA graph never ends, as recorded.
  const bool may_compute = all_spin && waited < (is_in_synchronize ? kQueueIsDone : kNobodyWaits);
  const Ranks roots = ends_of(scene.waits_for()).roots;
  Ranks others = suspects(scene, waiting);
  others.merge(idle_among(scene, roots));
  others.merge(scene.wait_for_any(roots));
  if (!without(others, ended_ranks(scene)).empty()) return std::nullopt;
  const bool with_0 = have_ended_with_0(scene, missing);
  const Confidence confidence = may_compute || (all_spin && !is_in_synchronize) ? Confidence::kGuess
                                : with_0 && !all_spin                           ? Confidence::kSure
                                                                                : Confidence::kLikely;
  return Accusation{.health = may_compute ? Health::kLate : Health::kStuck,
                    .confidence = confidence,
                    .guilty = missing,
                    .waiting = waiting,
                    .reason = ended_words(missing, with_0, waiting)};
}

std::optional<Accusation> accuse_held(const Scene& scene) {
  const Ranks held = scene.ranks_that(is_held);
  if (held.empty()) return std::nullopt;
  Ranks waiting;
  for (const auto& [rank, late] : scene.waits_for()) {
    if (!common_to(late, held).empty()) waiting.insert(rank);
  }
  const bool is_of_part = !waiting.empty();
  // A disk may take its time, and the others are used to wait for it.
  const bool is_by_kernel = std::all_of(
      held.begin(), held.end(), [&](int rank) { return scene.activity(rank).doing == Doing::kInKernel; });
  const double waited = scene.waited_by(waiting);
  if (is_by_kernel && scene.is_usual(waited))
    return Accusation{.health = Health::kFine, .reason = usual_words(held, waited), .is_of_part = is_of_part};
  return Accusation{.guilty = held,
                    .waiting = without(is_of_part ? waiting : scene.ranks_that(waits), held),
                    .reason = held_words(scene, held),
                    .is_of_part = is_of_part};
}

}  // namespace ddprun::launcher::why

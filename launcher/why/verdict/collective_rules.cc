// Of ranks that collectives name, by what flight recorders show: who is in another one, and who has not come.
#include "launcher/why/facts/collective_text.h"
#include "launcher/why/look/system_calls.h"
#include "launcher/why/look/thread_state.h"
#include "launcher/why/verdict/rank_sets.h"
#include "launcher/why/verdict/rules.h"
#include "launcher/why/verdict/verdict_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::launcher::why {
namespace {

std::optional<Accusation> accuse_minority_at(const Scene& scene, const Scene::Group& group,
                                             std::int64_t sequence) {
  std::vector<Camp> camps;
  Ranks all;
  bool is_pending = false;
  for (const auto& [rank, entries] : group.entries) {
    const auto found = entries.find(sequence);
    if (found == entries.end()) continue;
    all.insert(rank);
    is_pending = is_pending || !found->second->is_over;
    const auto camp = std::find_if(camps.begin(), camps.end(),
                                   [&](const Camp& c) { return agree(*c.first, *found->second); });
    if (camp == camps.end()) {
      camps.push_back({found->second, {rank}});
    } else {
      camp->second.insert(rank);
    }
  }
  if (camps.size() < 2 || !is_pending || scene.has_progress(all)) return std::nullopt;
  std::stable_sort(camps.begin(), camps.end(),
                   [](const Camp& a, const Camp& b) { return a.second.size() < b.second.size(); });
  const bool is_tie = camps.front().second.size() == camps[1].second.size();
  const Ranks guilty = is_tie ? all : camps.front().second;
  // Who has left what it did there and computes may have done it in a group that had this name before.
  const bool is_late = !is_tie && camps.front().first->is_over && any_gets_on(scene, guilty);
  const bool are_all_known = scene.unseen().empty() && scene.unread().empty();
  return Accusation{.health = is_late ? Health::kLate : Health::kStuck,
                    .confidence = is_tie || !are_all_known ? Confidence::kGuess : Confidence::kLikely,
                    .guilty = guilty,
                    .waiting = without(all, guilty),
                    .reason = disagreement_words(sequence, camps, is_tie),
                    .is_of_part = !is_late,
                    .waited_s = scene.waited_by(guilty)};
}

/// Of several parts of a job, of which none waits for another, those in which somebody does nothing for longer than
/// usual: what the others wait for hides no hang. All, where there is none.
std::map<int, Ranks> stuck_parts(const Scene& scene, std::map<int, Ranks> edges) {
  std::map<int, Ranks> stuck;
  for (const std::map<int, Ranks>& part : Scene::parts_of(edges)) {
    const auto [waiting, roots] = ends_of(part);
    const Ranks idle = idle_among(scene, roots);
    const bool does_nothing =
        roots.empty() ? !any_computes(scene, waiting) : !idle.empty() && !any_gets_on(scene, idle);
    if (does_nothing && !scene.is_usual(scene.waited_by(waiting))) stuck.insert(part.begin(), part.end());
  }
  return stuck.empty() ? edges : stuck;
}

/// Without those that wait for the lock of a file that another of them has.
Ranks without_file_locks(const Scene& scene, const Ranks& ranks) {
  Ranks others = ranks;
  std::erase_if(others, [&](int rank) {
    if (scene.activity(rank).doing != Doing::kBlocked ||
        !is_file_lock(scene.facts(rank).second.threads.front().call.number))
      return false;
    return std::any_of(ranks.begin(), ranks.end(), [&](int holder) {
      const RankFacts& facts = scene.facts(holder);
      return holder != rank && facts.host == scene.facts(rank).host &&
             scene.facts(rank).object.other_end.starts_with(fmt::format("pid {} ", facts.pid));
    });
  });
  return others.empty() ? ranks : others;
}

/// Whether none of them looks more than another like the one for whom the others of them wait.
bool do_the_same(const Scene& scene, const Ranks& ranks) {
  const auto doing = [&](int rank) { return scene.activity(rank).doing; };
  const auto call = [&](int rank) {
    return doing(rank) == Doing::kBlocked ? scene.facts(rank).second.threads.front().call.number : -1;
  };
  return std::all_of(ranks.begin(), ranks.end(), [&, first = *ranks.begin()](int rank) {
    return doing(rank) == doing(first) && call(rank) == call(first);
  });
}

/// Groups that ranks use in different orders: each waits for the other.
std::optional<Accusation> accuse_cycle(const Scene& scene, const std::map<int, Ranks>& edges) {
  std::vector<Camp> camps;  // by the groups' names
  Ranks all;
  for (const auto& [name, group] : scene.groups()) {
    Camp camp{nullptr, {}};
    for (const auto& [rank, late] : edges) {
      const Collective* const open = group.first_open(rank);
      if (open == nullptr) continue;
      if (camp.first == nullptr) camp.first = open;
      camp.second.insert(rank);
    }
    all.insert(camp.second.begin(), camp.second.end());
    if (camp.first != nullptr) camps.push_back(std::move(camp));
  }
  if (scene.is_usual(scene.waited_by(all))) return std::nullopt;
  std::size_t fewest = scene.picture().ranks.size();
  for (const auto& [open, ranks] : camps) fewest = std::min(fewest, ranks.size());
  Ranks guilty;
  Ranks waiting;
  for (const auto& [open, ranks] : camps)
    (ranks.size() == fewest ? guilty : waiting).insert(ranks.begin(), ranks.end());
  // Who computes may have begun what it is said to wait in, and not wait yet.
  const bool is_late = any_computes(scene, all);
  // Which of them has gone another way, the program alone knows.
  return Accusation{.health = is_late ? Health::kLate : Health::kStuck,
                    .confidence = Confidence::kGuess,
                    .guilty = guilty,
                    .waiting = waiting,
                    .reason = cycle_words(camps),
                    .is_of_part = !is_late};
}

}  // namespace

std::optional<Accusation> accuse_minority(const Scene& scene) {
  for (const auto& [name, group] : scene.groups()) {
    std::set<std::int64_t> sequences;
    for (const auto& [rank, entries] : group.entries) {
      for (const auto& [sequence, entry] : entries) sequences.insert(sequence);
    }
    for (const std::int64_t sequence : sequences) {
      if (auto minority = accuse_minority_at(scene, group, sequence)) return minority;
    }
  }
  return std::nullopt;
}

std::optional<Accusation> accuse_late(const Scene& scene) {
  const std::map<int, Ranks> edges = stuck_parts(scene, scene.without_progress(scene.waits_for()));
  if (edges.empty()) return std::nullopt;
  const auto [waiting, all_roots] = ends_of(edges);
  if (all_roots.empty()) return accuse_cycle(scene, edges);
  const Ranks roots = without_file_locks(scene, idle_among(scene, all_roots));
  if (roots.empty()) return std::nullopt;
  const double waited = scene.waited_by(waiting);
  if (scene.is_usual(waited))
    return Accusation{.health = Health::kFine, .reason = usual_words(roots, waited), .is_of_part = true};
  const bool is_late = any_gets_on(scene, roots);
  // It may wait itself, where that was not seen, and one for another by what nobody records.
  const bool may_wait = !unknown_among(scene, roots).empty() || !do_the_same(scene, roots);
  return Accusation{.health = is_late ? Health::kLate : Health::kStuck,
                    .confidence = may_wait  ? Confidence::kGuess
                                  : is_late ? Confidence::kLikely
                                            : Confidence::kSure,
                    .guilty = roots,
                    .waiting = waiting,
                    .reason = late_words(scene, roots),
                    .is_of_part = true};
}

}  // namespace ddprun::launcher::why

#include "launcher/why/verdict/verdict.h"

#include "launcher/text/text.h"
#include "launcher/why/facts/collective_text.h"
#include "launcher/why/look/system_calls.h"
#include "launcher/why/look/thread_state.h"
#include "launcher/why/verdict/scene.h"
#include "launcher/why/verdict/straggler.h"
#include "launcher/why/verdict/verdict_words.h"
#include "rendezvous/base/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace ddprun::launcher::why {
namespace {

/// Those below 1024 are of services: no rank listens at one.
bool is_well_known_port(const std::string& address) {
  constexpr std::uint16_t kFirstOfRanks = 1024;
  const std::optional<Port> port = endpoint_of(address).port;
  return port && port->value() < kFirstOfRanks;
}

/// The rules, in the order in which they are asked. Those that return bool say whether they have judged.
class Rules {
 public:
  explicit Rules(const JobPicture& picture) : picture_(picture), scene_(picture) {
    for (const RankFacts& facts : picture.ranks) {
      verdict_.ranks.push_back({.rank = facts.rank,
                                .host = facts.host,
                                .pid = facts.pid,
                                .activity = scene_.activity(facts.rank),
                                .waits_in = scene_.waits_in(facts.rank)});
    }
  }

  /// Of a job that seems fine while its ranks wait for nothing that was begun lately: whether they wait for one that
  /// does not come to what a thread in the background has begun.
  std::optional<Verdict> judge_background() {
    verdict_.moved_s = scene_.moved_s();
    // A listener waits as long as its job goes on: what silence is usual shows in what was begun since.
    constexpr double kLong = 60;
    if (verdict_.moved_s < kLong || scene_.is_usual(verdict_.moved_s) || !judge_late()) return std::nullopt;
    if (verdict_.health != Health::kStuck || verdict_.waiting.empty()) return std::nullopt;
    verdict_.confidence = Confidence::kGuess;
    clean();
    add_notes();
    return std::move(verdict_);
  }

  Verdict judge() {
    verdict_.moved_s = scene_.moved_s();
    if (awaits_nodes()) {
      verdict_.health = Health::kAwaits;
      verdict_.reason = picture_.awaits;
      verdict_.ranks.clear();
    } else if ((picture_.phase != "running" && !picture_.phase.empty()) ||
               (picture_.is_launcher_stopped && ended_all())) {
      verdict_.health = Health::kEnding;
    } else if (!judge_ended() && !judge_held() && !judge_disagreement() && !judge_late() &&
               !judge_suspects() && !judge_all_wait()) {
      judge_progress();
    }
    admit_unclear();
    note_gpus();
    note_silence();
    clean();
    add_notes();
    return std::move(verdict_);
  }

 private:
  void accuse(Health health, Confidence confidence, const Ranks& guilty, const Ranks& waiting,
              std::string reason) {
    verdict_.health = health;
    verdict_.confidence = confidence;
    verdict_.guilty.assign(guilty.begin(), guilty.end());
    verdict_.waiting.assign(waiting.begin(), waiting.end());
    verdict_.reason = std::move(reason);
    verdict_.waited_s = scene_.waited_by(waiting);
  }

  /// Before a round, the first or another: the ranks that there were have ended.
  [[nodiscard]] bool awaits_nodes() const {
    return !picture_.awaits.empty() && (picture_.phase == "starting" || picture_.phase == "restarting") &&
           std::all_of(picture_.ranks.begin(), picture_.ranks.end(),
                       [](const RankFacts& facts) { return facts.pid == 0; });
  }

  /// What other nodes tell may be anything, and all of this goes to a terminal.
  void clean() {
    verdict_.reason = printable(verdict_.reason);
    for (RankVerdict& rank : verdict_.ranks) {
      rank.host = printable(rank.host);
      rank.waits_in = printable(rank.waits_in);
      rank.activity.words = printable(rank.activity.words);
    }
  }

  [[nodiscard]] bool any_gets_on(const Ranks& ranks) const {
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](int rank) { return gets_on(scene_.activity(rank).doing); });
  }

  /// The same of ranks that are in collectives: one that has begun it asynchronously may compute.
  [[nodiscard]] bool any_computes(const Ranks& ranks) const {
    return std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
      const Doing doing = scene_.activity(rank).doing;
      return gets_on(doing) && doing != Doing::kWaitsForGpu;
    });
  }

  static Ranks without(Ranks ranks, const Ranks& others) {
    for (const int rank : others) ranks.erase(rank);
    return ranks;
  }

  static Ranks both(const Ranks& ranks, const Ranks& others) {
    return without(ranks, without(ranks, others));
  }

  [[nodiscard]] Ranks ended_ranks() const {
    return scene_.ranks_that([](Doing doing) { return doing == Doing::kEnded; });
  }

  [[nodiscard]] Ranks all_ranks() const {
    return scene_.ranks_that([](Doing) { return true; });
  }

  /// Those who wait for nobody, as far as one can see. Who waits for something else, perhaps in a group of which not
  /// all tell, is not the first to blame: of messages and keys nobody knows from whom they are to come, and that may be
  /// one who gets on.
  [[nodiscard]] Ranks idle_among(const Ranks& ranks) const {
    return without(ranks, scene_.ranks_that(awaits_others));
  }

  /// Who has ended will not come; but who lives and is missing where others wait is asked first, for of some
  /// collectives each rank is free when it has done its part.
  bool judge_ended() {
    const Ranks missing = scene_.missing_among(ended_ranks());
    const Ranks waiting = scene_.waiting_or_spinning();
    if (missing.empty() || waiting.empty() || scene_.has_progress()) return false;
    // Then their GPUs may still compute what was queued before, though not for ever, and each is free of some
    // collectives when it has done its part.
    constexpr double kQueueIsDone = 60, kNobodyWaits = 300;
    const bool all_spin = scene_.ranks_that(waits).empty();
    const double waited = scene_.waited_by(waiting);
    if (all_spin && scene_.is_usual(waited)) return false;
    const bool is_in_synchronize = std::all_of(
        waiting.begin(), waiting.end(), [&](int rank) { return scene_.activity(rank).is_in_synchronize; });
    // Of a call that is not of those that wait, nobody knows; a collective of a CUDA graph never ends, as recorded.
    const bool may_compute = all_spin && waited < (is_in_synchronize ? kQueueIsDone : kNobodyWaits);
    const Ranks roots = ends_of(scene_.waits_for()).roots;
    Ranks others = suspects(waiting);
    others.merge(idle_among(roots));
    others.merge(scene_.wait_for_any(roots));
    if (!without(others, ended_ranks()).empty()) return false;
    const bool with_0 = have_ended_with_0(missing);
    const Confidence confidence = may_compute || (all_spin && !is_in_synchronize) ? Confidence::kGuess
                                  : with_0 && !all_spin                           ? Confidence::kSure
                                                                                  : Confidence::kLikely;
    accuse(may_compute ? Health::kLate : Health::kStuck, confidence, missing, waiting,
           ended_words(missing, with_0, waiting));
    return true;
  }

  [[nodiscard]] bool have_ended_with_0(const Ranks& ended) const {
    return std::all_of(ended.begin(), ended.end(), [&](int rank) { return scene_.facts(rank).ended_with_0; });
  }

  /// Who does not wait itself, and for whom those may wait, as far as one can see.
  [[nodiscard]] Ranks suspects(const Ranks& waiting) const {
    Ranks others = without(without(all_ranks(), scene_.waiting_or_spinning()), spinning());
    others.merge(scene_.unseen());
    return scene_.may_be_awaited(others, waiting);
  }

  /// Who spins in what it has begun: it may wait, and is not the first to blame.
  [[nodiscard]] Ranks spinning() const {
    return scene_.ranks_that([](const Activity& activity) {
      return activity.is_in_open && activity.doing == Doing::kWaitsForGpu;
    });
  }

  /// Of these, who was not seen, or not well enough to say that it does not wait.
  [[nodiscard]] Ranks unknown_among(const Ranks& ranks) const { return both(ranks, scene_.unclear()); }

  bool judge_held() {
    const Ranks held = scene_.ranks_that(is_held);
    if (held.empty()) return false;
    Ranks waiting_for_held;
    for (const auto& [rank, late] : scene_.waits_for()) {
      if (std::any_of(late.begin(), late.end(), [&](int one) { return held.contains(one); }))
        waiting_for_held.insert(rank);
    }
    verdict_.is_of_part = !waiting_for_held.empty();
    // A disk may take its time, and the others are used to wait for it.
    const bool is_by_kernel = std::all_of(
        held.begin(), held.end(), [&](int rank) { return scene_.activity(rank).doing == Doing::kInKernel; });
    const double waited = scene_.waited_by(waiting_for_held);
    if (is_by_kernel && scene_.is_usual(waited)) return judge_usual(held, waited);
    accuse(Health::kStuck, Confidence::kSure, held,
           without(verdict_.is_of_part ? waiting_for_held : scene_.ranks_that(waits), held),
           held_words(scene_, held));
    return true;
  }

  /// The first place of a group at which ranks are in different collectives.
  bool judge_disagreement() {
    for (const auto& [name, group] : scene_.groups()) {
      std::set<std::int64_t> sequences;
      for (const auto& [rank, entries] : group.entries) {
        for (const auto& [sequence, entry] : entries) sequences.insert(sequence);
      }
      for (const std::int64_t sequence : sequences) {
        if (judge_place(group, sequence)) return true;
      }
    }
    return false;
  }

  bool judge_place(const Scene::Group& group, std::int64_t sequence) {
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
    if (camps.size() < 2 || !is_pending || scene_.has_progress(all)) return false;
    std::stable_sort(camps.begin(), camps.end(),
                     [](const Camp& a, const Camp& b) { return a.second.size() < b.second.size(); });
    const bool is_tie = camps.front().second.size() == camps[1].second.size();
    Ranks guilty;
    Ranks waiting;
    for (const auto& [entry, ranks] : camps)
      (entry == camps.front().first || is_tie ? guilty : waiting).insert(ranks.begin(), ranks.end());
    // Who has left what it did there and computes may have done it in a group that had this name before.
    const bool is_late = !is_tie && camps.front().first->is_over && any_gets_on(guilty);
    verdict_.is_of_part = !is_late;
    const bool are_all_known = scene_.unseen().empty() && scene_.unread().empty();
    accuse(is_late ? Health::kLate : Health::kStuck,
           is_tie || !are_all_known ? Confidence::kGuess : Confidence::kLikely, guilty, waiting,
           disagreement_words(sequence, camps, is_tie));
    if (verdict_.waited_s < 0) verdict_.waited_s = scene_.waited_by(guilty);
    return true;
  }

  struct Ends {
    Ranks waiting;
    Ranks roots;  ///< for whom others wait, and who waits for nobody
  };
  static Ends ends_of(const std::map<int, Ranks>& edges) {
    Ends ends;
    for (const auto& [rank, late] : edges) {
      ends.waiting.insert(rank);
      ends.roots.insert(late.begin(), late.end());
    }
    ends.roots = without(ends.roots, ends.waiting);
    return ends;
  }

  /// Of several parts of a job, of which none waits for another, those in which somebody does nothing for longer than
  /// usual: what the others wait for hides no hang. All, where there is none.
  [[nodiscard]] std::map<int, Ranks> stuck_parts(std::map<int, Ranks> edges) const {
    std::map<int, Ranks> stuck;
    for (const std::map<int, Ranks>& part : Scene::parts_of(edges)) {
      const auto [waiting, roots] = ends_of(part);
      const Ranks idle = idle_among(roots);
      const bool does_nothing = roots.empty() ? !any_computes(waiting) : !idle.empty() && !any_gets_on(idle);
      if (does_nothing && !scene_.is_usual(scene_.waited_by(waiting))) stuck.insert(part.begin(), part.end());
    }
    return stuck.empty() ? edges : stuck;
  }

  /// Who waits for somebody itself is not guilty, but leads on.
  bool judge_late() {
    const std::map<int, Ranks> edges = stuck_parts(scene_.without_progress(scene_.waits_for()));
    if (edges.empty()) return false;
    const auto [waiting, all_roots] = ends_of(edges);
    if (all_roots.empty()) return judge_cycle(edges);
    const Ranks roots = without_file_locks(idle_among(all_roots));
    if (roots.empty()) return false;
    verdict_.is_of_part = true;
    const double waited = scene_.waited_by(waiting);
    if (scene_.is_usual(waited)) return judge_usual(roots, waited);
    const bool is_late = any_gets_on(roots);
    // It may wait itself, where that was not seen, and one for another by what nobody records.
    const bool may_wait = !unknown_among(roots).empty() || !do_the_same(roots);
    const Confidence confidence = may_wait  ? Confidence::kGuess
                                  : is_late ? Confidence::kLikely
                                            : Confidence::kSure;
    accuse(is_late ? Health::kLate : Health::kStuck, confidence, roots, waiting, late_words(scene_, roots));
    return true;
  }

  /// Without those that wait for the lock of a file that another of them has.
  [[nodiscard]] Ranks without_file_locks(const Ranks& ranks) const {
    Ranks others = ranks;
    std::erase_if(others, [&](int rank) {
      if (scene_.activity(rank).doing != Doing::kBlocked ||
          !is_file_lock(scene_.facts(rank).second.threads.front().call.number))
        return false;
      return std::any_of(ranks.begin(), ranks.end(), [&](int holder) {
        const RankFacts& facts = scene_.facts(holder);
        return holder != rank && facts.host == scene_.facts(rank).host &&
               scene_.facts(rank).object.other_end.starts_with(fmt::format("pid {} ", facts.pid));
      });
    });
    return others.empty() ? ranks : others;
  }

  /// Whether none of them looks more than another like the one for whom the others of them wait.
  [[nodiscard]] bool do_the_same(const Ranks& ranks) const {
    const auto doing = [&](int rank) { return scene_.activity(rank).doing; };
    const auto call = [&](int rank) {
      const RankFacts& facts = scene_.facts(rank);
      return doing(rank) == Doing::kBlocked ? facts.second.threads.front().call.number : -1;
    };
    return std::all_of(ranks.begin(), ranks.end(), [&, first = *ranks.begin()](int rank) {
      return doing(rank) == doing(first) && call(rank) == call(first);
    });
  }

  bool judge_usual(const Ranks& roots, double waited) {
    judge_progress();
    if (verdict_.health == Health::kFine) verdict_.notes.push_back(usual_words(roots, waited));
    return true;
  }

  /// Groups that ranks use in different orders: each waits for the other.
  bool judge_cycle(const std::map<int, Ranks>& edges) {
    std::vector<Camp> camps;  // by the groups' names
    Ranks all;
    for (const auto& [name, group] : scene_.groups()) {
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
    if (scene_.is_usual(scene_.waited_by(all))) return false;
    std::size_t fewest = picture_.ranks.size();
    for (const auto& [open, ranks] : camps) fewest = std::min(fewest, ranks.size());
    Ranks guilty;
    Ranks waiting;
    for (const auto& [open, ranks] : camps)
      (ranks.size() == fewest ? guilty : waiting).insert(ranks.begin(), ranks.end());
    // Who computes may have begun what it is said to wait in, and not wait yet.
    const bool is_late = any_computes(guilty) || any_computes(waiting);
    verdict_.is_of_part = !is_late;
    // Which of them has gone another way, the program alone knows.
    accuse(is_late ? Health::kLate : Health::kStuck, Confidence::kGuess, guilty, waiting, cycle_words(camps));
    return true;
  }

  /// Where nobody is known to be missing who does not wait: who is missing and waits itself, and whoever does not
  /// wait, as far as stacks and calls show it, and may be the one for whom another waits.
  bool judge_suspects() {
    if (scene_.has_progress()) return false;
    const auto [behind, roots] = ends_of(scene_.without_progress(scene_.waits_for()));
    Ranks waiting = scene_.waiting_or_spinning();
    waiting.insert(behind.begin(), behind.end());
    if (waiting.empty() || scene_.is_usual(scene_.waited_by(waiting))) return false;
    const Ranks all = suspects(waiting);
    const Ranks unknown = unknown_among(all);
    Ranks known = without(all, unknown);
    if (!known.empty()) known.merge(scene_.wait_for_any(roots));
    if (known.empty() && unknown.empty()) known = roots;
    // Nobody knows since when the others wait.
    if (known.empty() ||
        std::any_of(known.begin(), known.end(), [&](int rank) { return scene_.was_just_in_one(rank); }))
      return false;
    const Ranks ended = ended_ranks();
    const Ranks living = without(known, ended);
    const bool may_be_others = !without(scene_.may_be_awaited(spinning(), waiting), known).empty();
    const bool is_guess = !unknown.empty() || may_be_others || (known.size() > 1 && !living.empty());
    const bool awaits_group =
        std::any_of(known.begin(), known.end(), [&](int rank) { return scene_.activity(rank).awaits_group; });
    waiting = without(waiting, known);
    accuse(any_gets_on(living) ? Health::kLate : Health::kStuck,
           is_guess || awaits_group ? Confidence::kGuess : Confidence::kLikely, known, waiting,
           is_guess                      ? suspects_words(scene_, known, unknown, waiting)
           : living.empty()              ? ended_words(known, have_ended_with_0(known), waiting)
           : both(known, roots) == known ? late_words(scene_, known)
                                         : unrecorded_words(scene_, known, waiting));
    return true;
  }

  /// All are where they should be: what is between them does not get on.
  bool judge_all_wait() {
    if (scene_.has_progress()) return false;
    const Ranks waiting = scene_.ranks_that(waits);
    const Ranks ended = ended_ranks();
    if (waiting.empty() || waiting.size() + ended.size() < verdict_.ranks.size()) return false;
    const double waited = scene_.waited_by(waiting);
    if (scene_.is_usual(waited)) return false;
    if (!judge_network(waiting, waited))
      accuse(Health::kStuck, Confidence::kGuess, {}, waiting, all_wait_words(scene_, waiting));
    return true;
  }

  /// The ranks at most of the connections on which packets are lost; or those that were not seen, where all of these
  /// lead to one address at which nobody was.
  bool judge_network(const Ranks& waiting, double waited) {
    std::map<int, int> bad_connections;  // by rank
    int most = 0;
    LostPackets worst;
    std::set<std::string> unseen_hosts;
    for (const RankFacts& facts : picture_.ranks) {
      for (const Connection& connection : facts.connections) {
        if (!connection.is_unanswered()) continue;
        const int peer = scene_.rank_at(connection.remote);
        if (peer < 0 && is_well_known_port(connection.remote)) continue;
        most = std::max(most, ++bad_connections[facts.rank]);
        if (peer >= 0) most = std::max(most, ++bad_connections[peer]);
        if (peer < 0) unseen_hosts.insert(host_of(connection.remote));
        worst = {.rank = facts.rank, .on = &connection};
      }
    }
    if (worst.on == nullptr) return judge_launchers_network(waiting);
    const Ranks unseen = scene_.unseen();
    if (unseen_hosts.size() == 1 && !unseen.empty()) {
      accuse(Health::kStuck, Confidence::kLikely, unseen, waiting,
             cut_off_words(unseen, unseen_hosts, worst));
      return true;
    }
    Ranks guilty;
    for (const auto& [rank, count] : bad_connections) {
      if (count == most) guilty.insert(rank);
    }
    accuse(Health::kStuck, Confidence::kLikely, guilty, without(waiting, guilty),
           network_words(scene_, guilty, worst));
    if (verdict_.waited_s < 0) verdict_.waited_s = waited;
    return true;
  }

  /// All that ranks have sent may be acknowledged where a node is cut off; a launcher has just asked that node.
  bool judge_launchers_network(const Ranks& waiting) {
    LostPackets worst;
    std::set<std::string> hosts;
    for (const RankFacts& facts : picture_.ranks) {
      for (const Connection& connection : facts.launcher_connections) {
        const std::string host = host_of(connection.remote);
        const std::string address = "(" + host + ")";
        if (std::none_of(picture_.silent_nodes.begin(), picture_.silent_nodes.end(),
                         [&](const std::string& node) { return node.find(address) != std::string::npos; }))
          continue;
        hosts.insert(host);
        worst = {.rank = facts.rank, .is_launchers = true, .on = &connection};
      }
    }
    const Ranks unseen = scene_.unseen();
    const bool is_all = hosts.size() == picture_.unseen.size();
    if (unseen.empty() || hosts.empty() || !is_all) return false;
    accuse(Health::kStuck, Confidence::kLikely, unseen, waiting, cut_off_words(unseen, hosts, worst));
    return true;
  }

  void judge_progress() {
    const Straggler straggler = find_straggler(picture_);
    if (straggler.rank < 0) return;
    verdict_.health = Health::kSlow;
    verdict_.confidence = Confidence::kLikely;
    verdict_.guilty = {straggler.rank};
    verdict_.reason = straggler_words(picture_, straggler);
  }

  /// Who waits may wait for one that could not be seen; and of a job of which nobody could be read, nothing is known.
  void admit_unclear() {
    if (verdict_.health != Health::kFine || scene_.has_progress()) return;
    const Ranks waiting = scene_.ranks_that(awaits_others);
    const Ranks unread = scene_.unread();
    const bool is_any_read = unread.size() < picture_.ranks.size();
    if (is_any_read && (waiting.empty() || scene_.is_usual(scene_.waited_by(waiting)))) return;
    const Ranks unclear = is_any_read ? unknown_among(suspects(waiting)) : unread;
    if (!unclear.empty())
      accuse(Health::kUnknown, Confidence::kGuess, {}, waiting, unclear_words(unclear, waiting));
  }

  /// Where all have begun a collective, nobody can tell from outside whether their GPUs get on with what was queued
  /// before it.
  void note_gpus() {
    if (verdict_.health != Health::kFine || scene_.has_progress()) return;
    Ranks waiting;
    for (const RankFacts& facts : picture_.ranks) {
      const std::vector<Collective> open = pending(facts.recorder);
      if (!open.empty() && open.front().backend == kNccl) waiting.insert(facts.rank);
    }
    const double waited = scene_.waited_by(waiting);
    if (waiting.empty() || waiting.size() < picture_.ranks.size() || scene_.is_usual(waited)) return;
    verdict_.notes.push_back(gpus_words(scene_, waiting, waited));
  }

  /// Files that somebody polls for, and what else ranks wait for by themselves, are recorded nowhere.
  void note_silence() {
    constexpr double kLong = 10;
    if (verdict_.health != Health::kFine || !verdict_.notes.empty() || verdict_.moved_s < kLong) return;
    const bool is_silent =
        std::all_of(picture_.ranks.begin(), picture_.ranks.end(), [&](const RankFacts& facts) {
          const Doing doing = scene_.activity(facts.rank).doing;
          return doing == Doing::kSleeps || doing == Doing::kBlocked || doing == Doing::kEnded;
        });
    if (is_silent && picture_.ranks.size() > 1 && !ended_all())
      verdict_.notes.push_back(silence_words(verdict_.moved_s));
  }

  [[nodiscard]] bool ended_all() const { return ended_ranks().size() == picture_.ranks.size(); }

  void add_notes() {
    std::set<std::string> notes;
    for (const RankFacts& facts : picture_.ranks) {
      for (const std::string& problem :
           {facts.problem, facts.recorder.problem, facts.python_problem, facts.native_problem}) {
        if (!problem.empty()) notes.insert(problem);
      }
      if (facts.siblings > 0) notes.insert(siblings_words(facts));
    }
    verdict_.notes.insert(verdict_.notes.end(), notes.begin(), notes.end());
    if (picture_.is_launcher_stopped)
      verdict_.notes.push_back(fmt::format(
          "its launcher (pid {0}) is stopped by a signal, and notices nothing; kill -CONT {0} lets "
          "it go on",
          picture_.launcher));
    if (verdict_.health != Health::kAwaits && picture_.world_size > static_cast<int>(picture_.ranks.size()))
      verdict_.notes.push_back(unseen_words(picture_));
  }

  const JobPicture& picture_;
  const Scene scene_;
  Verdict verdict_;
};

}  // namespace

std::string_view to_string(Health health) {
  switch (health) {
    case Health::kFine:
      return "fine";
    case Health::kUnknown:
      return "unknown";
    case Health::kSlow:
      return "slow";
    case Health::kLate:
      return "late";
    case Health::kStuck:
      return "stuck";
    case Health::kAwaits:
      return "awaits";
    case Health::kEnding:
      return "ending";
  }
  return "";
}

std::string_view to_string(Confidence confidence) {
  switch (confidence) {
    case Confidence::kSure:
      return "sure";
    case Confidence::kLikely:
      return "likely";
    case Confidence::kGuess:
      return "guess";
  }
  return "";
}

Verdict judge(const JobPicture& picture) {
  JobPicture foreground = picture;
  bool has_background = false;
  bool has_open = false;
  for (RankFacts& facts : foreground.ranks) {
    for (Recorder* const recorder : {&facts.recorder_first, &facts.recorder})
      has_background =
          std::erase_if(recorder->entries, [](const Collective& one) { return one.lingers; }) > 0 ||
          has_background;
    has_open = has_open || !pending(facts.recorder).empty();
  }
  Verdict verdict = Rules(foreground).judge();
  const bool may_get_on =
      std::any_of(verdict.ranks.begin(), verdict.ranks.end(), [](const RankVerdict& rank) {
        return gets_on(rank.activity.doing) || rank.activity.doing == Doing::kUnknown;
      });
  if (verdict.health != Health::kFine || !has_background || has_open || may_get_on) return verdict;
  std::optional<Verdict> background = Rules(picture).judge_background();
  if (!background) return verdict;
  background->ranks = std::move(verdict.ranks);  // what their main threads do
  return *std::move(background);
}

}  // namespace ddprun::launcher::why

#include "launcher/why/verdict.h"

#include "launcher/text/text.h"
#include "launcher/why/collective_text.h"
#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace ddprun::launcher::why {
namespace {

constexpr double kNanosecond = 1e-9;

using Ranks = std::set<int>;

std::vector<int> as_list(const Ranks& ranks) { return {ranks.begin(), ranks.end()}; }

std::string_view verb(std::size_t count, std::string_view one, std::string_view many) {
  return count == 1 ? one : many;
}

std::string shown(double seconds) { return format_duration(std::chrono::duration<double>(seconds)); }

/// What the ranks have recorded of one process group.
struct GroupView {
  std::map<int, std::map<std::int64_t, const Collective*>> entries;  ///< by rank, by sequence number
  Ranks members;
};

/// The facts in the order in which they are asked for.
class Court {
 public:
  explicit Court(const JobPicture& picture) : picture_(picture) {
    for (const RankFacts& facts : picture.ranks) {
      RankVerdict& rank = verdict_.ranks.emplace_back();
      rank.rank = facts.rank;
      rank.host = facts.host;
      rank.activity = activity_of(facts);
      by_rank_[facts.rank] = &facts;
    }
    for (RankVerdict& rank : verdict_.ranks) activities_[rank.rank] = &rank.activity;
    gather_groups();
  }

  Verdict judge() {
    name_waits();
    if (picture_.phase != "running" && !picture_.phase.empty()) {
      verdict_.health = Health::kEnding;
      return finish();
    }
    if (!judge_ended() && !judge_held() && !judge_disagreement() && !judge_late() &&
        !judge_without_recorder() && !judge_all_wait())
      judge_progress();
    return finish();
  }

 private:
  const Activity& activity(int rank) const { return *activities_.at(rank); }

  void gather_groups() {
    for (const RankFacts& facts : picture_.ranks) {
      for (const Collective& entry : facts.recorder.entries) {
        if (entry.is_peer) continue;  // it has no place among those of all ranks
        GroupView& group = groups_[entry.group];
        group.entries[facts.rank][entry.sequence] = &entry;
        group.members.insert(facts.rank);
      }
    }
    for (auto& [name, group] : groups_) {
      if (!is_world(name)) continue;
      for (const RankFacts& facts : picture_.ranks) group.members.insert(facts.rank);
    }
  }

  void name_waits() {
    for (RankVerdict& rank : verdict_.ranks) {
      const std::vector<Collective> open = pending(by_rank_.at(rank.rank)->recorder);
      if (open.empty()) continue;
      rank.waits_in = describe(open.front());
      if (rank.activity.words.empty()) rank.activity.words = "waits in " + rank.waits_in;
    }
  }

  /// Whether anything was begun or completed between the looks.
  [[nodiscard]] bool has_progress() const {
    return std::any_of(picture_.ranks.begin(), picture_.ranks.end(), [](const RankFacts& facts) {
      if (!facts.recorder.is_there || !facts.recorder_first.is_there) return false;
      return facts.recorder.next != facts.recorder_first.next ||
             pending(facts.recorder).size() != pending(facts.recorder_first).size();
    });
  }

  [[nodiscard]] Ranks waiting_ranks() const {
    Ranks waiting;
    for (const RankVerdict& rank : verdict_.ranks) {
      if (waits(rank.activity.doing)) waiting.insert(rank.rank);
    }
    return waiting;
  }

  /// For how long those ranks have waited: the one that came last counts.
  [[nodiscard]] double waited_by(const Ranks& ranks) const {
    std::optional<double> shortest;
    for (const int rank : ranks) {
      const std::vector<Collective> open = pending(by_rank_.at(rank)->recorder);
      if (open.empty()) continue;
      const double waited = static_cast<double>(picture_.taken_ns - open.front().created_ns) * kNanosecond;
      shortest = std::min(waited, shortest.value_or(waited));
    }
    return shortest ? std::max(0.0, *shortest) : -1;
  }

  /// The longest time from one collective to the next that these ranks are used to; 0: not known.
  [[nodiscard]] double usual_distance() const {
    double longest = 0;
    for (const RankFacts& facts : picture_.ranks) {
      const std::vector<Collective>& entries = facts.recorder.entries;
      for (std::size_t i = 1; i < entries.size(); ++i) {
        longest = std::max(
            longest, static_cast<double>(entries[i].created_ns - entries[i - 1].created_ns) * kNanosecond);
      }
    }
    return longest;
  }

  /// Before that, waiting is no news.
  [[nodiscard]] bool is_usual(double waited_s) const {
    constexpr double kShort = 1.5;
    constexpr double kPatience = 2;
    return waited_s >= 0 && waited_s < std::max(kShort, kPatience * usual_distance());
  }

  void accuse(Health health, Confidence confidence, const Ranks& guilty, const Ranks& waiting,
              std::string reason) {
    verdict_.health = health;
    verdict_.confidence = confidence;
    verdict_.guilty = as_list(guilty);
    verdict_.waiting = as_list(waiting);
    verdict_.reason = std::move(reason);
    if (verdict_.waited_s < 0) verdict_.waited_s = waited_by(waiting);
  }

  bool judge_ended() {
    Ranks ended;
    for (const RankVerdict& rank : verdict_.ranks) {
      if (rank.activity.doing == Doing::kEnded) ended.insert(rank.rank);
    }
    const Ranks waiting = waiting_ranks();
    if (ended.empty() || waiting.empty() || has_progress()) return false;
    const bool is_known =
        std::all_of(ended.begin(), ended.end(), [&](int rank) { return by_rank_.at(rank)->ended_with_0; });
    const std::string how =
        is_known ? fmt::format(" by {} with exit code 0", verb(ended.size(), "itself", "themselves"))
                 : std::string();
    accuse(Health::kStuck, is_known ? Confidence::kSure : Confidence::kLikely, ended, waiting,
           fmt::format("{} {} ended{}, while {} still {} for {}", rank_phrase(as_list(ended)),
                       verb(ended.size(), "has", "have"), how, rank_phrase(as_list(waiting)),
                       verb(waiting.size(), "waits", "wait"), verb(ended.size(), "it", "them")));
    return true;
  }

  bool judge_held() {
    Ranks held;
    for (const RankVerdict& rank : verdict_.ranks) {
      if (is_held(rank.activity.doing)) held.insert(rank.rank);
    }
    if (held.empty()) return false;
    Ranks waiting = waiting_ranks();
    for (const int rank : held) waiting.erase(rank);
    std::string reason = fmt::format("{}", fmt::join(held_words(held), "; "));
    const std::string missing = held.size() == 1 ? missing_words(*held.begin()) : std::string();
    if (!missing.empty()) reason += fmt::format("; {}", missing);
    accuse(Health::kStuck, Confidence::kSure, held, waiting, std::move(reason));
    return true;
  }

  /// "rank 1 is stopped …", "ranks 0, 2 are frozen …".
  [[nodiscard]] std::vector<std::string> held_words(const Ranks& held) const {
    std::map<std::string, Ranks> by_words;
    for (const int rank : held) by_words[activity(rank).words].insert(rank);
    std::vector<std::string> texts;
    for (const auto& [words, ranks] : by_words)
      texts.push_back(
          fmt::format("{} {}", rank_phrase(as_list(ranks)), ranks.size() == 1 ? words : plural(words)));
    return texts;
  }

  /// The first place of a group at which ranks are in different collectives.
  bool judge_disagreement() {
    for (const auto& [name, group] : groups_) {
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

  bool judge_place(const GroupView& group, std::int64_t sequence) {
    std::vector<std::pair<const Collective*, Ranks>> camps;
    bool is_pending = false;
    for (const auto& [rank, entries] : group.entries) {
      const auto found = entries.find(sequence);
      if (found == entries.end()) continue;
      is_pending = is_pending || !found->second->is_over;
      const auto camp = std::find_if(camps.begin(), camps.end(),
                                     [&](const auto& c) { return agree(*c.first, *found->second); });
      if (camp == camps.end()) {
        camps.push_back({found->second, {rank}});
      } else {
        camp->second.insert(rank);
      }
    }
    if (camps.size() < 2 || !is_pending || has_progress()) return false;
    std::stable_sort(camps.begin(), camps.end(),
                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const bool is_tie = camps.front().second.size() == camps[1].second.size();
    Ranks guilty = camps.front().second;
    Ranks waiting;
    std::vector<std::string> texts;
    for (const auto& [entry, ranks] : camps) {
      texts.push_back(fmt::format("{} {} in {}", rank_phrase(as_list(ranks)), verb(ranks.size(), "is", "are"),
                                  kind_of(*entry)));
      (entry == camps.front().first || is_tie ? guilty : waiting).insert(ranks.begin(), ranks.end());
    }
    accuse(Health::kStuck, is_tie ? Confidence::kGuess : Confidence::kLikely, guilty, waiting,
           fmt::format("the ranks do different collectives as #{}{}: {}{}", sequence,
                       is_world(camps.front().first->group)
                           ? std::string()
                           : fmt::format(" of group \"{}\"", camps.front().first->group),
                       fmt::join(texts, ", "),
                       is_tie ? "; which of them is wrong, the program has to say" : ""));
    if (verdict_.waited_s < 0) verdict_.waited_s = waited_by(guilty);
    return true;
  }

  /// The highest number of a group in which somebody waits; 0: nobody does.
  static std::int64_t awaited(const GroupView& group) {
    std::int64_t highest = 0;
    for (const auto& [rank, entries] : group.entries) {
      for (const auto& [sequence, entry] : entries) {
        if (!entry->is_over) highest = std::max(highest, sequence);
      }
    }
    return highest;
  }

  static std::int64_t last_entered(const GroupView& group, int rank) {
    const auto found = group.entries.find(rank);
    return found == group.entries.end() || found->second.empty() ? 0 : found->second.rbegin()->first;
  }

  static bool is_waiting_in(const GroupView& group, int rank) {
    const auto found = group.entries.find(rank);
    return found != group.entries.end() && std::any_of(found->second.begin(), found->second.end(),
                                                       [](const auto& e) { return !e.second->is_over; });
  }

  /// Waits-for, by the groups: who has not entered where others are.
  [[nodiscard]] std::map<int, Ranks> waits_for() const {
    std::map<int, Ranks> edges;
    for (const auto& [name, group] : groups_) {
      const std::int64_t highest = awaited(group);
      if (highest == 0) continue;
      for (const int late : group.members) {
        if (last_entered(group, late) >= highest || !is_readable(late)) continue;
        for (const int waiting : group.members) {
          if (waiting != late && is_waiting_in(group, waiting) &&
              last_entered(group, waiting) > last_entered(group, late))
            edges[waiting].insert(late);
        }
      }
    }
    return edges;
  }

  /// Whether its recorder could be read, so that what is not in it did not happen.
  [[nodiscard]] bool is_readable(int rank) const { return by_rank_.at(rank)->recorder.is_there; }

  /// "it has not entered all_reduce #5 (float32, 10), where ranks 0, 1 and 3 have waited for 38 s"
  [[nodiscard]] std::string missing_words(int late) const {
    for (const auto& [name, group] : groups_) {
      const std::int64_t highest = awaited(group);
      const std::int64_t last = last_entered(group, late);
      if (highest == 0 || last >= highest || !group.members.contains(late)) continue;
      const Collective* missing = nullptr;
      Ranks waiting;
      for (const auto& [rank, entries] : group.entries) {
        const auto found = entries.find(last + 1);
        if (rank == late || found == entries.end()) continue;
        if (missing == nullptr) missing = found->second;
        if (is_waiting_in(group, rank)) waiting.insert(rank);
      }
      if (missing == nullptr || waiting.empty()) continue;
      const double waited = waited_by(waiting);
      return fmt::format("it has not entered {}, where {} {} waited{}", describe(*missing),
                         rank_phrase(as_list(waiting)), verb(waiting.size(), "has", "have"),
                         waited < 0 ? std::string() : fmt::format(" for {}", shown(waited)));
    }
    return {};
  }

  bool judge_late() {
    if (has_progress()) return false;
    const std::map<int, Ranks> edges = waits_for();
    if (edges.empty()) return false;
    Ranks waited_for;
    Ranks waiting;
    for (const auto& [rank, late] : edges) {
      waiting.insert(rank);
      waited_for.insert(late.begin(), late.end());
    }
    Ranks roots;
    for (const int rank : waited_for) {
      if (!edges.contains(rank)) roots.insert(rank);
    }
    if (roots.empty()) return judge_cycle(edges);
    for (const int rank : roots) waiting.erase(rank);
    const double waited = waited_by(waiting);
    const int first = *roots.begin();
    const bool any_gets_on =
        std::any_of(roots.begin(), roots.end(), [&](int rank) { return gets_on(activity(rank).doing); });
    if (is_usual(waited)) return judge_usual(roots, waited);
    accuse(any_gets_on ? Health::kLate : Health::kStuck,
           any_gets_on ? Confidence::kLikely : Confidence::kSure, roots, waiting,
           fmt::format("{} {} late: {}", rank_phrase(as_list(roots)), verb(roots.size(), "is", "are"),
                       missing_words(first)));
    return true;
  }

  bool judge_usual(const Ranks& roots, double waited) {
    judge_progress();
    if (verdict_.health == Health::kFine) {
      verdict_.notes.push_back(fmt::format("{} {} behind the others by {} at the moment, which is usual here",
                                           rank_phrase(as_list(roots)), verb(roots.size(), "is", "are"),
                                           shown(waited)));
    }
    return true;
  }

  /// Groups that ranks use in different orders: each waits for the other.
  bool judge_cycle(const std::map<int, Ranks>& edges) {
    std::map<std::string, Ranks> camps;
    for (const auto& [rank, late] : edges) {
      for (const auto& [name, group] : groups_) {
        if (is_waiting_in(group, rank)) camps[name].insert(rank);
      }
    }
    const auto smallest = std::min_element(camps.begin(), camps.end(), [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    });
    Ranks guilty = smallest->second;
    Ranks waiting;
    std::vector<std::string> texts;
    for (const auto& [name, ranks] : camps) {
      texts.push_back(fmt::format("{} {} in {}", rank_phrase(as_list(ranks)),
                                  verb(ranks.size(), "waits", "wait"), verdict_of(*ranks.begin()).waits_in));
      const bool is_tie = ranks.size() == smallest->second.size();
      (is_tie ? guilty : waiting).insert(ranks.begin(), ranks.end());
    }
    accuse(Health::kStuck, Confidence::kLikely, guilty, waiting,
           fmt::format(
               "the ranks wait for each other in different groups, which they use in different orders: {}",
               fmt::join(texts, ", ")));
    return true;
  }

  const RankVerdict& verdict_of(int rank) const {
    return *std::find_if(verdict_.ranks.begin(), verdict_.ranks.end(),
                         [&](const auto& r) { return r.rank == rank; });
  }

  /// By what stacks and calls show.
  bool judge_without_recorder() {
    if (has_progress()) return false;
    const bool is_recorded =
        std::any_of(picture_.ranks.begin(), picture_.ranks.end(),
                    [](const RankFacts& facts) { return !pending(facts.recorder).empty(); });
    if (is_recorded) return false;
    const Ranks waiting = waiting_ranks();
    if (waiting.empty()) return false;
    Ranks late;
    for (const RankVerdict& rank : verdict_.ranks) {
      if (!waiting.contains(rank.rank) && rank.activity.doing != Doing::kUnknown) late.insert(rank.rank);
    }
    if (late.empty()) return false;
    const bool any_gets_on =
        std::any_of(late.begin(), late.end(), [&](int rank) { return gets_on(activity(rank).doing); });
    accuse(any_gets_on ? Health::kLate : Health::kStuck, Confidence::kLikely, late, waiting,
           fmt::format(
               "{} {} late: {} where {} {}", rank_phrase(as_list(late)), verb(late.size(), "is", "are"),
               late.size() == 1 ? "it is not" : "they are not", rank_phrase(as_list(waiting)),
               fmt::format("{}{}", waiting.size() == 1 ? "waits" : "wait", wait_words(*waiting.begin()))));
    return true;
  }

  /// " in a collective" of "waits in a collective".
  [[nodiscard]] std::string wait_words(int rank) const {
    const std::string& words = activity(rank).words;
    return words.starts_with("waits") ? words.substr(5) : std::string();
  }

  /// All are where they should be: what is between them does not get on.
  bool judge_all_wait() {
    if (has_progress()) return false;
    const Ranks waiting = waiting_ranks();
    if (waiting.empty() || waiting.size() < verdict_.ranks.size()) return false;
    const double waited = waited_by(waiting);
    if (is_usual(waited)) return false;
    std::map<int, int> bad_connections;
    std::string worst;
    for (const RankFacts& facts : picture_.ranks) {
      for (const Connection& connection : facts.connections) {
        if (connection.retransmits == 0 || connection.unsent == 0) continue;
        const int peer = rank_at(connection.remote);
        ++bad_connections[facts.rank];
        if (peer >= 0) ++bad_connections[peer];
        worst = fmt::format("{} of rank {} to {}{}: {} not acknowledged after {} attempts", connection.local,
                            facts.rank, connection.remote,
                            peer < 0 ? std::string() : fmt::format(" (rank {})", peer),
                            format_bytes(connection.unsent), connection.retransmits);
      }
    }
    if (!bad_connections.empty()) {
      int most = 0;
      for (const auto& [rank, count] : bad_connections) most = std::max(most, count);
      Ranks guilty;
      for (const auto& [rank, count] : bad_connections) {
        if (count == most) guilty.insert(rank);
      }
      Ranks others = waiting;
      for (const int rank : guilty) others.erase(rank);
      accuse(Health::kStuck, Confidence::kLikely, guilty, others,
             fmt::format("the network of {} does not get packets through: {}", rank_phrase(as_list(guilty)),
                         worst));
      if (verdict_.waited_s < 0) verdict_.waited_s = waited;
      return true;
    }
    const bool are_all_seen = picture_.world_size <= static_cast<int>(picture_.ranks.size());
    accuse(Health::kStuck, Confidence::kGuess, {}, waiting,
           are_all_seen
               ? all_words(waiting)
               : fmt::format("all ranks of this node wait{}; who is late is on another node: ask there",
                             wait_words(*waiting.begin())));
    return true;
  }

  [[nodiscard]] std::string all_words(const Ranks& waiting) const {
    std::set<std::string> kinds;
    for (const int rank : waiting) kinds.insert(verdict_of(rank).activity.words);
    if (kinds.size() == 1)
      return fmt::format("all ranks {}, and nobody is missing: the transfer itself does not get on",
                         "wait" + wait_words(*waiting.begin()));
    std::vector<std::string> texts;
    for (const int rank : waiting) texts.push_back(fmt::format("rank {} {}", rank, activity(rank).words));
    return fmt::format("all ranks wait, for different things: {}", fmt::join(texts, "; "));
  }

  [[nodiscard]] int rank_at(const std::string& address) const {
    for (const RankFacts& facts : picture_.ranks) {
      for (const Connection& connection : facts.connections) {
        if (connection.local == address) return facts.rank;
      }
    }
    return -1;
  }

  void judge_progress() {
    const Straggler straggler = find_straggler(picture_);
    if (straggler.rank < 0) return;
    verdict_.health = Health::kSlow;
    verdict_.confidence = Confidence::kLikely;
    verdict_.guilty = {straggler.rank};
    verdict_.reason = fmt::format(
        "rank {} is the slowest: at collectives it comes {} after the first, {:.0f} % of the time from one "
        "to the next",
        straggler.rank, shown(straggler.late_s), straggler.share * 100);
  }

  Verdict finish() {
    std::set<std::string> notes;
    for (const RankFacts& facts : picture_.ranks) {
      for (const std::string& problem :
           {facts.problem, facts.recorder.problem, facts.python_problem, facts.native_problem}) {
        if (!problem.empty()) notes.insert(problem);
      }
    }
    verdict_.notes.insert(verdict_.notes.end(), notes.begin(), notes.end());
    if (picture_.world_size > static_cast<int>(picture_.ranks.size())) {
      verdict_.notes.push_back(fmt::format("{} of {} ranks were seen: those of other nodes are not",
                                           picture_.ranks.size(), picture_.world_size));
    }
    return std::move(verdict_);
  }

  const JobPicture& picture_;
  std::map<int, const RankFacts*> by_rank_;
  std::map<int, const Activity*> activities_;
  std::map<std::string, GroupView> groups_;
  Verdict verdict_;
};

}  // namespace

std::string_view to_string(Health health) {
  switch (health) {
    case Health::kFine:
      return "fine";
    case Health::kSlow:
      return "slow";
    case Health::kLate:
      return "late";
    case Health::kStuck:
      return "stuck";
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

namespace {

struct Arrivals {
  std::map<int, double> lateness;  ///< summed up, in seconds
  std::map<int, std::size_t> times_last;
  std::vector<std::int64_t> lasts;  ///< when the last rank came to each collective
};

/// At the collectives of the world's group that all ranks have recorded.
Arrivals arrivals_of(const JobPicture& picture) {
  std::map<std::int64_t, std::map<int, std::int64_t>> arrivals;  // by sequence number and rank
  for (const RankFacts& facts : picture.ranks) {
    for (const Collective& entry : facts.recorder.entries) {
      if (is_world(entry.group) && !entry.is_peer) arrivals[entry.sequence][facts.rank] = entry.created_ns;
    }
  }
  Arrivals found;
  for (const auto& [sequence, by_rank] : arrivals) {
    if (by_rank.size() < picture.ranks.size() || by_rank.size() < 2) continue;
    const auto earlier = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto first = std::min_element(by_rank.begin(), by_rank.end(), earlier);
    const auto last = std::max_element(by_rank.begin(), by_rank.end(), earlier);
    for (const auto& [rank, time] : by_rank)
      found.lateness[rank] += static_cast<double>(time - first->second) * kNanosecond;
    ++found.times_last[last->first];
    found.lasts.push_back(last->second);
  }
  return found;
}

}  // namespace

std::map<int, double> lateness_of(const JobPicture& picture) {
  Arrivals found = arrivals_of(picture);
  for (auto& [rank, late] : found.lateness) late /= static_cast<double>(found.lasts.size());
  return found.lateness;
}

Straggler find_straggler(const JobPicture& picture) {
  constexpr std::size_t kFewest = 4;
  Arrivals found = arrivals_of(picture);
  if (found.lasts.size() < kFewest) return {};
  const auto count = static_cast<double>(found.lasts.size());
  const double distance =
      static_cast<double>(found.lasts.back() - found.lasts.front()) * kNanosecond / (count - 1);
  constexpr double kMostTimes = 0.6, kShare = 0.2, kNoticeable = 0.02;
  for (const auto& [rank, times] : found.times_last) {
    const double late = found.lateness[rank] / count;
    if (static_cast<double>(times) / count < kMostTimes || late < kNoticeable || late < kShare * distance)
      continue;
    return {.rank = rank, .late_s = late, .share = distance > 0 ? std::min(1.0, late / distance) : 0};
  }
  return {};
}

Verdict judge(const JobPicture& picture) { return Court(picture).judge(); }

}  // namespace ddprun::launcher::why

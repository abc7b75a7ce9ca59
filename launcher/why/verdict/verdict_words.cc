#include "launcher/why/verdict/verdict_words.h"

#include "launcher/text/text.h"
#include "launcher/why/facts/collective_text.h"
#include "launcher/why/verdict/doing_words.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string_view>

namespace ddprun::launcher::why {
namespace {

std::string named(const Ranks& ranks) { return rank_phrase({ranks.begin(), ranks.end()}); }

std::string_view verb(const Ranks& ranks, std::string_view one, std::string_view many) {
  return ranks.size() == 1 ? one : many;
}

std::string shown(double seconds) { return format_duration(std::chrono::duration<double>(seconds)); }

/// " in a collective" of "waits in a collective".
std::string wait_words(const Scene& scene, int rank) {
  const std::string& words = scene.activity(rank).words;
  return words.starts_with("waits") ? words.substr(5) : std::string();
}

/// "it has not entered all_reduce #5 (float32, 10), where ranks 0, 1 and 3 have waited for 38 s"
std::string missing_words(const Scene& scene, int late, bool is_one = true) {
  for (const auto& [name, group] : scene.groups()) {
    const std::int64_t highest = group.awaited();
    const std::int64_t last = group.last_entered(late);
    if (highest == 0 || last >= highest || !group.members.contains(late) || !scene.knows(late, group))
      continue;
    const Collective* missing = nullptr;
    Ranks waiting;
    for (const auto& [rank, entries] : group.entries) {
      const auto found = entries.find(last + 1);
      if (rank == late || found == entries.end()) continue;
      if (missing == nullptr) missing = found->second;
      if (group.is_waiting(rank)) waiting.insert(rank);
    }
    if (missing == nullptr || waiting.empty()) continue;
    const double waited = scene.waited_by(waiting);
    return fmt::format("{} has not entered {}, where {} {} waited{}",
                       is_one ? std::string("it") : named({late}), describe(*missing), named(waiting),
                       verb(waiting, "has", "have"),
                       waited < 0 ? std::string() : fmt::format(" for {}", shown(waited)));
  }
  return {};
}

/// "rank 1 is stopped …", "ranks 0, 2 are frozen …": a text for all that do the same.
std::vector<std::string> doing_words(const Scene& scene, const Ranks& of) {
  std::map<std::string, Ranks> by_words;
  for (const int rank : of) by_words[scene.activity(rank).words].insert(rank);
  std::vector<std::string> texts;
  for (const auto& [words, ranks] : by_words)
    texts.push_back(fmt::format("{} {}", named(ranks), ranks.size() == 1 ? words : plural(words)));
  return texts;
}

std::string lost_words(const LostPackets& lost, const std::string& peer) {
  return fmt::format("{} of {}rank {} to {}{}: {} not acknowledged after {} attempts", lost.on->local,
                     lost.is_launchers ? "the launcher of " : "", lost.rank, lost.on->remote, peer,
                     format_bytes(lost.on->unsent), lost.on->retransmits);
}

}  // namespace

std::string ended_words(const Ranks& ended, bool with_0, const Ranks& waiting) {
  return fmt::format(
      "{} {} ended{}, while {} still {} for {}", named(ended), verb(ended, "has", "have"),
      with_0 ? fmt::format(" by {} with exit code 0", verb(ended, "itself", "themselves")) : std::string(),
      named(waiting), verb(waiting, "waits", "wait"), verb(ended, "it", "them"));
}

std::string held_words(const Scene& scene, const Ranks& held) {
  std::vector<std::string> texts = doing_words(scene, held);
  const std::string missing = held.size() == 1 ? missing_words(scene, *held.begin()) : std::string();
  if (!missing.empty()) texts.push_back(missing);
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string disagreement_words(std::int64_t sequence, const std::vector<Camp>& camps, bool is_tie) {
  std::vector<std::string> texts;
  for (const auto& [entry, ranks] : camps)
    texts.push_back(fmt::format("{} {} in {}", named(ranks), verb(ranks, "is", "are"), kind_of(*entry)));
  const std::string& group = camps.front().first->group;
  return fmt::format("the ranks do different collectives as #{}{}: {}{}", sequence,
                     is_world(group) ? std::string() : fmt::format(" of group \"{}\"", group),
                     fmt::join(texts, ", "),
                     is_tie ? "; which of them is wrong, the program has to say" : "");
}

std::string late_words(const Scene& scene, const Ranks& late) {
  return fmt::format("{} {} late: {}", named(late), verb(late, "is", "are"),
                     missing_words(scene, *late.begin(), late.size() == 1));
}

std::string usual_words(const Ranks& late, double waited_s) {
  return fmt::format("{} {} behind the others by {} at the moment, which is usual here", named(late),
                     verb(late, "is", "are"), shown(waited_s));
}

std::string silence_words(double moved_s) {
  return fmt::format(
      "no rank computes, reads or writes, and none has entered a collective for {}: what they wait for, a "
      "file or another program perhaps, is recorded nowhere",
      shown(moved_s));
}

std::string cycle_words(const std::vector<Camp>& camps) {
  std::set<std::string> groups, backends;
  for (const auto& [open, ranks] : camps) {
    groups.insert(open->group);
    backends.insert(open->backend);
  }
  std::vector<std::string> texts;
  for (const auto& [open, ranks] : camps) {
    texts.push_back(fmt::format("{} {} in {}{}", named(ranks), verb(ranks, "waits", "wait"), describe(*open),
                                backends.size() > 1 ? " over " + open->backend : ""));
  }
  return fmt::format(
      "the ranks wait for each other {}, which they use in different orders: {}",
      groups.size() == 1 && backends.size() > 1 ? "over different backends" : "in different groups",
      fmt::join(texts, ", "));
}

std::string unrecorded_words(const Scene& scene, const Ranks& late, const Ranks& waiting) {
  return fmt::format("{} {} late: {} where {}", named(late), verb(late, "is", "are"),
                     verb(late, "it is not", "they are not"),
                     fmt::join(doing_words(scene, waiting), ", and "));
}

std::string suspects_words(const Scene& scene, const Ranks& suspects, const Ranks& unknown,
                           const Ranks& waiting) {
  std::vector<std::string> texts = doing_words(scene, suspects);
  if (!unknown.empty())
    texts.push_back(fmt::format("{} {} not seen well enough", named(unknown), verb(unknown, "was", "were")));
  return fmt::format("{}; for which of these, nobody can see: {}",
                     fmt::join(doing_words(scene, waiting), ", and "), fmt::join(texts, "; "));
}

std::string host_of(const std::string& address) { return endpoint_of(address).host; }

std::string cut_off_words(const Ranks& unseen, const std::set<std::string>& hosts, const LostPackets& lost) {
  return fmt::format("the network to {}, where {} must be, does not get packets through: {}",
                     fmt::join(hosts, " and "), named(unseen), lost_words(lost, {}));
}

std::string network_words(const Scene& scene, const Ranks& guilty, const LostPackets& lost) {
  const int peer = scene.rank_at(lost.on->remote);
  return fmt::format("the network of {} does not get packets through: {}", named(guilty),
                     lost_words(lost, peer < 0 ? std::string() : fmt::format(" (rank {})", peer)));
}

std::string all_wait_words(const Scene& scene, const Ranks& waiting) {
  const std::string how = wait_words(scene, *waiting.begin());
  if (scene.picture().world_size > static_cast<int>(scene.picture().ranks.size()))
    return scene.picture().asks_others
               ? fmt::format("all ranks that were seen wait{}; who is late was not seen", how)
               : fmt::format("all ranks of this node wait{}; who is late is on another node: ask there", how);
  const std::vector<RankFacts>& ranks = scene.picture().ranks;
  if (std::any_of(ranks.begin(), ranks.end(), [](const RankFacts& facts) { return facts.siblings > 0; }))
    return fmt::format("all processes that were seen wait{}; who is late was not seen", how);
  std::set<std::string> kinds;
  std::vector<std::string> texts;
  for (const int rank : waiting) {
    const std::string& words = scene.activity(rank).words;
    kinds.insert(words);
    texts.push_back(fmt::format("rank {} {}", rank, words));
  }
  if (kinds.size() == 1)
    return fmt::format("all ranks wait{}, and nobody is missing: the transfer itself does not get on", how);
  return fmt::format("all ranks wait, for different things: {}", fmt::join(texts, "; "));
}

std::string unclear_words(const Ranks& unclear, const Ranks& waiting) {
  if (waiting.empty())
    return fmt::format("of {} not enough could be read in time to say whether {} on: ask again",
                       named(unclear), verb(unclear, "it gets", "they get"));
  return fmt::format("{} {}, perhaps for {}, of which not enough could be seen: ask again", named(waiting),
                     verb(waiting, "waits", "wait"), named(unclear));
}

std::string gpus_words(const Scene& scene, const Ranks& waiting, double waited_s) {
  const bool are_all = scene.picture().world_size <= static_cast<int>(scene.picture().ranks.size());
  return fmt::format(
      "{} {} begun {}, and for {} no GPU has ended it: one of them may still be at what was queued "
      "before, or what is between them does not get on{}",
      named(waiting), verb(waiting, "has", "have"), scene.waits_in(*waiting.begin()), shown(waited_s),
      are_all ? "" : ", or somebody is late who was not seen");
}

std::string straggler_words(const JobPicture& picture, const Straggler& straggler) {
  return fmt::format(
      "rank {} is the slowest{}: at collectives it comes {} after the first, {:.0f} % of the time from one "
      "to the next",
      straggler.rank, picture.asks_others ? " of those on its host" : "", shown(straggler.late_s),
      straggler.share * 100);
}

std::string siblings_words(const RankFacts& facts) {
  return fmt::format("of rank {} pid {} was seen, the oldest of {} processes that train", facts.rank,
                     facts.pid, facts.siblings + 1);
}

std::string unseen_words(const JobPicture& picture) {
  return fmt::format("{} of {} ranks were seen: {}", picture.ranks.size(), picture.world_size,
                     picture.unseen.empty() ? std::string("those of other nodes are not")
                                            : fmt::format("{}", fmt::join(picture.unseen, "; ")));
}

}  // namespace ddprun::launcher::why

#include "launcher/why/verdict/straggler.h"

#include "launcher/why/facts/collective_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher::why {
namespace {

constexpr double kSecondsInANanosecond = 1e-9;

struct Arrivals {
  std::map<int, std::vector<double>> lateness;  ///< at each collective, in seconds
  std::map<int, std::size_t> times_last;
  std::vector<std::int64_t> lasts;  ///< when the last rank came to each collective, in order
};

using SomeRanks = std::vector<const RankFacts*>;

SomeRanks all_of(const JobPicture& picture) {
  SomeRanks ranks;
  for (const RankFacts& facts : picture.ranks) ranks.push_back(&facts);
  return ranks;
}

/// At the collectives of the world's group that all these ranks have recorded.
Arrivals arrivals_of(const SomeRanks& ranks) {
  // By backend and number of the collective, and by rank.
  std::map<std::pair<std::string, std::int64_t>, std::map<int, std::int64_t>> arrivals;
  for (const RankFacts* const facts : ranks) {
    for (const Collective& entry : facts->recorder.entries) {
      if (is_world(entry.group) && !entry.is_peer)
        arrivals[{entry.backend, entry.sequence}][facts->rank] = entry.created_ns;
    }
  }
  Arrivals found;
  for (const auto& [collective, by_rank] : arrivals) {
    if (by_rank.size() < ranks.size() || by_rank.size() < 2) continue;
    const auto earlier = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto first = std::min_element(by_rank.begin(), by_rank.end(), earlier);
    const auto last = std::max_element(by_rank.begin(), by_rank.end(), earlier);
    for (const auto& [rank, time] : by_rank)
      found.lateness[rank].push_back(static_cast<double>(time - first->second) * kSecondsInANanosecond);
    ++found.times_last[last->first];
    found.lasts.push_back(last->second);
  }
  std::sort(found.lasts.begin(), found.lasts.end());
  return found;
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// The mean of all but the largest: one long pause is not what is usual.
double usual(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  return (sum(values) - *std::max_element(values.begin(), values.end())) /
         static_cast<double>(values.size() - 1);
}

Straggler straggler_among(const SomeRanks& ranks, std::int64_t now_ns) {
  constexpr std::size_t kFewest = 4;
  Arrivals found = arrivals_of(ranks);
  if (found.lasts.size() < kFewest) return {};
  const auto count = static_cast<double>(found.lasts.size());
  std::vector<double> distances;
  for (std::size_t i = 1; i < found.lasts.size(); ++i)
    distances.push_back(static_cast<double>(found.lasts[i] - found.lasts[i - 1]) * kSecondsInANanosecond);
  const double distance = sum(distances) / static_cast<double>(distances.size());
  const double longest = *std::max_element(distances.begin(), distances.end());
  // What was slow before says nothing of a job that does not get on.
  const double silent = static_cast<double>(now_ns - found.lasts.back()) * kSecondsInANanosecond;
  if (silent > longest_usual_wait(longest)) return {};
  constexpr double kMostTimes = 0.6, kShare = 0.2, kNoticeable = 0.02;
  for (const auto& [rank, times] : found.times_last) {
    const double late = usual(found.lateness[rank]);
    if (static_cast<double>(times) / count < kMostTimes || late < kNoticeable || late < kShare * distance)
      continue;
    return {.rank = rank, .late_s = late, .share = distance > 0 ? std::min(1.0, late / distance) : 0};
  }
  return {};
}

}  // namespace

double longest_usual_wait(double longest_distance_s) {
  constexpr double kShort = 1.5;
  constexpr double kPatience = 2;
  return std::max(kShort, kPatience * longest_distance_s);
}

std::map<int, double> lateness_of(const JobPicture& picture) {
  if (picture.asks_others) return {};
  Arrivals found = arrivals_of(all_of(picture));
  std::map<int, double> lateness;
  for (const auto& [rank, times] : found.lateness)
    lateness[rank] = sum(times) / static_cast<double>(times.size());
  return lateness;
}

Straggler find_straggler(const JobPicture& picture) {
  // NCCL's are recorded when they are queued: where one rank alone asks for its loss, the others queue ahead of it, and
  // their GPUs wait for nobody.
  const bool is_queued = std::any_of(picture.ranks.begin(), picture.ranks.end(), [](const RankFacts& facts) {
    return std::any_of(facts.recorder.entries.begin(), facts.recorder.entries.end(),
                       [](const Collective& entry) { return entry.backend == kNccl; });
  });
  if (is_queued) return {};
  if (!picture.asks_others) return straggler_among(all_of(picture), picture.taken_ns);
  std::map<std::string, SomeRanks> by_host;
  for (const RankFacts& facts : picture.ranks) by_host[facts.host].push_back(&facts);
  Straggler latest;
  for (const auto& [host, ranks] : by_host) {
    const Straggler found = straggler_among(ranks, picture.taken_ns);
    if (found.rank >= 0 && (latest.rank < 0 || found.late_s > latest.late_s)) latest = found;
  }
  return latest;
}

}  // namespace ddprun::launcher::why

#pragma once

#include <cstdint>
#include <string>

namespace ddprun::membership::testing {

/// What one schedule did, to see that the faults really happen.
struct ScheduleStats {
  int hosts = 0;
  int generations = 0;
  int messages = 0;
  int lost_messages = 0;
  int crashes = 0;
  int kills_by_lease = 0;
  bool ended = false;
};

/// Breaks one rule of membership on purpose, to see that the simulation notices.
enum class Defect {
  kNone,
  kLongLease,         ///< an agent that is not answered lets its workers run for longer than it is waited for
  kNoFence,           ///< a broken connection counts as a dead node at once
  kSaysIdleTooEarly,  ///< an agent says that no worker is alive while it is still stopping them
  kRanksMove,         ///< survivors get other ranks
  kRanksTwice,        ///< two nodes get one rank
  kSeatToldOnce,      ///< a seat that was lost on the way is not told again
  kForgetsSuccess,    ///< an agent that comes back does not say that its workers had succeeded
};

/// Plays one job of a few nodes, or of hundreds, through a network that delays, drops, duplicates and
/// reorders, with partitions, resets, crashes, power cuts, replacements, failing workers, time-outs, pauses,
/// clocks that jump and drift, all drawn from `seed`; then heals it and waits for progress.
///
/// Returns the broken promise in a sentence, or nothing. Promises:
///   the workers that run at one moment belong to one generation; the seats of a generation are one world of
///   MIN to MAX nodes, ranks 0…n−1 each once, and never change; a survivor keeps its rank where that rank
///   exists; after healing the job runs or has ended within a bound; every node that is told the end of the
///   job is told the same; when all workers of a generation have succeeded, the job ends with 0 and none is
///   run again, but for a node that is gone, was told to leave, or is not heard of for `rejoin_timeout`; in a calm
///   schedule nothing begins after the --job-timeout of a node that has a part in the job, and in none does that node
///   go on.
std::string play_schedule(std::uint64_t seed, ScheduleStats& stats, Defect defect = Defect::kNone);

}  // namespace ddprun::membership::testing

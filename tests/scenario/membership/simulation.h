#pragma once

#include <cstdint>
#include <string>

namespace ddprun::membership::testing {

/// What one schedule did, to see that the faults really happen.
struct ScheduleStats {
  int generations = 0;
  int messages = 0;
  int lost_messages = 0;
  int crashes = 0;
  int kills_by_lease = 0;
  bool ended = false;
};

/// Plays one job of a few nodes (rarely hundreds) through a network that delays, drops, duplicates and
/// reorders, with partitions, resets, crashes, power cuts, replacements, failing workers, pauses and clock
/// jumps, all drawn from `seed`; then heals it and waits for progress.
///
/// Returns the broken promise in a sentence, or nothing. Promises:
///   the workers that run at one moment belong to one generation; the seats of a generation are a bijection
///   onto 0…n−1 with MIN ≤ n ≤ MAX and never change; a survivor keeps its rank where that rank exists; after
///   healing the job runs or has ended within a bound; every node that is told the end of the job is told the
///   same.
std::string play_schedule(std::uint64_t seed, ScheduleStats& stats);

}  // namespace ddprun::membership::testing

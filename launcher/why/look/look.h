#pragma once

#include "launcher/why/facts/facts.h"

#include <chrono>
#include <cstdint>
#include <vector>

namespace ddprun::launcher::why {

/// What is known of a rank before it is looked at.
struct RankTarget {
  int rank = 0;
  int local_rank = 0;
  int pid = 0;
  std::uint64_t started = 0;  ///< in ticks since boot; 0: whoever has that pid is meant
};

struct LookLimits {
  std::chrono::milliseconds between{1000};  ///< from the first look to the second
  std::chrono::milliseconds whole{3800};    ///< then what is there is taken
};

/// Looks at ranks of this machine twice, and at their stacks: of a worker that is a script, or whose children train, at
/// what it has started (work_process.h). Each rank has a process of its own that looks, so that one which hangs,
/// because a library lies on a dead NFS, costs only what it had not said yet: all but its worker's pid, where that is
/// while the process that does the work is looked for, or in the first look.
///
/// Process  forks: for one without threads. Blocks for the two looks and the stacks, never longer than the limit.
std::vector<RankFacts> look_at_ranks(const std::vector<RankTarget>& targets, const LookLimits& limits);

/// Takes back what a recorder seems to tell of a rank with torch's newer implementation of NCCL, which records
/// elsewhere: without a record who waits there seems to compute. Pure.
void note_what_is_not_recorded(RankFacts& facts);

}  // namespace ddprun::launcher::why

#pragma once

#include <ddprun/init.h>
#include <ddprun/trainer/options.h>

#include <cstddef>
#include <cstdint>

namespace ddprun::training {

/// The ranks of a job that one process trains as, one after the other in each step: neighbours, in their order. Without
/// /train/virtual_ranks a process is one rank.
struct RankBlock {
  int ranks = 1;            ///< of the job, over all processes
  int first = 0;            ///< of this process
  std::size_t count = 1;    ///< of this process; its turns within a step are 0…count-1
  bool is_virtual = false;  ///< the job says how many ranks it has, whatever the processes

  [[nodiscard]] int rank(std::size_t turn) const { return first + static_cast<int>(turn); }
};

/// A process among those of a job.
struct ProcessSeat {
  int rank = 0;
  int world_size = 1;
};

/// Deals out the job's ranks to its processes, as many to each. `virtual_ranks` 0: a rank to each. Pure.
/// Errors  Exception kConfig: they cannot be dealt out evenly.
RankBlock rank_block(std::int64_t virtual_ranks, const ProcessSeat& seat);

/// The same by /train/virtual_ranks of `job`.
RankBlock rank_block(const Options& job, const Context& context);

}  // namespace ddprun::training

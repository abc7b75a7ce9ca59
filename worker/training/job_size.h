#pragma once

#include "worker/training/parts/job_parts.h"
#include "worker/training/state/position.h"
#include <ddprun/distributed_sampler.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::training {

/// Where a schedule reduces the rate: `key` of the job file says so.
struct Reduction {
  std::string key;
  double epochs = 0;  ///< since the beginning of the job
};

/// What the loop takes from the job file.
struct LoopOptions {
  std::int64_t epochs = 1, max_steps = 0;
  std::int64_t batch_size = 64, accumulation = 1, eval_batch_size = 256;
  std::int64_t eval_every_epochs = 1, checkpoint_every_epochs = 1, checkpoint_every_steps = 0,
               memory_every_steps = 0;
  std::int64_t log_every_steps = 50, divergence_check = 0, warmup_steps = 0;
  std::vector<Reduction> reductions;  ///< multi_step's, and the first of step's
  bool drop_last = false;             ///< of the sampler
  bool drop_last_batch = false;       ///< of the loader
  bool broadcast_buffers = true;
  std::uint64_t seed = 0;
  int loader_threads = 1, prefetch_batches = 4, keep = 3;
  std::int64_t max_rollbacks = 3;
  std::int64_t keep_best = 0, patience = 0;
  std::string best_by = "loss", patience_metric = "loss";
  double min_delta = 0;
  std::string checkpoint_folder;
  bool outlives_write_errors = false;
};
LoopOptions read_loop_options(const Options& job);

/// How a job of these options deals out an epoch's samples to its ranks.
DistributedSamplerOptions sampler_options(const LoopOptions& options, int ranks, int rank);

/// What `options` make of so many training samples in a world of so many ranks.
struct JobSize {
  World world;
  JobLength length;
  std::int64_t steps_per_epoch = 0;
  std::int64_t last_batch = 0;  ///< samples of a rank in the last batch of an epoch
  std::vector<Reduction> reductions;
};
/// Errors  Exception kConfig: not every rank gets a sample, or a whole batch where smaller ones are left out.
JobSize size_of_job(const LoopOptions& options, std::int64_t train_samples, int ranks);

/// The step after which the last checkpoint was due in a job that is at `position`, between two steps of an epoch; 0:
/// none was yet. Pure. In a world that has changed it is about that step.
std::int64_t last_due_checkpoint(const LoopOptions& options, const Position& position, const JobSize& size);

/// Optimizer steps until a job that is at `position` is complete, without early stopping. Pure.
std::int64_t steps_left(const Position& position, const JobSize& size);

/// Errors  Exception kConfig: from `position` on, a job of that size ends before its warm-up is over, or, where it is
///         at its beginning, before one of its reductions. A complete one is not refused.
void check_schedule(std::int64_t warmup_steps, const Position& position, const JobSize& size);

/// Errors  Exception kConfig: the last batch of an epoch is one sample, and the job's model, which normalizes batches,
///         does not learn from one alone.
void check_last_batch(const Options& job, const JobParts& parts, const DataShape& data, const JobSize& size);

}  // namespace ddprun::training

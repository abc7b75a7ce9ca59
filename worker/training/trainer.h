#pragma once

#include "rendezvous/base/clock.h"
#include "worker/data/dataset.h"
#include "worker/data/loader.h"
#include "worker/models/model.h"
#include "worker/training/console.h"
#include "worker/training/job_state.h"
#include "worker/training/metrics_log.h"
#include "worker/training/schedule.h"
#include "worker/training/train_config.h"
#include <ddprun/checkpoint.h>
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/distributed_sampler.h>
#include <ddprun/divergence.h>
#include <ddprun/drain.h>
#include <ddprun/init.h>
#include <ddprun/optim.h>

#include <memory>
#include <optional>
#include <string>

namespace ddprun::training {

/// What a trainer works with; all outlive it.
struct TrainerParts {
  const Context& context;
  const TrainConfig& config;
  std::string config_text;  ///< the merged job file, kept in every checkpoint
  const data::DataSplits& data;
  Console& console;
  MetricsLog& metrics;
  const Clock& clock;
  Drain& drain;
};

/// How a training ended.
enum class Ending {
  kComplete,
  kStopped,    ///< SIGTERM: all ranks stopped after the same step, which is in a checkpoint
  kAbandoned,  ///< SIGTERM, but other ranks did not come to the same step: nothing could be written
};

/// One rank's training: replica, optimizer, position, and the loop over epochs and steps.
///
/// Collective throughout: every rank makes one and calls the same functions in the same order.
class Trainer {
 public:
  /// Builds the model from the seed, or takes it from `checkpoint` with optimizer, position and generators.
  /// Errors  Exception kConfig when the checkpoint is of another model or optimizer.
  Trainer(TrainerParts parts, const PtDict* checkpoint);

  /// Trains until all epochs (or max_steps) are done, or the job is asked to stop.
  /// Errors  Exception; c10::Error and others of the process group.
  Ending run();

  [[nodiscard]] bool is_complete() const;
  [[nodiscard]] const Position& position() const { return position_; }
  [[nodiscard]] const JobLength& length() const { return length_; }
  /// Of the last checkpoint written by this process; empty without one. Rank 0 knows it.
  [[nodiscard]] const std::string& checkpoint_path() const { return checkpoint_path_; }

 private:
  using Ddp = DistributedDataParallel<std::shared_ptr<models::Model>>;

  void restore(const PtDict& checkpoint);
  /// False when the job shall stop before the epoch is done.
  bool run_epoch();
  Ending stop();
  void train_step(const data::Batch& batch);
  void after_step();
  void collect_loss();
  void end_epoch(double seconds, std::int64_t images);
  void save_checkpoint();
  void show_progress(double seconds, std::int64_t images);
  [[nodiscard]] data::LoaderOptions loader_options(std::int64_t batch_size) const;
  [[nodiscard]] bool wants_evaluation() const;
  [[nodiscard]] bool wants_checkpoint() const;

  TrainerParts parts_;
  const at::Device device_;
  std::shared_ptr<models::Model> model_;
  std::optional<Ddp> ddp_;
  std::unique_ptr<FusedOptimizer> optimizer_;
  std::optional<DivergenceCheck> divergence_check_;  ///< if the job wants one
  DistributedSampler sampler_;
  CheckpointDirectory checkpoints_;
  JobLength length_;
  Position position_;
  /// This rank's loss since `position_.epoch_loss` was last summed over the ranks: two doubles on the device.
  at::Tensor fresh_loss_;
  std::string checkpoint_path_;
};

}  // namespace ddprun::training

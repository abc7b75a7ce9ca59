#pragma once

#include "worker/training/parts/job_parts.h"
#include "worker/training/ranks/rank_block.h"
#include "worker/training/state/generators.h"
#include "worker/training/state/saved_part.h"
#include "worker/training/step/step.h"
#include <ddprun/init.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::training {

/// What a rank makes for itself before the ranks share the work.
struct Draft {
  std::shared_ptr<Model> model;
  std::unique_ptr<Task> task;
  std::string warning;         ///< what a person may not have meant; empty: nothing
  std::string foreign_prefix;  ///< of the names in the file that /model/weights names, left out; empty: none
  bool begins_with_average = false;  ///< of the weights in the file that /model/weights names
};

/// Draws the model's first weights from the job's seed; on rank 0 it begins with those that /model/weights names,
/// which DDP gives to the other ranks. A job that is resumed has its own. Not collective: what is wrong may be so
/// on one rank alone.
/// Errors  Exception: a model that does not fit the data, weights that cannot be read or do not fit the model, a
///         task that does not fit the data.
Draft make_draft(const Context& context, const Options& job, const JobParts& parts, const DataShape& data,
                 bool is_resumed);

/// What learns on one process, as one rank or several: model, strategy, task, optimizer, schedule, step and average,
/// as the job file describes them.
///
/// Collective: the ranks of a world make theirs together, from the same job file.
class Learner {
 public:
  /// Afterwards the generators of each rank go their own ways. `time` outlives this.
  Learner(const Context& context, const Options& job, const JobParts& parts, const DataShape& data,
          Draft draft, TimeSpent& time);

  /// One optimizer step of a job of `length`, at `progress`.
  StepOutcome step(const MicroBatches& micro_batches, const Progress& progress, const JobLength& length,
                   const StepHooks& hooks);

  /// The model that is judged: the average where there is one. Every rank has the same afterwards, buffers
  /// included. Collective.
  Model& evaluated();

  /// Those of its own that a job goes on from: "model", "optimizer", "schedule", "scaler", "ema", "rank_buffers".
  void add_saved_parts(SavedParts& parts);

  /// What an update changes in its memory: parameters, those that nothing changes as well, what the optimizer has of a
  /// state by now, the average. Of somebody else's model only what is trained: a forward may change what is not.
  [[nodiscard]] std::vector<at::Tensor> updated() const;
  /// What the next forward would do first on all ranks. Collective.
  void settle_buckets() { static_cast<void>(strategy_->bucket_order()); }

  /// Each rank's running statistics become rank 0's, as DDP has them before the next forward. Collective.
  void sync_buffers();

  /// The average begins with the model as it is.
  void begin_average();

  /// From here on model and generators are those of that rank of this process: of turn 0 between two steps.
  void turn_to(std::size_t turn) { strategy_->turn_to(turn); }

  /// Each rank of this process gets the running statistics that the model has.
  void spread_buffers() { strategy_->spread_buffers(); }

  /// What no training makes so, and is not finite now, a mask of infinities for instance, was so from the beginning:
  /// called there, and of a checkpoint of the disk, which has nothing else of that kind.
  void note_non_finite();
  /// Their names, for what is kept in memory, which may have others of that kind.
  [[nodiscard]] PtValue non_finite_from_start() const;
  void take_non_finite(const PtValue& names);
  /// The first parameter or buffer, of the model or of the average, that has come to hold something else than finite
  /// numbers, other than those of note_non_finite(); empty: none has. Of this rank: running statistics differ.
  [[nodiscard]] std::string first_non_finite() const;

  /// Whether steps are replayed from a graph by now.
  [[nodiscard]] bool is_recorded() const { return graph_ && graph_->is_recorded(); }

  /// The ranks that this process trains as.
  [[nodiscard]] const RankBlock& block() const { return block_; }
  [[nodiscard]] Generators& generators() { return generators_; }
  [[nodiscard]] Model& model() { return *model_; }
  [[nodiscard]] FusedOptimizer& optimizer() { return *optimizer_; }
  [[nodiscard]] const Task& task() const { return *task_; }
  [[nodiscard]] const StepOptions& step_options() const { return step_->options(); }

 private:
  [[nodiscard]] std::vector<at::Tensor> updated_parameters() const;

  RankBlock block_;
  Generators generators_;
  bool is_foreign_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<FusedOptimizer> optimizer_;
  double base_rate_;
  std::optional<Schedule> schedule_;
  std::set<std::string> non_finite_from_start_;  ///< what is not trained
  std::optional<AveragedModel> average_;
  std::optional<StepGraph> graph_;  ///< if the job wants one
  std::optional<Step> step_;
  /// What of model and average is in updated(), for good: strategy and optimizer have taken these, too. A model from
  /// elsewhere may freeze some meanwhile.
  std::vector<at::Tensor> updated_parameters_;
};

}  // namespace ddprun::training

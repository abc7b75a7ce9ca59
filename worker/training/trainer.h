#pragma once

#include "rendezvous/base/clock.h"
#include "worker/data/loader.h"
#include "worker/training/batches/copy_lane.h"
#include "worker/training/batches/epoch_rest.h"
#include "worker/training/being_saved.h"
#include "worker/training/fresh_losses.h"
#include "worker/training/job_size.h"
#include "worker/training/observers/observer.h"
#include "worker/training/observers/step_trace.h"
#include "worker/training/parts/job_data.h"
#include "worker/training/parts/job_parts.h"
#include "worker/training/ranks/rank_block.h"
#include "worker/training/resume/memory_checkpoints.h"
#include "worker/training/resume/resume.h"
#include "worker/training/state/saved_part.h"
#include "worker/training/state/time_spent.h"
#include "worker/training/state/timeline.h"
#include "worker/training/step/learner.h"
#include <ddprun/checkpoint.h>
#include <ddprun/checkpointer.h>
#include <ddprun/divergence.h>
#include <ddprun/drain.h>
#include <ddprun/init.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddprun::training {

/// What a trainer works with; all outlive it.
struct TrainerParts {
  const Context& context;
  const Options& job;  ///< the checked job file
  const JobParts& parts;
  const DataSplits& data;
  const Observers& observers;
  const Clock& clock;
  Drain& drain;
  std::span<const JudgingData> judging{};  ///< beside data.held_out
  /// The newest whole checkpoint of the job, on every rank. Collective.
  std::function<std::optional<ResumePoint>()> newest_checkpoint{};
  StepTrace* trace = nullptr;           ///< null: no step is traced
  Timeline timeline{};                  ///< of the checkpoints that it writes
  MemoryCheckpoints* memory = nullptr;  ///< null: none are kept in memory
  /// Of a job that goes on from memory: the step of its newest checkpoint on the disk; -1: it has none.
  std::optional<std::int64_t> newest_on_disk{};
};

/// One process's training, as one rank or several: the loop over epochs and steps, with evaluations and checkpoints
/// where they are due.
///
/// Collective throughout: every process makes one and calls the same functions in the same order.
class Trainer {
 public:
  /// Errors  Exception kConfig: parts of the job do not fit each other.
  Trainer(TrainerParts parts, Draft draft);

  /// Goes on from `checkpoint`. Not collective: all ranks have the same one.
  /// Errors  Exception kConfig when it is of another model or optimizer.
  void restore(const PtDict& checkpoint);
  /// The same with what the ranks had left in memory.
  /// Errors  also kCorrupt.
  void restore(const RankState& state);

  /// Errors  Exception kConfig: from here on the job's schedule would not fit its length. The same on every rank.
  void check() const;

  /// Tells the observers how it begins; `resumed_from` is the path of what was restored.
  void start(const std::optional<std::string>& resumed_from);

  /// Trains until all epochs (or max_steps) are done, or the job is asked to stop, and tells the observers.
  /// Errors  Exception kConfig: a loss or a weight is not a finite number; what is kept in memory is of no use any more
  ///         then. c10::Error and others of the process group.
  Ending run();

  [[nodiscard]] bool is_complete() const { return training::is_complete(position_, length_); }
  /// Whether run() has anything to do: steps, or what follows the last one, which left its state in memory.
  [[nodiscard]] bool has_work() const { return !is_complete() || parts_.newest_on_disk; }
  [[nodiscard]] const Position& position() const { return position_; }
  [[nodiscard]] Model& model() { return learner_.model(); }
  /// The model that is judged, the same on every rank. Collective.
  Model& evaluated() { return learner_.evaluated(); }

 private:
  /// Everything saved, as far as it is of this job. Returns the keys that the checkpoint lacks.
  std::vector<std::string> take_over(const PtDict& checkpoint);
  Ending run_to_end();
  Ending train();
  /// False when the job shall stop before the epoch is done.
  bool run_epoch();
  Ending stop();
  /// By turn, the samples of a step of a rank of this process.
  using Samples = EpochRest::Samples;
  /// False: the job has gone back to a checkpoint.
  bool step(const MicroBatches& micro_batches, const Samples& samples);
  /// What was not finite, where, and with which samples, if something was on some rank. The same on every rank.
  /// Collective.
  [[nodiscard]] std::optional<std::string> what_broke(const StepOutcome& outcome,
                                                      const Samples& samples) const;
  /// Takes weights and all else from the newest checkpoint, and goes on after the samples of the step that broke.
  void roll_back(const std::string& what);
  void say_damaged();
  void after_step(double seconds, std::int64_t units);
  /// Where the step is logged: sums the losses, if they are due, and tells the observers.
  void tell_step(double seconds, std::int64_t units);
  void begin_traced_step();
  void end_traced_step();
  /// Of an epoch, or of the job: what is due then.
  void end_epoch(double seconds, std::int64_t units);
  /// Sums this process's since the last time into the position's. Whether some one has said `is_broken`. Collective.
  bool collect_loss(bool is_broken = false);
  void sync_buffers_for_check();
  void evaluate_all();
  [[nodiscard]] Evaluation evaluate_on(const DataSource& source, const std::string& name);
  /// The metric of that name. Errors: Exception kConfig, naming `key` and the metrics there are.
  [[nodiscard]] Metric metric_named(const std::string& name, const std::string& key) const;
  /// What `best_by` has found, if it belongs to the best. The same on every rank. Collective.
  [[nodiscard]] std::optional<double> value_to_keep();
  [[nodiscard]] CheckpointerOptions checkpointer_options();
  /// Has the newest checkpoint written, or one of the best, or both. Collective.
  void save_checkpoint(const SaveAs& as = {});
  /// Waits until all are on the disk. Collective.
  /// Errors  Exception, on every rank: one could not be written, or, where such are outlived, the last one of the job.
  void flush_checkpoints(bool are_last = false);
  [[nodiscard]] std::string other_best_in_words() const;
  /// On rank 0; empty: there is none, or the folder cannot be read.
  [[nodiscard]] std::string best_path() const;
  [[nodiscard]] bool is_due_by_steps() const;
  [[nodiscard]] bool is_due_in_memory() const;
  /// Leaves the state after this step in memory, where it is copied. Collective.
  void keep_in_memory();
  // In each step, where it is kept in place.
  [[nodiscard]] bool keeps_in_place() const {
    return parts_.memory != nullptr && parts_.memory->is_in_place();
  }
  [[nodiscard]] StepHooks hooks_of_memory();
  [[nodiscard]] PtDict own_half() const;
  void before_update();
  void keep_own_half(std::int64_t step);
  void keep_common_half();
  /// `keep`, or a line that says why nothing is kept any more.
  void keep_if_there_is_memory(const std::function<void()>& keep) const;
  void forget_memory();
  void tell_saved(const SavedCheckpoint& saved);
  void tell_not_saved(std::int64_t step, const Exception& why);
  [[nodiscard]] std::int64_t steps_per_epoch() const;
  [[nodiscard]] EpochRest rest_of_epoch();
  [[nodiscard]] bool is_due(std::int64_t every_epochs) const;
  [[nodiscard]] data::LoaderOptions loader_options(std::int64_t batch_size) const;
  template <class Event>
  void tell(void (Observer::*what)(const Event&), const Event& event) const {
    for (const auto& observer : parts_.observers) (*observer.*what)(event);
  }

  TrainerParts parts_;
  LoopOptions options_;
  std::shared_ptr<const DataSource> batches_;  ///< what is trained on, as it is learned from
  at::Device device_;
  std::unique_ptr<CopyLane> lane_;  ///< on which training batches get there; null on the CPU
  RankBlock block_;
  TimeSpent time_;
  Learner learner_;
  AboutJob about_;
  SavedParts saved_;
  std::vector<std::string> parts_that_begin_anew_;
  Metric best_by_;
  Checkpointer checkpointer_;
  std::optional<std::string> last_trouble_;  ///< why the last one that failed did, if none was saved since
  BeingSaved being_saved_;                   ///< of rank 0: what it has given to `checkpointer_`
  EarlyStopping early_stopping_;
  std::optional<DivergenceCheck> divergence_check_;  ///< if the job wants one
  JobSize size_;
  World world_;
  JobLength length_;
  Position position_;
  FreshLosses fresh_losses_;        ///< since `position_.epoch_loss` was last summed over the ranks
  std::int64_t damaged_files_ = 0;  ///< of this rank's that a person knows of
  std::string checkpoint_path_;     ///< the last one written by this process; rank 0 knows it
};

}  // namespace ddprun::training

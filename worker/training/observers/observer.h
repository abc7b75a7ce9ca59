#pragma once

#include "worker/training/state/position.h"
#include <ddprun/trainer/batch.h>
#include <ddprun/trainer/task.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::training {

/// How a training ended.
enum class Ending {
  kComplete,
  kStopped,    ///< SIGTERM: all ranks stopped after the same step, which is in a checkpoint
  kAbandoned,  ///< SIGTERM, but other ranks did not come to the same step: nothing could be written
};

/// "complete", "stopped", "abandoned".
std::string to_string(Ending ending);

/// What is known when a training begins.
struct StartEvent {
  const Position& position;
  const JobLength& length;
  const DataShape& data;
  const std::vector<Metric>& metrics;
  const std::vector<Metric>& more_metrics;  ///< of /evaluate's data: "name/accuracy"
  std::int64_t train_samples = 0;
  std::int64_t held_out_samples = 0;
  std::int64_t steps_per_epoch = 1;
  World world;                                     ///< of now; position.world is of before
  std::int64_t processes = 1;                      ///< that the world's ranks live on
  std::optional<std::string> resumed_from;         ///< path of a checkpoint
  std::vector<std::string> parts_that_begin_anew;  ///< keys that the checkpoint lacks
  std::string other_best{};  ///< of a resumed job: what is said of best checkpoints that it keeps no more
};

/// After each optimizer step.
struct StepEvent {
  const Position& position;
  double learning_rate = 0;
  std::int64_t steps_per_epoch = 1;
  /// Every log.every_steps: the mean over all ranks since the last one.
  std::optional<double> loss;
  /// The mean of the epoch so far, with what this rank has added since it was last summed. Waits for the device.
  const std::function<double()>& loss_so_far;
  double seconds = 0;      ///< since this process began the epoch
  std::int64_t units = 0;  ///< of the data's unit, by all ranks, in these seconds
};

/// After an epoch, or the part of it that max_steps left, with its evaluation and checkpoint: what a person has
/// seen finished is not lost any more.
struct EpochEvent {
  const Position& position;
  std::int64_t number = 1;
  LossSum train_loss;
  double seconds = 0;
  std::int64_t units = 0;
  double learning_rate = 0;
  const Evaluation* evaluation = nullptr;  ///< null: none was due
};

/// The numbers of an epoch under the names that files give them: "loss", "held_out_loss", "accuracy",
/// "images_per_second" (`rate`), "name/accuracy" of more data. `metrics` are the task's.
std::map<std::string, double> epoch_numbers(const EpochEvent& event, const std::vector<Metric>& metrics,
                                            const std::string& rate);

struct EvaluationEvent {
  const Position& position;
  const Evaluation& evaluation;
  double seconds = 0;
  std::string name = "held_out";  ///< of the data
};

/// One is on the disk; the steps have gone on meanwhile.
struct CheckpointEvent {
  const Position& position;  ///< that is in it
  const std::string& path;
  double seconds = 0;
  bool is_best = false;  ///< one that an evaluation chose, beside the newest
};

/// A checkpoint could not be written, and the job goes on without it.
struct CheckpointFailureEvent {
  std::int64_t step = 0;
  const std::string& why;
};

/// A step whose loss or gradients were no finite numbers has sent the job back.
struct RollbackEvent {
  const Position& position;  ///< of now
  std::int64_t broken_step = 0;
  const std::string& what;  ///< was not finite, where, and with which samples
  const std::string& path;  ///< of the checkpoint
  std::int64_t most = 0;    ///< rollbacks that the job may have
};

/// From this step on, forward and backward of most steps are replayed from a graph.
struct RecordingEvent {
  std::int64_t step = 0;
};

struct EndEvent {
  Ending ending = Ending::kComplete;
  const Position& position;
  double seconds = 0;
  /// Of each rank: seconds by activity (time_spent.h), then those of everything else. Empty unless complete.
  std::vector<std::vector<double>> times_of_ranks{};
  std::string checkpoint_path;  ///< the last one of this process; empty: none
  std::string best_path;        ///< of the best checkpoint; empty: none is kept
  int signal = 0;               ///< that stopped it
};

/// An error has ended the training; the process follows.
struct FailureEvent {
  const Position& position;  ///< after the last step that was made
  const std::string& what;   ///< in a sentence
};

/// Watches a training on rank 0. What one does is not collective, changes nothing, and does not last: a step
/// waits for it.
///
/// Order  on_start; for each step on_step; at the end of an epoch on_evaluation and on_checkpoint, if they are
///        due, then on_epoch; on_checkpoint, on_rollback and on_recording also between steps; on_end, or on_failure
///        from wherever an error came.
class Observer {
 public:
  virtual ~Observer() = default;
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  virtual void on_start(const StartEvent& /*event*/) {}
  virtual void on_step(const StepEvent& /*event*/) {}
  virtual void on_evaluation(const EvaluationEvent& /*event*/) {}
  virtual void on_checkpoint(const CheckpointEvent& /*event*/) {}
  virtual void on_checkpoint_failure(const CheckpointFailureEvent& /*event*/) {}
  virtual void on_rollback(const RollbackEvent& /*event*/) {}
  virtual void on_recording(const RecordingEvent& /*event*/) {}
  virtual void on_epoch(const EpochEvent& /*event*/) {}
  virtual void on_end(const EndEvent& /*event*/) {}
  virtual void on_failure(const FailureEvent& /*event*/) {}
};

/// Empty on every rank but 0.
using Observers = std::vector<std::unique_ptr<Observer>>;

}  // namespace ddprun::training

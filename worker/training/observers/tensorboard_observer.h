#pragma once

#include "worker/training/observers/event_file.h"
#include "worker/training/observers/observer.h"

#include <functional>
#include <string>
#include <vector>

namespace ddprun::training {

/// A training as TensorBoard shows it: train/loss and train/learning_rate by step, and of each evaluation
/// held_out/<metric> and, for /evaluate's data, <name>/<metric>; train/<unit>_per_second by epoch.
class TensorBoardObserver final : public Observer {
 public:
  /// `warn` is told once when the disk takes no more.
  TensorBoardObserver(EventFile file, std::function<void(const std::string& text)> warn);

  void on_start(const StartEvent& event) override;
  void on_step(const StepEvent& event) override;
  void on_rollback(const RollbackEvent& event) override;
  void on_evaluation(const EvaluationEvent& event) override;
  void on_epoch(const EpochEvent& event) override;

 private:
  /// What comes after `step` is told anew.
  void begin_after(std::int64_t step);
  void check(bool is_written);
  void write(std::int64_t step, const std::vector<Scalar>& scalars);

  EventFile file_;
  std::function<void(const std::string& text)> warn_;
  std::string rate_;
  bool is_full_ = false;
};

}  // namespace ddprun::training

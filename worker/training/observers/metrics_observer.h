#pragma once

#include "worker/training/observers/metrics_log.h"
#include "worker/training/observers/observer.h"

#include <string>
#include <vector>

namespace ddprun::training {

/// A training as JSON lines: "start", "step", "checkpoint", "rollback", "epoch", "end". Of one that an error ended the
/// last is an "end", too, whose "ending" is "failed".
class MetricsObserver final : public Observer {
 public:
  struct Facts {
    std::string backend;
    int restart_count = 0;
    std::string restart_cause;  ///< what the launcher says of it; may be empty
  };
  MetricsObserver(MetricsLog& log, Facts facts);

  void on_start(const StartEvent& event) override;
  void on_step(const StepEvent& event) override;
  void on_checkpoint(const CheckpointEvent& event) override;
  void on_rollback(const RollbackEvent& event) override;
  void on_epoch(const EpochEvent& event) override;
  void on_end(const EndEvent& event) override;
  void on_failure(const FailureEvent& event) override;

 private:
  MetricsLog& log_;
  Facts facts_;
  std::vector<Metric> metrics_;
  JobLength length_;
  std::string rate_;
};

}  // namespace ddprun::training

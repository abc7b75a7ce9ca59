#pragma once

#include "worker/training/observers/console.h"
#include "worker/training/observers/observer.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ddprun::training {

/// A training as a person reads it: what is trained on what, a line an epoch, the live line, and at the end where
/// everything lies.
class ConsoleObserver final : public Observer {
 public:
  struct Facts {
    std::string model;         ///< type
    std::string device;        ///< of this rank
    std::string backend_line;  ///< why this backend and device; may be empty
    std::int64_t batch_size = 1;
    bool are_virtual = false;     ///< the ranks (/train/virtual_ranks)
    std::string resume = "auto";  ///< the job file's choice
    std::string output_dir;
    std::string metrics_path;
    std::string report_path;        ///< empty: none is written
    std::string working_directory;  ///< from which paths are shown
    /// Asked for the live line: bytes that this rank has taken of its GPU; 0, or empty: it has none.
    std::function<std::int64_t()> gpu_bytes;
    /// Asked at the end: records that the metrics file did not take.
    std::function<std::int64_t()> lost_records;
  };
  ConsoleObserver(Console& console, Facts facts);

  void on_start(const StartEvent& event) override;
  void on_step(const StepEvent& event) override;
  void on_checkpoint_failure(const CheckpointFailureEvent& event) override;
  void on_rollback(const RollbackEvent& event) override;
  void on_recording(const RecordingEvent& event) override;
  void on_epoch(const EpochEvent& event) override;
  void on_end(const EndEvent& event) override;

 private:
  void say_resumed(const StartEvent& event);
  void say_complete(const EndEvent& event);
  void say_already_complete(const StartEvent& event);
  void say_stopped(const EndEvent& event);
  [[nodiscard]] std::string shown(const std::string& path) const;

  Console& console_;
  Facts facts_;
  std::vector<Metric> metrics_;
  JobLength length_;
  std::string unit_;
  std::int64_t units_per_sample_ = 1;
  std::int64_t held_out_units_ = 0;
};

/// The metrics of `evaluation` for a line of text: "accuracy 97.00 %"; where there is no other, "held-out loss
/// 0.1234". Of other data than the held-out its `name` comes before each: "name/accuracy 95.00 %".
std::string metrics_in_words(const std::vector<Metric>& metrics, const Evaluation& evaluation,
                             const std::string& name = "");

/// What makes a job that is complete at `position` twice as long: "/train/epochs=6".
std::string setting_to_train_on(const Position& position, const JobLength& length);

/// Why a job has ended before its epochs did.
std::string early_stop_in_words(const std::vector<Metric>& metrics, const Plateau& plateau);

}  // namespace ddprun::training

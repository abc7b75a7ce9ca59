#pragma once

#include "worker/training/state/time_spent.h"
#include "worker/training/step/step_graph.h"
#include "worker/training/step/strategy.h"
#include <ddprun/averaged_model.h>
#include <ddprun/grad_scaler.h>
#include <ddprun/optim.h>
#include <ddprun/trainer/model.h>
#include <ddprun/trainer/options.h>
#include <ddprun/trainer/task.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::training {

enum class Precision { kFp32, kTf32, kBf16, kFp16 };

/// What a step does when a loss or a gradient is not finite.
enum class NonFinite {
  kStop,      ///< ends the job, before the weights have changed where the loss tells
  kSkip,      ///< leaves the step out on all ranks
  kRollBack,  ///< says so, at once: everything goes back to what it was earlier
};

struct StepOptions {
  Precision precision = Precision::kFp32;
  double clip_grad_norm = 0;   ///< 0: not clipped
  double clip_grad_value = 0;  ///< 0: not clipped
  NonFinite non_finite = NonFinite::kStop;
};

/// From the job file's /train.
StepOptions read_step_options(const Options& train);

/// The batches of one step, taken one at a time, so that the device holds one. Their mean losses count alike.
struct MicroBatches {
  std::int64_t count = 1;       ///< of each rank that this process trains as
  std::function<Batch()> next;  ///< on the device: `count` of the first rank, and so on in the order of turns
  /// By turn, where they are not as large: how much each one counts, on average 1 / count. 0: it only keeps a place,
  /// and of it no more is left than what it does to that rank's running statistics. Empty: all count alike.
  std::vector<std::vector<double>> weights{};
};

struct StepOutcome {
  /// What the micro batches had together, doubles on the device, a row for each rank of this process: the loss summed
  /// over that rank's items, and how many they were. What NonFinite::kSkip leaves out counts as no item.
  at::Tensor loss_and_items;
  /// False: this rank's loss is not finite, and NonFinite::kStop left everything as it was. Only the CPU
  /// knows at once; of a GPU the sums tell it later. With kRollBack: the loss or a gradient is not, and what the
  /// step has left is of no use; this waits for a GPU.
  bool is_finite = true;
  std::size_t turn = 0;  ///< of the rank whose loss is not finite, with NonFinite::kStop
};

/// Called within a step of one turn, outside of a graph; none of both need be.
struct StepHooks {
  /// All losses are known, nothing is drawn any more, and no rank can have this step's gradients yet.
  std::function<void(const StepOutcome&)> before_last_backward{};
  /// All ranks have the gradients.
  std::function<void()> before_update{};
};

/// One optimizer step: forward and backward of its micro batches, clipping, update, average.
///
/// Collective: the gradients are averaged over all ranks in the backward of the last micro batch, or after the last
/// turn.
class Step {
 public:
  /// What it works on; all outlive it. `average` and `graph` may be null.
  struct Parts {
    Strategy& strategy;
    const Model& model;
    FusedOptimizer& optimizer;
    const Task& task;
    AveragedModel* average = nullptr;
    StepGraph* graph = nullptr;  ///< for steps of one micro batch that the device need not be waited for
    at::Device device{at::kCPU};
    TimeSpent& time;
  };
  Step(const Parts& parts, const StepOptions& options);

  StepOutcome run(const MicroBatches& micro_batches, double learning_rate, const StepHooks& hooks = {});

  [[nodiscard]] GradScaler& scaler() { return scaler_; }
  [[nodiscard]] const StepOptions& options() const { return options_; }

 private:
  at::Tensor loss_of(const Batch& batch);
  /// Forward and backward of all micro batches. False: stopped, with the weights as they were.
  bool learn(const MicroBatches& micro_batches, StepOutcome& outcome, const StepHooks& hooks);
  bool learn_as(std::size_t turn, const MicroBatches& micro_batches, StepOutcome& outcome,
                const StepHooks& hooks);
  void learn_in_graph(const MicroBatches& micro_batches, StepOutcome& outcome);
  [[nodiscard]] at::Tensor told_to_scaler(const at::Tensor& share, const at::Tensor& loss) const;
  [[nodiscard]] at::Tensor counted(const at::Tensor& loss, std::int64_t items) const;
  [[nodiscard]] bool is_all_finite(const StepOutcome& outcome) const;
  [[nodiscard]] bool must_stop(const at::Tensor& loss) const;
  void clip();

  Parts parts_;
  StepOptions options_;
  GradScaler scaler_;
  /// In the model's order, as Python has them: the last bit of a norm of norms depends on it.
  std::vector<at::Tensor> clipped_;
};

/// How a forward of the job's precision is run, in training and in evaluation.
[[nodiscard]] std::optional<c10::ScalarType> autocast_dtype(Precision precision);

}  // namespace ddprun::training

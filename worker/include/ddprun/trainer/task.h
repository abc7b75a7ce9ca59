#pragma once

#include <ddprun/trainer/batch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// A number by which a model is judged: a sum over items, divided by how many there are.
struct Metric {
  enum class Better { kLower, kHigher };
  std::string name;  ///< "loss", "accuracy"
  Better better = Better::kLower;
  bool is_share = false;  ///< in 0…1, shown in percent
};

/// What is learned: loss and metrics over a batch. An item is what the loss is a mean of: a sample, or a token.
///
/// Threads  one at a time. Not collective: the trainer adds up over ranks.
class Task {
 public:
  virtual ~Task();
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// What gradients come from: a scalar, the mean over the batch's items. `output` is the model's, `batch` is
  /// on its device.
  [[nodiscard]] virtual at::Tensor loss(const at::Tensor& output, const Batch& batch) const = 0;

  /// How many items a batch has.
  [[nodiscard]] virtual std::int64_t items(const Batch& batch) const { return batch.samples; }

  /// What `sums` gives, in its order; the first one is "loss".
  [[nodiscard]] virtual std::vector<Metric> metrics() const = 0;

  /// The metrics of a batch, each summed over its items: double, [metrics], on the output's device. Without
  /// what only training has, such as label smoothing.
  [[nodiscard]] virtual at::Tensor sums(const at::Tensor& output, const Batch& batch) const = 0;
};

}  // namespace ddprun

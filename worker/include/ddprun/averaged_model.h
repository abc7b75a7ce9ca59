#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace torch::nn {
class Module;
}

namespace ddprun {

struct AveragedModelOptions {
  /// Exponential moving average: average · decay + model · (1 − decay). None: the mean of all updates (SWA).
  std::optional<double> decay = 0.999;
  /// Average buffers as well; else they are the model's newest.
  bool use_buffers = false;
};

/// A second model whose parameters are the average of those of the one in training:
/// torch.optim.swa_utils.AveragedModel.
///
///     AveragedModel ema(std::make_shared<NetImpl>(), {.decay = 0.999});
///     …
///     optimizer.step();
///     ema.update_parameters(*model);
///
/// The first update copies the model. With a decay the bits are those of Python's
/// get_ema_multi_avg_fn(decay), without one those of its default on the CPU. Not collective: ranks whose
/// models are equal have equal averages.
/// Device  the averages stay on the device of `average`, to which the model's tensors are copied.
/// Errors  Exception kConfig for a decay outside [0, 1], and where the two models differ in their tensors.
/// Source  Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", 2018.
class AveragedModel {
 public:
  /// `average` has the tensors of the model in training, with any values.
  explicit AveragedModel(std::shared_ptr<torch::nn::Module> average,
                         const AveragedModelOptions& options = {});

  void update_parameters(const torch::nn::Module& model);

  [[nodiscard]] const std::shared_ptr<torch::nn::Module>& module() const { return module_; }
  [[nodiscard]] std::int64_t n_averaged() const { return n_averaged_; }
  /// For a checkpoint (checkpoint.h), with the module's own state.
  void set_n_averaged(std::int64_t count) { n_averaged_ = count; }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  AveragedModelOptions options_;
  std::int64_t n_averaged_ = 0;
};

}  // namespace ddprun

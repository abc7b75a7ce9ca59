#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// What zero_grad() leaves of a gradient.
enum class ZeroGrad {
  kReset,    ///< nothing, as by default in Python: the next backward saves filling, adding and scaling it
  kInPlace,  ///< zeros in the same memory: parameters that get no gradient are then updated as well
};

/// An optimizer whose step is one ATen fused kernel per call: the one Python runs with `fused=True`, so that
/// both end with the same bits. State and hyperparameters have the names and the order of Python's
/// `state_dict()`.
///
/// Not collective: DistributedDataParallel has already averaged the gradients.
class FusedOptimizer {
 public:
  /// State of one parameter by Python's names and in its order: "momentum_buffer", or "step" (a float32
  /// scalar), "exp_avg", "exp_avg_sq", "max_exp_avg_sq". Empty before the parameter's first step.
  using ParameterState = std::vector<std::pair<std::string, at::Tensor>>;
  /// One entry of Python's param_groups, without "params": name and value in Python's order.
  using Hyperparameters = std::vector<std::pair<std::string, c10::IValue>>;

  explicit FusedOptimizer(std::vector<at::Tensor> parameters);
  virtual ~FusedOptimizer() = default;

  /// Updates every parameter that has a gradient.
  virtual void step() = 0;
  /// Ends the accumulation of gradients. With either way, gradients that are views into DDP's buckets are
  /// such views again after the next backward.
  void zero_grad(ZeroGrad how = ZeroGrad::kReset);

  [[nodiscard]] virtual std::string name() const = 0;  ///< "SGD", "Adam" or "AdamW", Python's class
  [[nodiscard]] virtual double learning_rate() const = 0;
  virtual void set_learning_rate(double learning_rate) = 0;

  [[nodiscard]] virtual Hyperparameters hyperparameters() const = 0;
  /// One entry per parameter. Tensors are shared, not copied.
  [[nodiscard]] virtual std::vector<ParameterState> state() const = 0;
  /// Copies what `state()` gave, of this or another process. Throws Exception kConfig, naming parameter
  /// index, entry and shapes, for what does not fit; then nothing has changed.
  virtual void load_state(const std::vector<ParameterState>& state) = 0;

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const { return parameters_; }

 protected:
  std::vector<at::Tensor> parameters_;
};

struct FusedSgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};

/// Stochastic gradient descent, torch.optim.SGD(fused=True). Sparse gradients are subtracted as they are;
/// momentum and weight decay throw Exception kConfig then.
class FusedSgd final : public FusedOptimizer {
 public:
  FusedSgd(std::vector<at::Tensor> parameters, const FusedSgdOptions& options);

  void step() override;
  [[nodiscard]] std::string name() const override { return "SGD"; }
  [[nodiscard]] double learning_rate() const override { return options_.lr; }
  void set_learning_rate(double learning_rate) override { options_.lr = learning_rate; }
  [[nodiscard]] const FusedSgdOptions& options() const { return options_; }
  [[nodiscard]] Hyperparameters hyperparameters() const override;
  [[nodiscard]] std::vector<ParameterState> state() const override;
  void load_state(const std::vector<ParameterState>& state) override;

 private:
  FusedSgdOptions options_;
  std::vector<at::Tensor> momentum_buffers_;  // undefined until a parameter's first step
};

struct FusedAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
  /// Decay the weights themselves and not through the gradient: AdamW.
  bool decoupled_weight_decay = false;
};

/// torch.optim.Adam(fused=True), and with decoupled weight decay torch.optim.AdamW(fused=True).
/// Errors  c10::Error for sparse gradients, as in Python.
class FusedAdam final : public FusedOptimizer {
 public:
  FusedAdam(std::vector<at::Tensor> parameters, const FusedAdamOptions& options);

  void step() override;
  [[nodiscard]] std::string name() const override {
    return options_.decoupled_weight_decay ? "AdamW" : "Adam";
  }
  [[nodiscard]] double learning_rate() const override { return options_.lr; }
  void set_learning_rate(double learning_rate) override { options_.lr = learning_rate; }
  [[nodiscard]] const FusedAdamOptions& options() const { return options_; }
  [[nodiscard]] Hyperparameters hyperparameters() const override;
  [[nodiscard]] std::vector<ParameterState> state() const override;
  void load_state(const std::vector<ParameterState>& state) override;

 private:
  struct Moments {  // undefined until the parameter's first step
    at::Tensor step, exp_avg, exp_avg_sq, max_exp_avg_sq;
  };
  void ensure_moments(std::size_t index);

  FusedAdamOptions options_;
  std::vector<Moments> moments_;
};

}  // namespace ddprun

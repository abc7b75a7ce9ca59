#pragma once

#include <ddprun/optim.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace ddprun {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;             ///< > 1
  double backoff_factor = 0.5;          ///< < 1
  std::int64_t growth_interval = 2000;  ///< so many steps without an overflow, and the scale grows
  bool enabled = true;                  ///< false: scale() and update() do nothing, step() is the optimizer's
};

/// What a GradScaler's state_dict() holds.
struct GradScalerState {
  double scale = 65536, growth_factor = 2, backoff_factor = 0.5;
  std::int64_t growth_interval = 2000, growth_tracker = 0;
};

/// Scales the loss so that float16 gradients do not vanish, leaves out steps whose gradients overflow, and
/// finds the scale: torch.amp.GradScaler, with the same history of scales.
///
///     GradScaler scaler;
///     scaler.scale(loss).backward();
///     scaler.unscale_(optimizer);  // only to look at gradients or to clip them
///     clip_grad_norm_(optimizer.parameters(), 1.0);
///     scaler.step(optimizer);
///     scaler.update();
///
/// Device   the scale is a float32 scalar on the device of the first tensor that is scaled. Nothing waits for
///          a device but get_scale(), state(), step() of an optimizer that cannot leave out a step itself
///          (supports_scale() false, and libtorch's own), and the first step of a FusedSgd with momentum and
///          dampening.
/// Order    not collective: after DistributedDataParallel's all-reduce an overflow of one rank is
///          everybody's, so all ranks leave out the same steps and have the same scale. But for join(): a rank
///          whose input ended early makes no more steps, and its scale stays behind (join.h).
/// Errors   Exception kConfig, and what to call first, for calls in the wrong order and for float16
///          parameters.
/// Threads  none: one thread at a time.
/// Source   Micikevicius et al., "Mixed Precision Training", ICLR 2018; torch/amp/grad_scaler.py
class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});

  /// `output` times the scale, as a part of its graph.
  [[nodiscard]] at::Tensor scale(const at::Tensor& output);

  /// Divides the gradients by the scale, and notes whether one is not finite. At most once before each step.
  void unscale_(FusedOptimizer& optimizer);
  void unscale_(torch::optim::Optimizer& optimizer);

  /// The optimizer's step, with gradients unscaled, unless one of them is not finite.
  void step(FusedOptimizer& optimizer);
  void step(torch::optim::Optimizer& optimizer);

  /// Between step() and update(): a scalar on the device of the scale, 0 where the step was made, else more.
  /// Undefined where the scaler is not enabled.
  [[nodiscard]] at::Tensor found_inf(const FusedOptimizer& optimizer) const;

  /// The scale of the next step; after the step() of every optimizer.
  void update();
  /// Sets it.
  void update(double new_scale);

  [[nodiscard]] bool is_enabled() const { return options_.enabled; }
  [[nodiscard]] double get_scale() const;  ///< 1 where it is not enabled

  [[nodiscard]] GradScalerState state() const;
  void load_state(const GradScalerState& state);

 private:
  enum class Stage { kReady, kUnscaled, kStepped };
  struct PerOptimizer {
    Stage stage = Stage::kReady;
    std::vector<at::Tensor> found_inf;  // one per device
  };

  void make_scale(const at::Device& device);
  void check_scaled(const char* function) const;
  PerOptimizer& unscaled(const void* optimizer, const std::vector<at::Tensor>& parameters);
  bool wants_step(const void* optimizer, const std::vector<at::Tensor>& parameters);
  PerOptimizer& not_stepped(const void* optimizer);

  GradScalerOptions options_;
  std::int64_t initial_tracker_ = 0;
  at::Tensor scale_, growth_tracker_;  // undefined until something was scaled
  std::map<const void*, PerOptimizer> per_optimizer_;
};

}  // namespace ddprun

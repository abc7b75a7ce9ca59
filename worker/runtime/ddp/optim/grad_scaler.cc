#include "worker/runtime/ddp/optim/tensor_lists.h"
#include <ddprun/exception.h>
#include <ddprun/grad_scaler.h>

#include <fmt/format.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace ddprun {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw Exception(ErrorCode::kConfig, "GradScaler: " + text);
}

std::vector<at::Tensor> parameters_of(torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  }
  return runtime::each_once(parameters);
}

enum class Float16 { kAllowed, kRefused };

// The memory of the gradients: of sparse ones their values, in which no index comes twice.
std::vector<at::Tensor> values_of_gradients(const std::vector<at::Tensor>& parameters, Float16 float16) {
  std::vector<at::Tensor> values;
  for (const at::Tensor& parameter : parameters) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) continue;
    const bool is_half = gradient.scalar_type() == at::kHalf;
    if (is_half && float16 == Float16::kRefused) {
      refuse("a gradient is float16; keep the parameters in float32 and compute under AutocastGuard");
    }
    if (gradient.is_sparse() && is_half) gradient = gradient.coalesce();
    values.push_back(gradient.is_sparse() ? gradient._values() : gradient);
  }
  return values;
}

// Multiplies by `inverse_scale`; for each device a scalar that is 1 if a value is not finite, else 0.
std::vector<at::Tensor> unscale(const std::vector<at::Tensor>& values, const at::Tensor& inverse_scale) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> found_inf;
  for (const std::vector<at::Tensor>& list : runtime::by_device_and_dtype(values)) {
    const at::Device device = list.front().device();
    std::size_t i = 0;
    while (i < found_inf.size() && found_inf[i].device() != device) ++i;
    if (i == found_inf.size())
      found_inf.push_back(at::zeros({}, at::TensorOptions(device).dtype(at::kFloat)));
    at::_amp_foreach_non_finite_check_and_unscale_(list, found_inf[i],
                                                   runtime::copied_to(device, inverse_scale));
  }
  return found_inf;
}

at::Tensor sum_on(const at::Device& device, const std::vector<at::Tensor>& scalars) {
  at::Tensor sum = runtime::copied_to(device, scalars.front());
  for (std::size_t i = 1; i < scalars.size(); ++i) sum = sum + runtime::copied_to(device, scalars[i]);
  return sum;
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  if (!(options.growth_factor > 1))
    refuse(fmt::format("growth_factor is {}; it has to be above 1", options.growth_factor));
  if (!(options.backoff_factor < 1))
    refuse(fmt::format("backoff_factor is {}; it has to be below 1", options.backoff_factor));
}

void GradScaler::make_scale(const at::Device& device) {
  if (scale_.defined()) return;
  const at::TensorOptions options(device);
  scale_ = at::full({}, options_.init_scale, options.dtype(at::kFloat));
  growth_tracker_ = at::full({}, initial_tracker_, options.dtype(at::kInt));
}

at::Tensor GradScaler::scale(const at::Tensor& output) {
  if (!options_.enabled) return output;
  make_scale(output.device());
  return output * runtime::copied_to(output.device(), scale_);
}

void GradScaler::check_scaled(const char* function) const {
  if (!scale_.defined())
    refuse(fmt::format("{} before anything was scaled; call scale(loss).backward() first", function));
}

GradScaler::PerOptimizer& GradScaler::not_stepped(const void* optimizer) {
  PerOptimizer& state = per_optimizer_[optimizer];
  if (state.stage == Stage::kStepped)
    refuse("step() of this optimizer was called already; call update() first");
  return state;
}

GradScaler::PerOptimizer& GradScaler::unscaled(const void* optimizer,
                                               const std::vector<at::Tensor>& parameters) {
  check_scaled("unscale_()");
  PerOptimizer& state = not_stepped(optimizer);
  if (state.stage == Stage::kUnscaled)
    refuse("unscale_() of this optimizer was called already; call update() first");
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  state.found_inf = unscale(values_of_gradients(parameters, Float16::kRefused), inverse);
  state.stage = Stage::kUnscaled;
  return state;
}

void GradScaler::unscale_(FusedOptimizer& optimizer) {
  if (options_.enabled) unscaled(&optimizer, optimizer.parameters());
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  if (options_.enabled) unscaled(&optimizer, parameters_of(optimizer));
}

bool GradScaler::wants_step(const void* optimizer, const std::vector<at::Tensor>& parameters) {
  check_scaled("step()");
  PerOptimizer& state = not_stepped(optimizer);
  if (state.stage == Stage::kReady) unscaled(optimizer, parameters);
  if (state.found_inf.empty())
    refuse("step() of an optimizer without gradients; call scale(loss).backward() first");
  state.stage = Stage::kStepped;
  return sum_on(at::kCPU, state.found_inf).item<float>() == 0;
}

void GradScaler::step(torch::optim::Optimizer& optimizer) {
  if (!options_.enabled || wants_step(&optimizer, parameters_of(optimizer))) optimizer.step();
}

void GradScaler::step(FusedOptimizer& optimizer) {
  if (!options_.enabled) return optimizer.step();
  if (!optimizer.supports_scale()) {
    return wants_step(&optimizer, optimizer.parameters()) ? optimizer.step() : optimizer.skip_step();
  }
  check_scaled("step()");
  PerOptimizer& state = not_stepped(&optimizer);
  StepScale scale;
  if (state.stage == Stage::kReady) {
    const at::Tensor one = at::ones({}, scale_.options());
    state.found_inf = unscale(values_of_gradients(optimizer.parameters(), Float16::kAllowed), one);
    scale.grad_scale = scale_;
  }
  if (state.found_inf.empty())
    refuse("step() of an optimizer without gradients; call scale(loss).backward() first");
  scale.found_inf = sum_on(scale_.device(), state.found_inf);
  optimizer.step(scale);
  state.stage = Stage::kStepped;
}

at::Tensor GradScaler::found_inf(const FusedOptimizer& optimizer) const {
  if (!options_.enabled) return {};
  const auto state = per_optimizer_.find(&optimizer);
  if (state == per_optimizer_.end() || state->second.stage != Stage::kStepped)
    refuse("found_inf() is known between step() of this optimizer and update()");
  return sum_on(scale_.device(), state->second.found_inf);
}

void GradScaler::update() {
  if (!options_.enabled) return;
  check_scaled("update()");
  std::vector<at::Tensor> found_inf;
  for (const auto& [optimizer, state] : per_optimizer_) {
    found_inf.insert(found_inf.end(), state.found_inf.begin(), state.found_inf.end());
  }
  if (found_inf.empty()) refuse("update() before a step(); call step(optimizer) first");
  const at::NoGradGuard no_grad;
  at::_amp_update_scale_(scale_, growth_tracker_, sum_on(scale_.device(), found_inf), options_.growth_factor,
                         options_.backoff_factor, options_.growth_interval);
  per_optimizer_.clear();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  check_scaled("update()");
  scale_.fill_(new_scale);
  per_optimizer_.clear();
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  return scale_.defined() ? scale_.item<float>() : options_.init_scale;
}

GradScalerState GradScaler::state() const {
  return {get_scale(), options_.growth_factor, options_.backoff_factor, options_.growth_interval,
          growth_tracker_.defined() ? growth_tracker_.item<int>() : initial_tracker_};
}

void GradScaler::load_state(const GradScalerState& state) {
  if (!options_.enabled) return;
  options_.init_scale = state.scale;
  options_.growth_factor = state.growth_factor;
  options_.backoff_factor = state.backoff_factor;
  options_.growth_interval = state.growth_interval;
  initial_tracker_ = state.growth_tracker;
  if (!scale_.defined()) return;
  scale_.fill_(state.scale);
  growth_tracker_.fill_(state.growth_tracker);
}

}  // namespace ddprun

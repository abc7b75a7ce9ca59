#include "worker/runtime/ddp/batch_norm/over_ranks.h"
#include <ddprun/sync_batch_norm.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

namespace ddprun {

using torch::Tensor;

namespace {

// One value has no variance: its running average would be no number.
void check_values(const Tensor& input) {
  std::int64_t per_channel = input.size(0);
  for (std::int64_t d = 2; d < input.dim(); ++d) per_channel *= input.size(d);
  if (per_channel != 1) return;
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("SyncBatchNorm: expected more than 1 value per channel when training, got input "
                  "size [{}]; give it a larger batch",
                  fmt::join(input.sizes().begin(), input.sizes().end(), ", ")));
}

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& given, std::optional<Group> group)
    : options(given), group_(std::move(group)) {
  SyncBatchNormImpl::reset();
}

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& given, Tensors shared, Group group)
    : options(given), group_(std::move(group)) {
  register_tensors(std::move(shared));
}

void SyncBatchNormImpl::reset() {
  Tensors fresh;
  const std::int64_t channels = options.num_features();
  if (options.affine()) {
    fresh.weight = torch::ones({channels}, torch::requires_grad());
    fresh.bias = torch::zeros({channels}, torch::requires_grad());
  }
  if (options.track_running_stats()) {
    fresh.running_mean = torch::zeros({channels});
    fresh.running_var = torch::ones({channels});
    fresh.num_batches_tracked = torch::tensor(std::int64_t{0});
  }
  register_tensors(std::move(fresh));
}

void SyncBatchNormImpl::register_tensors(Tensors tensors) {
  // To register a parameter sets what it requires: frozen ones stay frozen.
  const auto add = [this](const char* name, const Tensor& tensor) {
    return register_parameter(name, tensor, tensor.defined() && tensor.requires_grad());
  };
  weight = add("weight", tensors.weight);
  bias = add("bias", tensors.bias);
  running_mean = register_buffer("running_mean", std::move(tensors.running_mean));
  running_var = register_buffer("running_var", std::move(tensors.running_var));
  num_batches_tracked = register_buffer("num_batches_tracked", std::move(tensors.num_batches_tracked));
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "ddprun::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps()
         << ", ranks=" << (group_ ? group_->size() : 1) << ")";
}

// How much the next batch counts in the running statistics.
double SyncBatchNormImpl::next_momentum() const {
  return options.momentum() ? *options.momentum() : 1.0 / (num_batches_tracked.item<double>() + 1);
}

Tensor SyncBatchNormImpl::normalize_alone(const Tensor& input) {
  const bool updates_statistics = is_training() && running_mean.defined();
  const double momentum = updates_statistics ? next_momentum() : 0.0;
  if (updates_statistics) num_batches_tracked.add_(1);
  return torch::batch_norm(input, weight, bias, running_mean, running_var, /*training=*/true, momentum,
                           options.eps(), /*cudnn_enabled=*/true);
}

// As Python's: one rank has nobody to ask, and an evaluation synchronises nothing, also when it has to use the batch's
// own statistics.
bool SyncBatchNormImpl::synchronises() const { return is_training() && group_ && group_->size() > 1; }

Tensor SyncBatchNormImpl::forward(const Tensor& input) {
  if (input.dim() < 2 || input.size(1) != options.num_features()) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("SyncBatchNorm: the input has shape [{}], expected [N, {}, …]",
                    fmt::join(input.sizes().begin(), input.sizes().end(), ", "), options.num_features()));
  }
  if (!is_training() && running_mean.defined()) {
    return torch::batch_norm(input, weight, bias, running_mean, running_var, /*training=*/false, 0.0,
                             options.eps(),
                             /*cudnn_enabled=*/true);
  }
  if (!synchronises()) {
    check_values(input);
    return normalize_alone(input);
  }
  const double momentum = running_mean.defined() ? next_momentum() : 0.0;
  const runtime::BatchNormOfRanks norm{.weight = weight,
                                       .bias = bias,
                                       .running_mean = running_mean,
                                       .running_var = running_var,
                                       .momentum = momentum,
                                       .eps = options.eps()};
  const runtime::Normalized normalized = runtime::has_batch_norm_kernels(input)
                                             ? runtime::normalize_by_kernels(input, norm, *group_)
                                             : runtime::normalize_by_formula(input, norm, *group_);
  if (normalized.has_samples && running_mean.defined()) num_batches_tracked.add_(1);
  return normalized.output;
}

}  // namespace ddprun

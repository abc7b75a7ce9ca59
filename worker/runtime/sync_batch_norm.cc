#include <ddprun/collectives.h>
#include <ddprun/sync_batch_norm.h>

#include <fmt/format.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using torch::Tensor;

// [C] → [1, C, 1, …], to be broadcast over an input of `dim` dimensions.
Tensor per_channel(const Tensor& values, std::int64_t dim) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(dim), 1);
  shape[1] = values.size(0);
  return values.view(shape);
}

std::vector<std::int64_t> all_but_channels(std::int64_t dim) {
  std::vector<std::int64_t> dims = {0};
  for (std::int64_t d = 2; d < dim; ++d) dims.push_back(d);
  return dims;
}

struct Statistics {
  Tensor mean, variance;  // over the whole batch; variance is the biased one
  double count = 0;
};

// Each rank contributes mean, variance and count of its own; combined by
//   m = Σ nᵢ mᵢ / N,   v = Σ nᵢ (vᵢ + (mᵢ - m)²) / N.
Statistics gather_statistics(const Tensor& input, const Group& group) {
  const std::int64_t channels = input.size(1);
  const std::vector<std::int64_t> dims = all_but_channels(input.dim());
  const auto count = static_cast<double>(input.numel() / std::max<std::int64_t>(channels, 1));
  // On the CPU libtorch's own batch norm sums in double as well; GPUs are slow at it.
  const auto dtype = input.is_cpu() ? torch::kDouble : torch::kFloat;
  Tensor mine = torch::zeros({2 * channels + 1}, input.options().dtype(dtype));
  if (count > 0) {
    auto [variance, mean] = torch::var_mean(input.to(dtype), at::IntArrayRef(dims), /*unbiased=*/false);
    mine.narrow(0, 0, channels).copy_(mean);
    mine.narrow(0, channels, channels).copy_(variance);
    mine[2 * channels] = count;
  }
  const Tensor all = torch::stack(all_gather(group, mine));
  const Tensor means = all.narrow(1, 0, channels);
  const Tensor variances = all.narrow(1, channels, channels);
  const Tensor counts = all.narrow(1, 2 * channels, 1);
  const Tensor total = counts.sum();
  const Tensor mean = (means * counts).sum(0) / total;
  const Tensor variance = (counts * (variances + (means - mean).square())).sum(0) / total;
  return {.mean = mean, .variance = variance, .count = total.item<double>()};
}

struct Normalize : torch::autograd::Function<Normalize> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const Tensor& bias, const Tensor& mean, const Tensor& inverse_deviation, double count,
                        const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
    const std::int64_t dim = input.dim();
    const Tensor normalized = (input - per_channel(mean, dim)) * per_channel(inverse_deviation, dim);
    context->save_for_backward({input, weight, mean, inverse_deviation});
    context->saved_data["count"] = count;
    context->saved_data["group"] = group;
    if (!weight.defined()) return normalized.to(input.scalar_type());
    return (normalized * per_channel(weight, dim) + per_channel(bias, dim)).to(input.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse_deviation = saved[3];
    const double count = context->saved_data["count"].toDouble();
    const Group group(context->saved_data["group"].toCustomClass<c10d::ProcessGroup>());
    const std::int64_t dim = input.dim();
    const std::int64_t channels = input.size(1);
    const std::vector<std::int64_t> dims = all_but_channels(dim);
    const Tensor output_gradient = gradients[0].to(mean.scalar_type());
    const Tensor centered = input - per_channel(mean, dim);
    const Tensor sum_dy = output_gradient.sum(dims);
    const Tensor sum_dy_centered = (output_gradient * centered).sum(dims);

    const Tensor sums = torch::cat({sum_dy, sum_dy_centered});
    all_reduce(group, sums);
    const Tensor mean_dy = sums.narrow(0, 0, channels) / count;
    const Tensor mean_dy_centered = sums.narrow(0, channels, channels) / count;
    Tensor scale = inverse_deviation;
    if (weight.defined()) scale = scale * weight;
    const Tensor input_gradient =
        (output_gradient - per_channel(mean_dy, dim) -
         centered * per_channel(inverse_deviation.square() * mean_dy_centered, dim)) *
        per_channel(scale, dim);
    const Tensor weight_gradient = weight.defined() ? sum_dy_centered * inverse_deviation : Tensor();
    const Tensor bias_gradient = weight.defined() ? sum_dy : Tensor();
    return {input_gradient.to(input.scalar_type()),
            weight_gradient,
            bias_gradient,
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

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
    fresh.weight = torch::ones({channels});
    fresh.bias = torch::zeros({channels});
  }
  if (options.track_running_stats()) {
    fresh.running_mean = torch::zeros({channels});
    fresh.running_var = torch::ones({channels});
    fresh.num_batches_tracked = torch::tensor(std::int64_t{0});
  }
  register_tensors(std::move(fresh));
}

void SyncBatchNormImpl::register_tensors(Tensors tensors) {
  const bool is_affine = tensors.weight.defined();
  weight = register_parameter("weight", std::move(tensors.weight), is_affine);
  bias = register_parameter("bias", std::move(tensors.bias), is_affine);
  running_mean = register_buffer("running_mean", std::move(tensors.running_mean));
  running_var = register_buffer("running_var", std::move(tensors.running_var));
  num_batches_tracked = register_buffer("num_batches_tracked", std::move(tensors.num_batches_tracked));
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "ddprun::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps()
         << ", ranks=" << (group_ ? group_->size() : 1) << ")";
}

// One more batch has been seen; returns how much it counts in the running statistics.
double SyncBatchNormImpl::count_batch() {
  num_batches_tracked.add_(1);
  return options.momentum() ? *options.momentum() : 1.0 / num_batches_tracked.item<double>();
}

Tensor SyncBatchNormImpl::normalize_alone(const Tensor& input) {
  const bool updates_statistics = is_training() && running_mean.defined();
  const double momentum = updates_statistics ? count_batch() : 0.0;
  return torch::batch_norm(input, weight, bias, running_mean, running_var, /*training=*/true, momentum,
                           options.eps(), /*cudnn_enabled=*/true);
}

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
  // As Python's: an evaluation synchronises nothing, also when it has to use the batch's own statistics.
  if (!group_ || !is_training()) return normalize_alone(input);
  Statistics statistics;
  {
    const torch::NoGradGuard no_grad;
    statistics = gather_statistics(input.detach(), *group_);
    if (running_mean.defined()) {
      const double momentum = count_batch();
      const double unbias = statistics.count / std::max(statistics.count - 1, 1.0);
      running_mean.mul_(1 - momentum).add_(statistics.mean.to(running_mean.scalar_type()), momentum);
      running_var.mul_(1 - momentum)
          .add_((statistics.variance * unbias).to(running_var.scalar_type()), momentum);
    }
  }
  const auto dtype = weight.defined() ? weight.scalar_type() : torch::kFloat;
  const Tensor inverse_deviation = (statistics.variance + options.eps()).rsqrt().to(dtype);
  return Normalize::apply(input, weight, bias, statistics.mean.to(dtype), inverse_deviation, statistics.count,
                          group_->process_group());
}

}  // namespace ddprun

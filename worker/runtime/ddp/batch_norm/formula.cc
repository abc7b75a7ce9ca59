#include "worker/runtime/ddp/batch_norm/over_ranks.h"
#include <ddprun/collectives.h>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace ddprun::runtime {
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
  const Tensor divisor = total.clamp_min(1);  // where no rank has samples, zeros stay zeros
  const Tensor mean = (means * counts).sum(0) / divisor;
  const Tensor variance = (counts * (variances + (means - mean).square())).sum(0) / divisor;
  return {.mean = mean, .variance = variance, .count = total.item<double>()};
}

struct Normalize : torch::autograd::Function<Normalize> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& input,
                        const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                        const Tensor& mean, const Tensor& inverse_deviation, double count,
                        const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
    const std::int64_t dim = input.dim();
    const Tensor normalized = (input - per_channel(mean, dim)) * per_channel(inverse_deviation, dim);
    context->save_for_backward({input, weight.value_or(Tensor()), mean, inverse_deviation});
    context->saved_data["count"] = count;
    context->saved_data["group"] = group;
    if (!weight) return normalized.to(input.scalar_type());
    return (normalized * per_channel(*weight, dim) + per_channel(*bias, dim)).to(input.scalar_type());
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

void update_running(const BatchNormOfRanks& norm, const Statistics& statistics) {
  const double unbias = statistics.count / std::max(statistics.count - 1, 1.0);
  const auto dtype = norm.running_mean.scalar_type();
  norm.running_mean.mul_(1 - norm.momentum).add_(statistics.mean.to(dtype), norm.momentum);
  norm.running_var.mul_(1 - norm.momentum).add_((statistics.variance * unbias).to(dtype), norm.momentum);
}

}  // namespace

Normalized normalize_by_formula(const Tensor& input, const BatchNormOfRanks& norm, const Group& group) {
  Statistics statistics;
  {
    const torch::NoGradGuard no_grad;
    statistics = gather_statistics(input.detach(), group);
    if (norm.running_mean.defined() && statistics.count > 0) update_running(norm, statistics);
  }
  const auto of_input = input.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  const auto dtype = norm.weight.defined() ? norm.weight.scalar_type() : of_input;
  const Tensor inverse_deviation = (statistics.variance + norm.eps).rsqrt().to(dtype);
  return {.output = Normalize::apply(input, if_defined(norm.weight), if_defined(norm.bias),
                                     statistics.mean.to(dtype), inverse_deviation, statistics.count,
                                     group.process_group()),
          .has_samples = statistics.count > 0};
}

}  // namespace ddprun::runtime

#include "worker/runtime/ddp/batch_norm/over_ranks.h"
#include <ddprun/collectives.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/batch_norm_backward_elemt.h>
#include <ATen/ops/batch_norm_backward_reduce.h>
#include <ATen/ops/batch_norm_elemt.h>
#include <ATen/ops/batch_norm_gather_stats_with_counts.h>
#include <ATen/ops/batch_norm_stats.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include <tuple>

namespace ddprun::runtime {
namespace {

using torch::Tensor;

Tensor contiguous_in_some_order(const Tensor& tensor) {
  const bool is_channels_last = tensor.is_contiguous(torch::MemoryFormat::ChannelsLast) ||
                                tensor.is_contiguous(torch::MemoryFormat::ChannelsLast3d);
  return is_channels_last ? tensor : tensor.contiguous();
}

// [ranks, C], [ranks, C], [ranks]: of those with samples, since a count of 0 has no mean.
struct Gathered {
  Tensor means, inverse_deviations, counts;
};

Gathered gather(const Tensor& input, double eps, const Group& group) {
  const std::int64_t channels = input.size(1);
  const auto dtype = input.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  Tensor mine = torch::zeros({2 * channels + 1}, input.options().dtype(dtype));
  if (input.numel() > 0) {
    const auto [mean, inverse_deviation] = at::batch_norm_stats(input, eps);
    const Tensor count = torch::full({1}, input.numel() / channels, mean.options());
    mine = torch::cat({mean, inverse_deviation, count});
  }
  Tensor all = torch::stack(all_gather(group, mine));
  all = all.index({all.select(1, 2 * channels) >= 1});
  return {.means = all.narrow(1, 0, channels),
          .inverse_deviations = all.narrow(1, channels, channels),
          .counts = all.select(1, 2 * channels)};
}

struct NormalizeByKernels : torch::autograd::Function<NormalizeByKernels> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& given,
                        const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                        const std::optional<Tensor>& running_mean, const std::optional<Tensor>& running_var,
                        double momentum, double eps, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                        bool* has_samples) {
    const Tensor input = contiguous_in_some_order(given);
    const Gathered all = gather(input, eps, Group(group));
    context->saved_data["group"] = group;
    *has_samples = all.counts.size(0) > 0;
    if (!*has_samples) {
      const Tensor none = torch::zeros({input.size(1)}, all.means.options());
      context->save_for_backward({input, weight.value_or(Tensor()), none, none, all.counts.to(torch::kInt)});
      return torch::empty_like(input);
    }
    const Tensor counts = running_mean ? all.counts.to(running_mean->scalar_type()) : all.counts;
    const auto [mean, inverse_deviation] =
        at::batch_norm_gather_stats_with_counts(input, all.means, all.inverse_deviations, running_mean,
                                                running_var, momentum, eps, counts.contiguous());
    context->save_for_backward(
        {input, weight.value_or(Tensor()), mean, inverse_deviation, all.counts.to(torch::kInt)});
    if (input.numel() == 0) return torch::empty_like(input);
    return at::batch_norm_elemt(input, weight, bias, mean, inverse_deviation, eps);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse_deviation = saved[3];
    const Group group(context->saved_data["group"].toCustomClass<c10d::ProcessGroup>());
    const Tensor output_gradient = contiguous_in_some_order(gradients[0]);
    const bool wants_input = context->needs_input_grad(0);
    Tensor sum_dy, sum_dy_centered, weight_gradient, bias_gradient, input_gradient;
    Tensor sums = torch::zeros({2 * input.size(1)}, mean.options());
    if (input.numel() > 0) {
      std::tie(sum_dy, sum_dy_centered, weight_gradient, bias_gradient) = at::batch_norm_backward_reduce(
          output_gradient, input, mean, inverse_deviation, if_defined(weight), wants_input,
          weight.defined() && context->needs_input_grad(1), weight.defined() && context->needs_input_grad(2));
      if (wants_input) sums = torch::cat({sum_dy, sum_dy_centered});
    }
    // Whoever has no samples takes part all the same.
    if (wants_input) all_reduce(group, sums);
    if (wants_input && input.numel() > 0) {
      const Tensor scale = weight.defined() ? weight.to(mean.scalar_type()) : Tensor();
      input_gradient = at::batch_norm_backward_elemt(output_gradient, input, mean, inverse_deviation,
                                                     if_defined(scale), sums.narrow(0, 0, input.size(1)),
                                                     sums.narrow(0, input.size(1), input.size(1)), saved[4]);
    }
    return {input_gradient, weight_gradient, bias_gradient, Tensor(), Tensor(),
            Tensor(),       Tensor(),        Tensor(),      Tensor()};
  }
};

}  // namespace

bool has_batch_norm_kernels(const Tensor& input) {
  static const c10::OperatorHandle operation =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::batch_norm_stats", "");
  return operation.hasKernelForDispatchKey(
      c10::computeDispatchKey(input.scalar_type(), input.layout(), input.device()));
}

Normalized normalize_by_kernels(const Tensor& input, const BatchNormOfRanks& norm, const Group& group) {
  std::optional<Tensor> weight = if_defined(norm.weight);
  if (weight) weight = weight->contiguous();
  Normalized normalized;
  normalized.output = NormalizeByKernels::apply(
      input, weight, if_defined(norm.bias), if_defined(norm.running_mean), if_defined(norm.running_var),
      norm.momentum, norm.eps, group.process_group(), &normalized.has_samples);
  return normalized;
}

}  // namespace ddprun::runtime

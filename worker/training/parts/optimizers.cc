#include "worker/training/parts/optimizers.h"

#include <utility>

namespace ddprun::training {
namespace {

/// The groups that the job file's "decay" asks for: all parameters in one, or first those of two and more
/// dimensions, then without weight decay the others: biases, and weights of norms.
template <class OptimizerOptions>
std::vector<ParameterGroup<OptimizerOptions>> groups_of(const Options& options,
                                                        const std::vector<NamedTensor>& parameters,
                                                        const OptimizerOptions& values) {
  const bool matrices_only = options.text("decay") == "matrices";
  ParameterGroup<OptimizerOptions> decayed{{}, values};
  ParameterGroup<OptimizerOptions> others{{}, values};
  others.options.weight_decay = 0;
  for (const auto& [name, parameter] : parameters) {
    (matrices_only && parameter.dim() < 2 ? others : decayed).parameters.push_back(parameter);
  }
  std::vector<ParameterGroup<OptimizerOptions>> groups;
  if (!decayed.parameters.empty()) groups.push_back(std::move(decayed));
  if (!others.parameters.empty()) groups.push_back(std::move(others));
  return groups;
}

std::unique_ptr<FusedOptimizer> sgd(const Options& options, const std::vector<NamedTensor>& parameters) {
  FusedSgdOptions values;
  values.lr = options.number("learning_rate");
  values.momentum = options.number("momentum");
  values.dampening = options.number("dampening");
  values.weight_decay = options.number("weight_decay");
  values.nesterov = options.flag("nesterov");
  return std::make_unique<FusedSgd>(groups_of(options, parameters, values));
}

std::unique_ptr<FusedOptimizer> adam_with(bool decoupled, const Options& options,
                                          const std::vector<NamedTensor>& parameters) {
  const std::vector<double> betas = options.numbers("betas");
  FusedAdamOptions values;
  values.lr = options.number("learning_rate");
  values.beta1 = betas.at(0);
  values.beta2 = betas.at(1);
  values.eps = options.number("eps");
  values.weight_decay = options.number("weight_decay");
  values.amsgrad = options.flag("amsgrad");
  values.decoupled_weight_decay = decoupled;
  return std::make_unique<FusedAdam>(groups_of(options, parameters, values));
}

}  // namespace

void register_optimizers(OptimizerRegistry& optimizers) {
  optimizers.add("sgd", "stochastic gradient descent, with momentum", sgd);
  optimizers.add("adam", "Adam; weight decay is added to the gradient",
                 [](const Options& options, const std::vector<NamedTensor>& parameters) {
                   return adam_with(/*decoupled=*/false, options, parameters);
                 });
  optimizers.add("adamw", "Adam with decoupled weight decay",
                 [](const Options& options, const std::vector<NamedTensor>& parameters) {
                   return adam_with(/*decoupled=*/true, options, parameters);
                 });
}

}  // namespace ddprun::training

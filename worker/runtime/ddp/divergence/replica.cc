#include "worker/runtime/ddp/divergence/replica.h"

#include <ddprun/exception.h>
#include <ddprun/model_averager.h>
#include <ddprun/zero_redundancy_optimizer.h>

#include <fmt/format.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/types.h>

#include <set>
#include <unordered_map>

namespace ddprun::runtime {
namespace {

namespace nn = torch::nn;

using Names = std::set<std::string>;

[[noreturn]] void refuse_check(const std::string& why) {
  throw Exception(ErrorCode::kConfig, "DivergenceCheck: " + why);
}

bool keeps_statistics_of_its_own(const nn::Module& module) {
  return module.as<nn::BatchNorm1d>() != nullptr || module.as<nn::BatchNorm2d>() != nullptr ||
         module.as<nn::BatchNorm3d>() != nullptr || module.as<nn::InstanceNorm1d>() != nullptr ||
         module.as<nn::InstanceNorm2d>() != nullptr || module.as<nn::InstanceNorm3d>() != nullptr;
}

void collect_statistics(const nn::Module& module, const std::string& prefix, Names& names) {
  if (keeps_statistics_of_its_own(module)) {
    names.insert(prefix + "running_mean");
    names.insert(prefix + "running_var");
  }
  for (const auto& child : module.named_children())
    collect_statistics(*child.value(), prefix + child.key() + ".", names);
}

}  // namespace

std::vector<NamedTensor> replicated_tensors(const nn::Module& module,
                                            const std::vector<std::string>& ignored) {
  Names left_out(ignored.begin(), ignored.end());
  Names unknown = left_out;
  Names statistics;
  collect_statistics(module, "", statistics);
  const ModuleView view = view_of(module);
  std::vector<NamedTensor> tensors;
  for (const auto& parameter : view.parameters) {
    unknown.erase(parameter.name);
    if (parameter.tensor.defined() && !left_out.contains(parameter.name))
      tensors.emplace_back("parameter " + parameter.name, parameter.tensor);
  }
  for (const auto& [name, buffer] : view.buffers()) {
    unknown.erase(name);
    if (buffer.defined() && !left_out.contains(name) && !statistics.contains(name))
      tensors.emplace_back("buffer " + name, buffer);
  }
  if (!unknown.empty()) {
    refuse_check(
        fmt::format("option ignored names \"{}\", and the model has no parameter or buffer of that name",
                    *unknown.begin()));
  }
  return tensors;
}

std::vector<NamedTensor> replicated_tensors(const FusedOptimizer& optimizer, const nn::Module& module,
                                            const std::vector<std::string>& ignored) {
  const Names left_out(ignored.begin(), ignored.end());
  std::unordered_map<const c10::TensorImpl*, std::string> names;
  for (const auto& parameter : view_of(module).parameters)
    names.emplace(parameter.tensor.unsafeGetTensorImpl(), parameter.name);
  const std::vector<FusedOptimizer::ParameterState> state = optimizer.state();
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const auto name = names.find(optimizer.parameters()[i].unsafeGetTensorImpl());
    if (name != names.end() && left_out.contains(name->second)) continue;
    const std::string whose = name == names.end() ? "" : fmt::format(" ({})", name->second);
    for (const auto& [key, tensor] : state[i]) {
      if (tensor.defined())
        tensors.emplace_back(fmt::format("optimizer state {} of parameter {}{}", key, i, whose), tensor);
    }
  }
  return tensors;
}

void check_is_replicated(const FusedOptimizer& optimizer) {
  if (dynamic_cast<const ZeroRedundancyOptimizer*>(&optimizer) != nullptr) {
    refuse_check(
        "each rank of a ZeroRedundancyOptimizer has a share of the state of its own, so that there is "
        "nothing "
        "to compare; leave the optimizer out, and the parameters are compared");
  }
  if (dynamic_cast<const PostLocalSgdOptimizer*>(&optimizer) != nullptr) {
    refuse_check(
        "each rank of a PostLocalSgdOptimizer has a model of its own between two averages; leave the "
        "optimizer "
        "out, and compare() when the averager has averaged");
  }
}

}  // namespace ddprun::runtime

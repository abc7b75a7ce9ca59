#include <ddprun/scheduled_groups.h>

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

namespace ddprun {
namespace {

namespace optim = torch::optim;

// "momentum" or the first of "betas", where the class of the options has one.
template <class Use>
bool with_momentum(optim::OptimizerOptions& options, Use use) {
  if (auto* sgd = dynamic_cast<optim::SGDOptions*>(&options)) return use(sgd->momentum()), true;
  if (auto* rmsprop = dynamic_cast<optim::RMSpropOptions*>(&options)) return use(rmsprop->momentum()), true;
  if (auto* adam = dynamic_cast<optim::AdamOptions*>(&options)) return use(std::get<0>(adam->betas())), true;
  if (auto* adamw = dynamic_cast<optim::AdamWOptions*>(&options))
    return use(std::get<0>(adamw->betas())), true;
  return false;
}

}  // namespace

std::size_t StockGroups::group_count() const { return optimizer_.param_groups().size(); }

double StockGroups::learning_rate(std::size_t group) const {
  return optimizer_.param_groups().at(group).options().get_lr();
}

void StockGroups::set_learning_rate(std::size_t group, double learning_rate) {
  optimizer_.param_groups().at(group).options().set_lr(learning_rate);
}

std::optional<double> StockGroups::momentum(std::size_t group) const {
  std::optional<double> momentum;
  with_momentum(optimizer_.param_groups().at(group).options(), [&](double value) { momentum = value; });
  return momentum;
}

void StockGroups::set_momentum(std::size_t group, double momentum) {
  with_momentum(optimizer_.param_groups().at(group).options(), [&](double& value) { value = momentum; });
}

}  // namespace ddprun

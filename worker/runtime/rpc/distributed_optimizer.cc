#include <ddprun/distributed_optimizer.h>

#include <fmt/format.h>
#include <torch/custom_class.h>
#include <torch/types.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace ddprun {
namespace {

using Values = std::vector<double>;

/// An owner's part: an optimizer of the parameters that lie here.
struct OptimizerHere : torch::CustomClassHolder {
  explicit OptimizerHere(std::unique_ptr<FusedOptimizer> fused) : optimizer(std::move(fused)) {}
  std::unique_ptr<FusedOptimizer> optimizer;
};
using HerePtr = c10::intrusive_ptr<OptimizerHere>;

const auto g_class = torch::class_<OptimizerHere>("ddprun_rpc", "OptimizerHere");

/// `grad()` of a parameter is one for all contexts.
std::mutex g_step_mutex;

constexpr double as_number(bool flag) { return flag ? 1 : 0; }

Values values_of(const FusedSgdOptions& o) {
  return {o.lr, o.momentum, o.dampening, o.weight_decay, as_number(o.nesterov), as_number(o.maximize)};
}
Values values_of(const FusedAdamOptions& o) {
  return {o.lr,
          o.beta1,
          o.beta2,
          o.eps,
          o.weight_decay,
          as_number(o.amsgrad),
          as_number(o.maximize),
          as_number(o.decoupled_weight_decay)};
}
Values values_of(const FusedAdagradOptions& o) {
  return {o.lr, o.lr_decay, o.weight_decay, o.initial_accumulator_value, o.eps, as_number(o.maximize)};
}
Values values_of(const RmspropOptions& o) {
  return {o.lr, o.momentum, o.alpha, o.eps, as_number(o.centered), o.weight_decay, as_number(o.maximize)};
}

std::unique_ptr<FusedOptimizer> make_optimizer(const std::string& kind, std::vector<at::Tensor> parameters,
                                               const Values& v) {
  const auto flag = [&](std::size_t i) { return v.at(i) != 0; };
  if (kind == "sgd")
    return std::make_unique<FusedSgd>(std::move(parameters), FusedSgdOptions{.lr = v.at(0),
                                                                             .momentum = v.at(1),
                                                                             .dampening = v.at(2),
                                                                             .weight_decay = v.at(3),
                                                                             .nesterov = flag(4),
                                                                             .maximize = flag(5)});
  if (kind == "adam")
    return std::make_unique<FusedAdam>(std::move(parameters),
                                       FusedAdamOptions{.lr = v.at(0),
                                                        .beta1 = v.at(1),
                                                        .beta2 = v.at(2),
                                                        .eps = v.at(3),
                                                        .weight_decay = v.at(4),
                                                        .amsgrad = flag(5),
                                                        .maximize = flag(6),
                                                        .decoupled_weight_decay = flag(7)});
  if (kind == "adagrad")
    return std::make_unique<FusedAdagrad>(std::move(parameters),
                                          FusedAdagradOptions{.lr = v.at(0),
                                                              .lr_decay = v.at(1),
                                                              .weight_decay = v.at(2),
                                                              .initial_accumulator_value = v.at(3),
                                                              .eps = v.at(4),
                                                              .maximize = flag(5)});
  if (kind == "rmsprop")
    return std::make_unique<Rmsprop>(std::move(parameters), RmspropOptions{.lr = v.at(0),
                                                                           .momentum = v.at(1),
                                                                           .alpha = v.at(2),
                                                                           .eps = v.at(3),
                                                                           .centered = flag(4),
                                                                           .weight_decay = v.at(5),
                                                                           .maximize = flag(6)});
  throw Exception(ErrorCode::kConfig,
                  fmt::format("rpc: there is no optimizer '{}' here; are all ranks of one release?", kind));
}

rpc::RRef<HerePtr> make_here(const std::string& kind, const Values& values,
                             const std::vector<rpc::RRef<at::Tensor>>& parameters) {
  std::vector<at::Tensor> own;
  for (const auto& parameter : parameters) own.push_back(parameter.local_value());
  return rpc::RRef<HerePtr>::of(
      c10::make_intrusive<OptimizerHere>(make_optimizer(kind, std::move(own), values)));
}

void step_here(const rpc::RRef<HerePtr>& reference, std::int64_t context_id) {
  const HerePtr here = reference.local_value();
  std::map<const void*, at::Tensor> gradients;
  for (auto& [tensor, gradient] : dist_autograd::gradients_in(context_id))
    gradients[tensor.unsafeGetTensorImpl()] = gradient;
  const std::lock_guard lock(g_step_mutex);
  for (at::Tensor parameter : here->optimizer->parameters()) {
    const auto found = gradients.find(parameter.unsafeGetTensorImpl());
    parameter.mutable_grad() = found == gradients.end() ? at::Tensor() : found->second;
  }
  here->optimizer->step();
  here->optimizer->zero_grad();
}

const rpc::Function<rpc::RRef<HerePtr>(std::string, Values, std::vector<rpc::RRef<at::Tensor>>)>
    g_make_optimizer("ddprun_rpc::make_optimizer", make_here);
const rpc::Function<void(rpc::RRef<HerePtr>, std::int64_t)> g_step_optimizer("ddprun_rpc::step_optimizer",
                                                                             step_here);

}  // namespace

struct DistributedOptimizer::Part {
  rpc::RRef<HerePtr> optimizer;
};

DistributedOptimizer::DistributedOptimizer(const std::string& kind, const Parameters& parameters,
                                           const std::vector<double>& values) {
  if (parameters.empty())
    throw Exception(
        ErrorCode::kConfig,
        "rpc: a DistributedOptimizer got no parameters; name those of the workers that have them");
  std::map<std::string, Parameters> by_owner;
  for (const auto& parameter : parameters) by_owner[parameter.owner()].push_back(parameter);
  std::vector<rpc::Future<rpc::RRef<HerePtr>>> made;
  for (const auto& [owner, own] : by_owner)
    made.push_back(rpc::rpc_async(owner, g_make_optimizer, kind, values, own));
  for (const auto& part : made) parts_.push_back({part.wait()});
}

DistributedOptimizer::DistributedOptimizer(const Parameters& parameters, const FusedSgdOptions& options)
    : DistributedOptimizer("sgd", parameters, values_of(options)) {}
DistributedOptimizer::DistributedOptimizer(const Parameters& parameters, const FusedAdamOptions& options)
    : DistributedOptimizer("adam", parameters, values_of(options)) {}
DistributedOptimizer::DistributedOptimizer(const Parameters& parameters, const FusedAdagradOptions& options)
    : DistributedOptimizer("adagrad", parameters, values_of(options)) {}
DistributedOptimizer::DistributedOptimizer(const Parameters& parameters, const RmspropOptions& options)
    : DistributedOptimizer("rmsprop", parameters, values_of(options)) {}
DistributedOptimizer::~DistributedOptimizer() = default;
DistributedOptimizer::DistributedOptimizer(DistributedOptimizer&&) noexcept = default;
DistributedOptimizer& DistributedOptimizer::operator=(DistributedOptimizer&&) noexcept = default;

void DistributedOptimizer::step(const dist_autograd::Context& context) {
  std::vector<rpc::Future<void>> steps;
  for (const Part& part : parts_) steps.push_back(part.optimizer.rpc_async(g_step_optimizer, context.id()));
  for (const auto& one : steps) one.wait();
}

}  // namespace ddprun

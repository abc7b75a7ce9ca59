// A model whose first half lies on another rank: gradients and steps are those of one process, to the last bit.
#include <ddprun/distributed_optimizer.h>
#include <ddprun/init.h>
#include <ddprun/record.h>
#include <ddprun/rpc.h>

#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace rpc = ddprun::rpc;
namespace dist_autograd = ddprun::dist_autograd;

namespace {

using Parameters = std::vector<rpc::RRef<at::Tensor>>;

void require(bool holds, const std::string& promise) {
  if (!holds) throw std::runtime_error("broken: " + promise);
  std::cout << "ok: " << promise << std::endl;
}

/// What every rank makes from the same seed; each uses its half.
struct Halves {
  torch::nn::Linear first{nullptr}, second{nullptr};
};

Halves make_halves() {
  torch::manual_seed(5);
  Halves halves;
  halves.first = torch::nn::Linear(6, 8);
  halves.second = torch::nn::Linear(8, 1);
  return halves;
}

Halves& halves_here() {
  static auto* const halves = new Halves(make_halves());
  return *halves;
}

Parameters references_to(const std::vector<at::Tensor>& tensors) {
  Parameters references;
  for (const at::Tensor& tensor : tensors) references.push_back(rpc::RRef<at::Tensor>::of(tensor));
  return references;
}

at::Tensor first_half(const at::Tensor& input) { return torch::tanh(halves_here().first(input)); }

const rpc::Function<at::Tensor(at::Tensor)> kFirst("halves::first", first_half);
const rpc::Function<Parameters()> kParameters("halves::parameters", [] {
  return references_to(halves_here().first->parameters());
});
const rpc::Function<at::Tensor(std::int64_t, std::int64_t)> kGradient(
    "halves::gradient", [](std::int64_t context, std::int64_t index) {
      const at::Tensor parameter = halves_here().first->parameters().at(static_cast<std::size_t>(index));
      for (const auto& [tensor, gradient] : dist_autograd::gradients_in(context)) {
        if (tensor.is_same(parameter)) return gradient;
      }
      throw std::out_of_range("no gradient of this parameter");
    });
const rpc::Function<at::Tensor()> kLoss("halves::loss", [] { return first_half(torch::ones({2, 6})).sum(); });

std::vector<at::Tensor> all_parameters(const Halves& halves) {
  std::vector<at::Tensor> all = halves.first->parameters();
  for (const at::Tensor& parameter : halves.second->parameters()) all.push_back(parameter);
  return all;
}

at::Tensor batch(int step) {
  torch::manual_seed(100 + step);
  return torch::randn({4, 6});
}

/// Forward and backward in one process.
void backward_here(Halves& twin, int step) {
  for (at::Tensor parameter : all_parameters(twin)) parameter.mutable_grad() = at::Tensor();
  twin.second->forward(torch::tanh(twin.first->forward(batch(step)))).square().mean().backward();
}

void backward_over_ranks(dist_autograd::Context& pass, int step) {
  pass.backward({halves_here().second(rpc::rpc_sync("beta", kFirst, batch(step))).square().mean()});
}

void compare_gradients() {
  Halves twin = make_halves();
  backward_here(twin, 0);
  dist_autograd::Context pass;
  backward_over_ranks(pass, 0);
  bool equal = torch::equal(pass.gradient(halves_here().second->weight), twin.second->weight.grad()) &&
               torch::equal(pass.gradient(halves_here().second->bias), twin.second->bias.grad());
  require(equal, "gradients of this rank equal those of one process");
  equal = torch::equal(rpc::rpc_sync("beta", kGradient, pass.id(), 0), twin.first->weight.grad()) &&
          torch::equal(rpc::rpc_sync("beta", kGradient, pass.id(), 1), twin.first->bias.grad());
  require(equal, "gradients of the other rank equal those of one process");
  require(!halves_here().second->weight.grad().defined(), "grad() is left alone");
}

template <class Optimizer, class Options>
void compare_steps(const std::string& name, const Options& options, int first_step) {
  Halves twin = make_halves();
  const Parameters theirs = rpc::rpc_sync("beta", kParameters);
  const auto copy_all = [&] {
    std::vector<at::Tensor> all;
    for (const auto& parameter : theirs) all.push_back(parameter.to_here().detach());
    for (const at::Tensor& parameter : halves_here().second->parameters()) all.push_back(parameter.detach());
    return all;
  };
  {
    const torch::NoGradGuard no_gradients;
    const auto before = copy_all();
    const auto own = all_parameters(twin);
    for (std::size_t i = 0; i < own.size(); ++i) own[i].copy_(before[i]);
  }
  Optimizer local(all_parameters(twin), options);
  Parameters everywhere = theirs;
  for (const auto& own : references_to(halves_here().second->parameters())) everywhere.push_back(own);
  ddprun::DistributedOptimizer optimizer(everywhere, options);
  for (int step = first_step; step < first_step + 5; ++step) {
    backward_here(twin, step);
    local.step();
    dist_autograd::Context pass;
    backward_over_ranks(pass, step);
    optimizer.step(pass);
  }
  const auto after = copy_all();
  const auto expected = all_parameters(twin);
  bool equal = after.size() == expected.size();
  for (std::size_t i = 0; equal && i < after.size(); ++i)
    equal = torch::equal(after[i], expected[i].detach());
  require(equal, "five steps of " + name + " over two ranks equal those of one process");
}

void backward_from_reference() {
  dist_autograd::Context pass;
  const auto loss = rpc::remote("beta", kLoss);
  loss.backward(pass.id());
  require(rpc::rpc_sync("beta", kGradient, pass.id(), 1).numel() == 8, "a backward from a reference");
}

int run() {
  ddprun::Context context = ddprun::init();
  halves_here();
  rpc::init_rpc(context.rank() == 0 ? "alpha" : "beta", context);
  if (context.rank() == 0) {
    compare_gradients();
    compare_steps<ddprun::FusedSgd>("SGD",
                                    ddprun::FusedSgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}, 0);
    compare_steps<ddprun::FusedAdam>(
        "AdamW", ddprun::FusedAdamOptions{.lr = 0.01, .weight_decay = 0.1, .decoupled_weight_decay = true},
        5);
    compare_steps<ddprun::FusedAdagrad>("Adagrad", ddprun::FusedAdagradOptions{.lr = 0.1}, 10);
    compare_steps<ddprun::Rmsprop>("RMSprop",
                                   ddprun::RmspropOptions{.lr = 0.01, .momentum = 0.5, .centered = true}, 15);
    backward_from_reference();
  }
  rpc::shutdown();
  return 0;
}

}  // namespace

int main() { return ddprun::record(run); }

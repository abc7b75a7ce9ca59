// ddprun --nproc-per-node 3 ./rpc_pipeline
//
// A model in two stages on two ranks. Rank 0 sends two micro-batches at once, so that the second stage works on one
// while the first stage works on the other; the backward goes back the same way. Gradients are those of one process.
#include <ddprun/dist_autograd.h>
#include <ddprun/distributed_optimizer.h>
#include <ddprun/init.h>
#include <ddprun/record.h>
#include <ddprun/rpc.h>

#include <torch/torch.h>

#include <iostream>
#include <string>
#include <vector>

namespace rpc = ddprun::rpc;

using Parameters = std::vector<rpc::RRef<at::Tensor>>;

struct Stages {
  torch::nn::Linear first{nullptr}, second{nullptr};
};

Stages make_stages() {
  torch::manual_seed(3);
  return {torch::nn::Linear(4, 16), torch::nn::Linear(16, 1)};
}

/// Each rank of a stage uses its half.
Stages& stages_here() {
  static auto* const stages = new Stages(make_stages());
  return *stages;
}

at::Tensor run_second(const at::Tensor& hidden) { return stages_here().second(hidden); }
const rpc::Function<at::Tensor(at::Tensor)> remote_second("pipeline::second", run_second);

/// Answers when the next stage has: this stage is free for the next micro-batch meanwhile.
rpc::Future<at::Tensor> run_first(const at::Tensor& input) {
  return rpc::rpc_async("stage2", remote_second, torch::tanh(stages_here().first(input)));
}
const rpc::Function<rpc::Future<at::Tensor>(at::Tensor)> remote_first("pipeline::first", run_first);

const rpc::Function<Parameters(bool)> remote_parameters("pipeline::parameters", [](bool is_first) {
  Parameters references;
  for (const at::Tensor& parameter : (is_first ? stages_here().first : stages_here().second)->parameters())
    references.push_back(rpc::RRef<at::Tensor>::of(parameter));
  return references;
});

at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target) {
  return (output - target).square().mean();
}

at::Tensor forward_over_ranks(const at::Tensor& input) {
  std::vector<rpc::Future<at::Tensor>> parts;
  for (const at::Tensor& part : input.chunk(2)) parts.push_back(rpc::rpc_async("stage1", remote_first, part));
  std::vector<at::Tensor> outputs;
  for (const auto& part : parts) outputs.push_back(part.wait());
  return torch::cat(outputs);
}

at::Tensor forward_here(Stages& stages, const at::Tensor& input) {
  std::vector<at::Tensor> outputs;
  for (const at::Tensor& part : input.chunk(2))
    outputs.push_back(stages.second(torch::tanh(stages.first(part))));
  return torch::cat(outputs);
}

int lead() {
  Parameters everywhere = rpc::rpc_sync("stage1", remote_parameters, true);
  for (const auto& parameter : rpc::rpc_sync("stage2", remote_parameters, false))
    everywhere.push_back(parameter);
  ddprun::DistributedOptimizer optimizer(everywhere, ddprun::FusedSgdOptions{.lr = 0.1});

  Stages twin = make_stages();
  std::vector<at::Tensor> own = twin.first->parameters();
  for (const at::Tensor& parameter : twin.second->parameters()) own.push_back(parameter);
  ddprun::FusedSgd local(own, {.lr = 0.1});

  torch::manual_seed(4);
  bool equal = true;
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    const at::Tensor input = torch::randn({16, 4});
    const at::Tensor target = input.sum(1, true);
    {
      ddprun::dist_autograd::Context pass;
      const at::Tensor loss = loss_of(forward_over_ranks(input), target);
      pass.backward({loss});
      optimizer.step(pass);
      (step == 0 ? first : last) = loss.item<double>();
    }
    local.zero_grad();
    loss_of(forward_here(twin, input), target).backward();
    local.step();
  }
  for (std::size_t i = 0; i < own.size(); ++i) equal = equal && torch::equal(everywhere[i].to_here(), own[i]);
  std::cout << "loss " << first << " -> " << last << "; " << (equal ? "equal" : "NOT equal")
            << " to one process, to the last bit" << std::endl;
  return equal && last < first / 4 ? 0 : 1;
}

int run() {
  ddprun::Context context = ddprun::init({.device = "cpu"});
  torch::set_num_threads(1);
  if (context.world_size() != 3) {
    std::cout << "a pipeline of two stages needs three ranks: start me with ddprun --nproc-per-node 3"
              << std::endl;
    return 0;
  }
  stages_here();
  const std::vector<std::string> names{"leader", "stage1", "stage2"};
  rpc::init_rpc(names[static_cast<std::size_t>(context.rank())], context);
  const int code = context.rank() == 0 ? lead() : 0;
  rpc::shutdown();
  context.shutdown();
  return code;
}

int main() { return ddprun::record(run); }

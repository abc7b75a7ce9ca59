// ddprun --nproc-per-node 3 ./rpc_averaging
//
// Every rank trains on its own; every ten steps it sends its parameters to rank 0, which answers all of them with the
// mean when the last one has come. The function keeps no thread while it waits: it answers later.
#include <ddprun/init.h>
#include <ddprun/optim.h>
#include <ddprun/record.h>
#include <ddprun/rpc.h>

#include <torch/torch.h>

#include <iostream>
#include <mutex>
#include <string>

namespace rpc = ddprun::rpc;

class Meeting {
 public:
  /// The mean of what all have brought, once the last one is here.
  rpc::Future<at::Tensor> bring(const at::Tensor& parameters) {
    const std::lock_guard lock(mutex_);
    sum_ = count_ == 0 ? parameters.clone() : sum_ + parameters;
    const rpc::Future<at::Tensor> mean = mean_.future();
    if (++count_ == static_cast<int>(rpc::workers().size())) {
      mean_.set(sum_ / count_);
      mean_ = {};
      count_ = 0;
    }
    return mean;
  }

  static Meeting& one() {
    static auto* const meeting = new Meeting;
    return *meeting;
  }

 private:
  std::mutex mutex_;
  at::Tensor sum_;
  int count_ = 0;
  rpc::Future<at::Tensor>::Promise mean_;
};

const rpc::Function<rpc::Future<at::Tensor>(at::Tensor)> average("averaging::bring",
                                                                 [](const at::Tensor& parameters) {
                                                                   return Meeting::one().bring(parameters);
                                                                 });

int run() {
  ddprun::Context context = ddprun::init({.device = "cpu"});
  torch::set_num_threads(1);
  rpc::init_rpc("rank" + std::to_string(context.rank()), context);
  torch::manual_seed(7);
  torch::nn::Linear model(4, 1);
  const at::Tensor truth = torch::ones({4, 1});
  torch::manual_seed(100 + context.rank());  // other samples on each rank
  ddprun::FusedSgd optimizer(model->parameters(), {.lr = 0.05});
  for (int step = 1; step <= 200; ++step) {
    const at::Tensor input = torch::randn({16, 4});
    optimizer.zero_grad();
    torch::mse_loss(model(input), torch::matmul(input, truth)).backward();
    optimizer.step();
    if (step % 10 != 0) continue;
    const torch::NoGradGuard no_gradients;
    model->weight.copy_(rpc::rpc_sync("rank0", average, model->weight.detach()));
  }
  const float error = (model->weight.detach().t() - truth).abs().max().item<float>();
  if (context.rank() == 0) std::cout << "largest error of a weight: " << error << std::endl;
  rpc::shutdown();
  context.shutdown();
  return error < 0.01 ? 0 : 1;
}

int main() { return ddprun::record(run); }

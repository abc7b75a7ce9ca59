// Each rank trains on its own for ten steps, then all take the mean of their parameters: less to send than
// gradients in every step, at the price of replicas that drift apart in between.
#include <ddprun/collectives.h>
#include <ddprun/optim.h>
#include <ddprun/rank_zero.h>
#include <ddprun/record.h>
#include <ddprun/seed.h>

#include <torch/torch.h>

int train() {
  ddprun::Context context = ddprun::init();
  ddprun::seed_all_devices(7);
  torch::nn::Linear model(4, 1);
  model->to(context.device());
  const auto truth = torch::ones({4, 1}, context.device());
  torch::manual_seed(100 + context.rank());  // other samples on each rank

  ddprun::FusedSgd optimizer(model->parameters(), {.lr = 0.05});
  for (int step = 1; step <= 200; ++step) {
    const auto input = torch::randn({16, 4}, context.device());
    optimizer.zero_grad();
    torch::mse_loss(model(input), torch::matmul(input, truth)).backward();
    optimizer.step();
    if (step % 10 == 0) ddprun::average_parameters(context, model->parameters());
  }
  const auto error = (model->weight.detach().t() - truth).abs().max();
  ddprun::rank_zero_out(context) << "largest error of a weight: " << error.item<float>() << "\n";
  context.shutdown();
  return error.item<float>() < 0.01 ? 0 : 1;
}

int main() { return ddprun::record(train); }

// The smallest training loop: a line is fitted by all ranks together.
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/distributed_sampler.h>
#include <ddprun/init.h>
#include <ddprun/optim.h>
#include <ddprun/rank_zero.h>
#include <ddprun/record.h>
#include <ddprun/seed.h>

#include <torch/torch.h>

int train() {
  ddprun::Context context = ddprun::init();
  ddprun::seed_all_devices(1);
  const auto inputs = torch::rand({256, 1});
  const auto targets = 3 * inputs + 1;

  torch::nn::Linear model(1, 1);
  model->to(context.device());
  ddprun::DistributedDataParallel ddp(model, context);
  ddprun::FusedSgd optimizer(ddp.parameters(), {.lr = 0.1, .momentum = 0.9});
  ddprun::DistributedSampler sampler(256, {.world_size = context.world_size(), .rank = context.rank()});

  for (int epoch = 0; epoch < 500; ++epoch) {
    sampler.set_epoch(epoch);
    const auto mine = torch::tensor(sampler.indices());
    const auto loss = torch::mse_loss(ddp(inputs.index({mine}).to(context.device())),
                                      targets.index({mine}).to(context.device()));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  ddprun::rank_zero_out(context) << "y = " << model->weight.item<float>() << " x + "
                                 << model->bias.item<float>() << "\n";
  context.shutdown();
  return 0;
}

int main() { return ddprun::record(train); }

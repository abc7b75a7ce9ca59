// A communication hook of one's own: every bucket is clipped to a norm of 1 before it is averaged.
#include <ddprun/comm_hooks.h>
#include <ddprun/optim.h>
#include <ddprun/rank_zero.h>
#include <ddprun/record.h>

#include <torch/torch.h>

ddprun::CommHook clipped(const ddprun::Group& group) {
  return [reduce = ddprun::allreduce_hook(group)](c10d::GradBucket& bucket) {
    const auto norm = bucket.getBuffer().norm().item<float>();
    if (norm > 1) bucket.getBufferRef().div_(norm);
    return reduce(bucket);
  };
}

int train() {
  ddprun::Context context = ddprun::init();
  torch::nn::Sequential model(torch::nn::Linear(8, 16), torch::nn::ReLU(), torch::nn::Linear(16, 1));
  model->to(context.device());
  ddprun::DistributedDataParallel ddp(model, context);
  ddp.register_comm_hook(clipped(context));
  ddprun::FusedSgd optimizer(ddp.parameters(), {.lr = 0.1});
  double last = 0;
  for (int step = 0; step < 50; ++step) {
    const auto input = torch::randn({32, 8}, context.device());
    optimizer.zero_grad();
    const auto loss = (100 * ddp(input) - input.sum(1, true)).square().mean();
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  ddprun::rank_zero_out(context) << "loss after 50 clipped steps: " << last << "\n";
  context.shutdown();
  return 0;
}

int main() { return ddprun::record(train); }

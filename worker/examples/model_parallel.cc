// One replica spread over two devices, inside DistributedDataParallel: the first layer on one, the second on
// the other. With two GPUs per worker they are two GPUs; without, both are the CPU and the program is the
// same.
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/init.h>
#include <ddprun/optim.h>
#include <ddprun/rank_zero.h>
#include <ddprun/record.h>

#include <torch/torch.h>

struct TwoDeviceNet : torch::nn::Module {
  TwoDeviceNet(torch::Device first_device, torch::Device second_device)
      : device0(first_device), device1(second_device) {
    first = register_module("first", torch::nn::Linear(10, 10));
    second = register_module("second", torch::nn::Linear(10, 5));
    first->to(device0);
    second->to(device1);
  }
  torch::Tensor forward(const torch::Tensor& input) {
    return second(torch::relu(first(input.to(device0))).to(device1));
  }
  torch::Device device0, device1;
  torch::nn::Linear first{nullptr}, second{nullptr};
};

int train() {
  // Gloo, since nccl wants one GPU per rank.
  ddprun::Context context = ddprun::init({.backend = "gloo"});
  torch::Device device0 = torch::kCPU;
  torch::Device device1 = torch::kCPU;
  if (torch::cuda::device_count() >= 2 * static_cast<std::size_t>(context.local_world_size())) {
    device0 = torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(2 * context.local_rank()));
    device1 = torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(2 * context.local_rank() + 1));
  }
  torch::manual_seed(context.rank());
  ddprun::DistributedDataParallel ddp(std::make_shared<TwoDeviceNet>(device0, device1), context);
  ddprun::FusedSgd optimizer(ddp.parameters(), {.lr = 0.01});
  double last = 0;
  for (int step = 0; step < 20; ++step) {
    const auto loss = torch::mse_loss(ddp(torch::randn({20, 10})), torch::zeros({20, 5}, device1));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  ddprun::rank_zero_out(context) << "loss after 20 steps on " << device0.str() << " and " << device1.str()
                                 << ": " << last << "\n";
  context.shutdown();
  return 0;
}

int main() { return ddprun::record(train); }

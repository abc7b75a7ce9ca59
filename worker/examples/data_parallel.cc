// One process, several devices: the batch is cut, a replica of the module runs on each device, and the loss
// is computed where the outputs are. With GPUs, all of them; without, two replicas on the CPU. No launcher is
// needed.
#include <ddprun/data_parallel_criterion.h>
#include <ddprun/optim.h>
#include <ddprun/record.h>

#include <torch/torch.h>

#include <iostream>

int train() {
  std::vector<at::Device> devices = ddprun::all_devices();
  if (devices.front().is_cpu()) devices.push_back(devices.front());
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(8, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
  model->to(devices.front());

  ddprun::DataParallel parallel(model, devices);
  ddprun::DataParallelCriterion criterion{torch::nn::MSELoss()};
  ddprun::FusedSgd optimizer(model->parameters(), {.lr = 0.05, .momentum = 0.9});
  double last = 0;
  for (int step = 0; step < 200; ++step) {
    const auto input = torch::randn({64, 8});
    const auto loss = criterion(parallel.forward_scattered(input), input.sum(1, true));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  const auto output = parallel(torch::randn({5, 8}));  // gathered on the first device
  std::cout << "loss after 200 steps on " << devices.size() << " devices: " << last << ", " << output.size(0)
            << " outputs on " << output.device().str() << "\n";
  return last < 0.1 ? 0 : 1;
}

int main() { return ddprun::record(train); }

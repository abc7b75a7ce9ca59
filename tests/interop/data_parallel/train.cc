// interop_data_parallel DEVICE,… FOLDER…: trains the case in each folder with ddprun::DataParallel on these
// devices ("cpu,cpu": two replicas on the CPU), and writes the final parameters and buffers there. "balanced"
// cases compute the loss on each device.
#include "tests/interop/ddp/models.h"
#include "tests/interop/ddp/recipe.h"
#include <ddprun/data_parallel_criterion.h>
#include <ddprun/init.h>

#include <torch/nn/modules/loss.h>

#include <cstdio>
#include <exception>
#include <sstream>

namespace ddprun::interop {
namespace {

std::vector<at::Device> devices_of(const std::string& list) {
  std::vector<at::Device> devices;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) devices.emplace_back(name);
  return devices;
}

void run_case(const Context& context, const std::vector<at::Device>& devices, const std::string& folder) {
  const Recipe recipe = load_recipe(folder);
  const auto make = [&] { return make_model(recipe.model, context); };
  const auto model = make();
  load_tensors(*model, folder + "/init.bin");
  model->to(devices.front());
  DataParallel parallel(model, devices, {.make_replica = make});
  DataParallelCriterion criterion{torch::nn::CrossEntropyLoss()};
  Stepper optimizer(recipe, model->parameters());
  const Batches batches(folder, recipe, context);
  for (std::int64_t step = 0; step < recipe.steps; ++step) {
    const auto [input, target] = batches.at(step);
    const torch::Tensor loss = recipe.json.at("balanced").get<bool>()
                                   ? criterion(parallel.forward_scattered(input), target)
                                   : torch::cross_entropy_loss(parallel(input), target);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  save_tensors(*model, folder + "/cpp.bin");
}

}  // namespace
}  // namespace ddprun::interop

int main(int argc, char** argv) try {
  torch::set_num_threads(1);
  const std::vector<at::Device> devices = ddprun::interop::devices_of(argv[1]);
  const bool on_cpu = devices.front().is_cpu();
  const ddprun::Context context = ddprun::init({.device = on_cpu ? "cpu" : "cuda"});
  if (!on_cpu) at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  for (int i = 2; i < argc; ++i) ddprun::interop::run_case(context, devices, argv[i]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "interop_data_parallel: %s\n", error.what());
  return 1;
}

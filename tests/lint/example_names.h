#pragma once

#include <ddprun/data_parallel.h>
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/group.h>
#include <ddprun/init.h>
#include <ddprun/optim.h>

#include <torch/torch.h>

#include <cstdint>
#include <vector>

/// What the examples in the comments of the public headers take for known (header_examples.py). They are compiled and
/// never run: nothing of this has a definition.
namespace ddprun::examples {

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  void reset() override;
  at::Tensor forward(at::Tensor input);
};
TORCH_MODULE(Net);

extern Context context;
extern Group subgroup;
extern Net model;
extern DistributedDataParallel<Net> ddp;
extern DataParallel<Net> parallel;
extern FusedSgd optimizer;
extern at::Tensor input, output, target, images, labels, loss;
extern std::vector<at::Tensor> batches_of_this_rank;
extern std::vector<std::int64_t> counts;
extern std::int64_t epoch, step;

at::Tensor loss_of(at::Tensor output);
at::Tensor loss_of(at::Tensor output, at::Tensor target);
bool train_one_step();
void save_checkpoint();

}  // namespace ddprun::examples

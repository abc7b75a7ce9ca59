// Replicas that join a group later than others (update_process_group), and the buckets that all have then.
#include "tests/integration/runtime/in_threads.h"
#include "tests/support/catch.h"
#include <ddprun/distributed_data_parallel.h>

namespace ddprun {
namespace {

using testing::run_ranks_to_success;

using Replica = DistributedDataParallel<torch::nn::Sequential>;

/// Four parameters of one element each, whose gradients for an input of 1 are 5, 5, 3 and 1.
torch::nn::Sequential a_chain() {
  torch::nn::Sequential chain(torch::nn::Linear(1, 1), torch::nn::Linear(1, 1));
  const torch::NoGradGuard no_grad;
  const std::vector<double> values = {2, 1, 5, 0.5};
  for (std::size_t i = 0; i < values.size(); ++i) chain->parameters()[i].fill_(values[i]);
  return chain;
}

std::vector<double> averaged_gradients(Replica& ddp, const Group& group) {
  ddp.module()->zero_grad();
  (ddp(torch::ones({1, 1})) * (group.rank() + 1)).sum().backward();
  std::vector<double> gradients;
  for (const torch::Tensor& parameter : ddp.parameters())
    gradients.push_back(parameter.grad().item<double>());
  return gradients;
}

const std::vector<double> kMeanOfTwo = {7.5, 7.5, 4.5, 1.5};

/// A replica of `group`, whose `trained_rank` made two steps alone before.
Replica after_growth(const Group& group, int trained_rank, const torch::nn::Sequential& model,
                     DistributedDataParallelOptions options = {}) {
  const Group alone = new_group(group, {trained_rank});
  options.init_sync = false;
  if (!alone.is_member()) return {model, group.process_group(), options};
  Replica ddp(model, alone.process_group(), options);
  for (int step = 0; step < 2; ++step) averaged_gradients(ddp, alone);
  static_cast<void>(ddp.bucket_order());  // makes them anew, as the next forward would
  ddp.update_process_group(group);
  return ddp;
}

TEST_CASE("a bucket order that is set is kept, also where it is that of the first step") {
  run_ranks_to_success(2, [](const Group& group) {
    Replica ddp(a_chain(), group.process_group());
    const BucketOrder first = ddp.bucket_order();
    ddp.set_bucket_order(first);
    for (int step = 0; step < 2; ++step) averaged_gradients(ddp, group);
    CHECK_IN_RANK(ddp.bucket_order() == first);
  });
}

TEST_CASE("a job that grew goes on with the bucket order that all its ranks set, whichever of them had it") {
  run_ranks_to_success(2, [](const Group& group) {
    Replica ddp = after_growth(group, 0, a_chain());
    const BucketOrder order = {{3, 2, 1, 0}};  // in which the gradients became ready
    if (group.rank() == 0) CHECK_IN_RANK(ddp.bucket_order() == order);
    ddp.set_bucket_order(order);
    for (int step = 0; step < 3; ++step) CHECK_IN_RANK(averaged_gradients(ddp, group) == kMeanOfTwo);
    CHECK_IN_RANK(ddp.bucket_order() == order);
  });
}

}  // namespace
}  // namespace ddprun

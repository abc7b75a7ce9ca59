#include "tests/integration/groups/worlds.h"
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/divergence.h>
#include <ddprun/model_averager.h>
#include <ddprun/optim.h>
#include <ddprun/sync_batch_norm.h>
#include <ddprun/zero_redundancy_optimizer.h>

#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>

using namespace ddprun;
using ddprun::testing::in_world;
using ddprun::testing::refusal;
using ddprun::testing::require;
using ddprun::testing::require_equal;

namespace {

namespace nn = torch::nn;

/// A small model that is trained by DDP and watched: what a program has.
struct Training {
  explicit Training(const Group& group)
      : model(nn::Sequential(nn::Linear(6, 5), nn::BatchNorm1d(5), nn::Linear(5, 2))),
        ddp(model, group.process_group()),
        optimizer(ddp.parameters(), {.lr = 0.1, .momentum = 0.9}),
        check(group, *model, optimizer, {.every_steps = 2}),
        rank(group.rank()) {}

  void step() {
    optimizer.zero_grad();
    ddp(torch::randn({4, 6}) * (rank + 1)).square().sum().backward();
    optimizer.step();
    check.after_step(++steps);
  }

  void flip_parameter(const std::string& name, std::int64_t element) { flip(parameter(name), element); }
  at::Tensor parameter(const std::string& name) { return model->named_parameters()[name]; }
  /// A bit that no rounding of the next step takes back.
  static void flip(const at::Tensor& tensor, std::int64_t element) {
    tensor.detach().view({-1}).view(torch::kInt)[element].bitwise_xor_(1 << 20);
  }

  nn::Sequential model;
  DistributedDataParallel<nn::Sequential> ddp;
  FusedSgd optimizer;
  DivergenceCheck check;
  int rank;
  std::int64_t steps = 0;
};

/// What `call` throws on this rank.
Divergence divergence_of(const std::function<void()>& call, std::string* words = nullptr) {
  try {
    call();
  } catch (const DivergenceError& error) {
    if (words != nullptr) *words = error.what();
    require(error.code() == (error.divergence().is_mine ? ErrorCode::kInternal : ErrorCode::kPeerLost),
            "code");
    return error.divergence();
  }
  throw std::runtime_error("nothing was thrown");
}

}  // namespace

TEST_CASE("replicas that are equal say nothing, with batch norms whose statistics are each rank's own") {
  for (const char* const backend : {"gloo", "shm"}) {
    CHECK(in_world(backend, 3, [](const Group& world) {
      Training training(world);
      for (int i = 0; i < 5; ++i) training.step();
      require(training.check.last_equal_step() == 4, "compared at every second step");
    }));
  }
}

TEST_CASE("one flipped bit of a parameter is found, and its rank and name are told to all") {
  for (const char* const backend : {"gloo", "shm"}) {
    for (const int size : {2, 3, 4}) {
      CHECK(in_world(backend, size, [&](const Group& world) {
        Training training(world);
        for (int i = 0; i < 3; ++i) training.step();
        if (world.rank() == 1) training.flip_parameter("2.weight", 9);
        std::string words;
        const Divergence found = divergence_of([&] { training.step(); }, &words);
        require(found.step == 4, "the step");
        require(found.ranks == std::vector<int>{1}, "the rank");
        require(found.is_mine == (world.rank() == 1), "whose it is");
        require_equal(found.tensor, "parameter 2.weight (Float [2, 5])");
        const std::string others = size == 2 ? "rank 0, and which of them is right cannot be told"
                                             : "the other " + std::to_string(size - 1) + " ranks";
        require_equal(
            words,
            "the replicas have diverged: after step 4 parameter 2.weight (Float [2, 5]) on rank 1 differs "
            "from " +
                others +
                "; all other tensors are equal; all were equal after step 2; look for broken "
                "hardware there, or for code that runs on some ranks only");
      }));
    }
  }
}

TEST_CASE("rank 0 is named where it is the one that differs") {
  CHECK(in_world("shm", 3, [](const Group& world) {
    Training training(world);
    training.step();
    if (world.rank() == 0) training.flip_parameter("0.bias", 0);
    const Divergence found = divergence_of([&] { training.check.compare(1); });
    require(found.ranks == std::vector<int>{0}, "rank 0");
    require_equal(found.tensor, "parameter 0.bias (Float [5])");
  }));
}

TEST_CASE("optimizer state that differs is named by its key and parameter") {
  for (const char* const backend : {"gloo", "shm"}) {
    CHECK(in_world(backend, 3, [](const Group& world) {
      Training training(world);
      training.step();
      if (world.rank() == 2) Training::flip(training.optimizer.state()[1][0].second, 4);
      const Divergence found = divergence_of([&] { training.check.compare(1); });
      require(found.ranks == std::vector<int>{2}, "the rank");
      require_equal(found.tensor, "optimizer state momentum_buffer of parameter 1 (0.bias) (Float [5])");
    }));
  }
}

TEST_CASE("state that a rank does not have is named as missing") {
  CHECK(in_world("gloo", 3, [](const Group& world) {
    const nn::Linear model(2, 1);
    torch::nn::init::ones_(model->weight);
    torch::nn::init::ones_(model->bias);
    FusedSgd optimizer(model->parameters(), {.lr = 0.1, .momentum = 0.9});
    model->weight.mutable_grad() = torch::zeros({1, 2});
    if (world.rank() != 1) model->bias.mutable_grad() = torch::zeros({1});
    optimizer.step();
    DivergenceCheck check(world, *model, optimizer);
    std::string words;
    const Divergence found = divergence_of([&] { check.compare(1); }, &words);
    require(found.ranks == std::vector<int>{1}, "the rank");
    require_equal(found.tensor, "optimizer state momentum_buffer of parameter 1 (bias) (Float [1])");
    require(words.find(": there is none;") != std::string::npos, words);
  }));
}

TEST_CASE("buffers are compared, but for statistics that are each rank's own") {
  CHECK(in_world("gloo", 2, [](const Group& world) {
    nn::Sequential model(nn::BatchNorm1d(3), SyncBatchNorm(3),
                         nn::InstanceNorm1d(nn::InstanceNorm1dOptions(3).track_running_stats(true)));
    DivergenceCheck check(world, *model);
    const auto differs = [&](const std::string& name) {
      at::Tensor buffer = model->named_buffers()[name];
      const at::Tensor before = buffer.clone();
      if (world.rank() == 1) buffer.add_(1);
      bool is_seen = false;
      try {
        check.compare(1);
      } catch (const DivergenceError&) {
        is_seen = true;
      }
      buffer.copy_(before);
      return is_seen;
    };
    require(!differs("0.running_mean") && !differs("0.running_var"), "batch norm");
    require(!differs("2.running_mean") && !differs("2.running_var"), "instance norm");
    require(differs("0.num_batches_tracked"), "a count");
    require(differs("1.running_mean") && differs("1.running_var"), "SyncBatchNorm");
  }));
}

TEST_CASE("what is ignored may differ, with its optimizer state") {
  CHECK(in_world("gloo", 2, [](const Group& world) {
    Training training(world);
    training.step();
    if (world.rank() == 1) {
      training.flip_parameter("0.bias", 0);
      Training::flip(training.optimizer.state()[1][0].second, 0);
    }
    DivergenceCheck check(world, *training.model, training.optimizer, {.ignored = {"0.bias"}});
    check.compare(1);
    require_equal(
        refusal([&] { DivergenceCheck(world, *training.model, {.ignored = {"0.bia"}}); }),
        "config: DivergenceCheck: option ignored names \"0.bia\", and the model has no parameter or buffer "
        "of that name");
  }));
}

TEST_CASE("a group of some ranks is compared by itself, and named as the world knows it") {
  CHECK(in_world("gloo", 4, [](const Group& world) {
    const Group part = new_group(world, {1, 2, 3});
    if (!part.is_member()) return;
    const at::Tensor tensor = torch::full({3}, world.rank() == 3 ? 1 : 2);
    DivergenceCheck check(part, [&] { return std::vector<NamedTensor>{{"mine", tensor}}; });
    require(divergence_of([&] { check.compare(7); }).ranks == std::vector<int>{3}, "the world's rank");
  }));
}

TEST_CASE("a world of one compares nothing") {
  CHECK(in_world("gloo", 1, [](const Group& world) {
    DivergenceCheck check(world, []() -> std::vector<NamedTensor> { throw std::runtime_error("asked"); });
    check.after_step(100);
    require(check.last_equal_step() == 100, "all of one are equal");
  }));
}

TEST_CASE("what cannot be compared is refused with the reason") {
  CHECK(in_world("gloo", 2, [](const Group& world) {
    const nn::Linear model(2, 2);
    const auto sharded = zero_redundancy_optimizer<FusedSgd>(world, model->parameters(), FusedSgdOptions{});
    require_equal(
        refusal([&] { DivergenceCheck(world, *model, *sharded); }),
        "config: DivergenceCheck: each rank of a ZeroRedundancyOptimizer has a share of the state of its "
        "own, so that there is nothing to compare; leave the optimizer out, and the parameters are "
        "compared");
    FusedSgd local(model->parameters(), FusedSgdOptions{});
    PeriodicModelAverager averager(world, {.period = 2});
    const PostLocalSgdOptimizer apart(local, averager);
    require_equal(
        refusal([&] { DivergenceCheck(world, *model, apart); }),
        "config: DivergenceCheck: each rank of a PostLocalSgdOptimizer has a model of its own between two "
        "averages; leave the optimizer out, and compare() when the averager has averaged");
    require_equal(refusal([&] { DivergenceCheck(world, *model, {.every_steps = 0}); }),
                  "config: DivergenceCheck: every_steps is 0; expected at least 1");
  }));
}

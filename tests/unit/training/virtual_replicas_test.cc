#include "worker/training/step/virtual_replicas.h"

#include "rendezvous/base/clock.h"
#include "tests/support/catch.h"
#include "worker/training/state/rng.h"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <memory>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::training;

namespace {

constexpr const char* kThreeRanks =
    R"({"train": {"virtual_ranks": 3}, "ddp": {"bucket_cap_mb": 25, "broadcast_buffers": false,
        "find_unused_parameters": false, "static_graph": false, "gradient_as_bucket_view": true}})";

/// y = scale * x, and counts its forwards.
class Scale final : public Model {
 public:
  Scale()
      : scale_(register_parameter("scale", at::ones({1}))),
        forwards_(register_buffer("forwards", at::zeros({}, at::kLong))) {}
  at::Tensor forward(at::Tensor input) override {
    forwards_.add_(1);
    return input * scale_;
  }
  [[nodiscard]] const at::Tensor& scale() const { return scale_; }
  [[nodiscard]] std::int64_t forwards() const { return forwards_.item<std::int64_t>(); }

 private:
  at::Tensor scale_;
  at::Tensor forwards_;
};

class Two final : public Model {
 public:
  Two() : linear_(register_module("linear", torch::nn::Linear(2, 1))) {}
  at::Tensor forward(at::Tensor input) override { return linear_(input); }

 private:
  torch::nn::Linear linear_;
};

class Sparse final : public Model {
 public:
  Sparse()
      : words_(
            register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 2).sparse(true)))) {}
  at::Tensor forward(at::Tensor input) override { return words_(input); }

 private:
  torch::nn::Embedding words_;
};

class Mean final : public Task {
 public:
  at::Tensor loss(const at::Tensor& output, const Batch& /*batch*/) const override { return output.mean(); }
  std::vector<Metric> metrics() const override { return {{.name = "loss"}}; }
  at::Tensor sums(const at::Tensor& /*output*/, const Batch& /*batch*/) const override { return {}; }
};

Context alone() {
  return init({.backend = "shm", .device = "cpu", .log = [](const std::string&) {}});
}

}  // namespace

TEST_CASE("the ranks of a process share weights, and have their own gradients and buffers") {
  const Context context = alone();
  Generators generators(at::kCPU, 3);
  const auto model = std::make_shared<Scale>();
  VirtualReplicas replicas(Options(kThreeRanks), context, model, generators);
  REQUIRE(replicas.turns() == 3);
  const KernelClock clock;
  TimeSpent time(clock);
  for (std::size_t turn = 0; turn < 3; ++turn) {
    replicas.begin_turn(turn);
    CHECK(model->forwards() == 0);
    model->scale().mutable_grad() = at::Tensor();
    const Batch batch{{at::full({2}, 3.0 * static_cast<double>(turn))}, 2};
    for (std::size_t forward = 0; forward <= turn; ++forward) replicas.loss(batch, Mean()).backward();
    replicas.end_turn(turn);
  }
  replicas.sum_gradients(time);
  CHECK(model->scale().grad().item<float>() == Approx((0 + 2 * 3 + 3 * 6) / 3.0));
  CHECK(model->forwards() == 1);
  CHECK(replicas.buffers_aside()[1].item<std::int64_t>() == 3);
  replicas.spread_buffers();
  CHECK(replicas.buffers_aside()[1].item<std::int64_t>() == 1);
}

TEST_CASE("buffers of all ranks of a process survive their checkpoint") {
  const Context context = alone();
  Generators generators(at::kCPU, 3);
  const auto model = std::make_shared<Scale>();
  VirtualReplicas replicas(Options(kThreeRanks), context, model, generators);
  const std::unique_ptr<SavedPart> part = replicas.buffers_part();
  REQUIRE(part != nullptr);
  const std::vector<at::Tensor> aside = replicas.buffers_aside();
  aside[0].fill_(7);
  aside[1].fill_(8);
  const PtValue saved = part->save();
  replicas.spread_buffers();
  REQUIRE(aside[0].item<std::int64_t>() == 0);
  part->load(saved);
  CHECK(aside[0].item<std::int64_t>() == 7);
  CHECK(aside[1].item<std::int64_t>() == 8);
  PtList of_two_ranks;
  of_two_ranks.items = {saved.as_sequence()[1], saved.as_sequence()[2]};
  part->load(of_two_ranks);
  CHECK(aside[0].item<std::int64_t>() == 0);
}

TEST_CASE("buckets that a checkpoint had are kept, whatever order the next backward has") {
  const Context context = alone();
  Generators generators(at::kCPU, 3);
  VirtualReplicas replicas(Options(kThreeRanks), context, std::make_shared<Two>(), generators);
  const BucketOrder two_buckets{{0}, {1}};
  replicas.set_bucket_order(two_buckets);
  for (std::size_t turn = 0; turn < 3; ++turn) {
    replicas.begin_turn(turn);
    replicas.loss(Batch{{at::ones({2, 2})}, 2}, Mean()).backward();
    replicas.end_turn(turn);
  }
  const KernelClock clock;
  TimeSpent time(clock);
  replicas.sum_gradients(time);
  CHECK(replicas.bucket_order() == two_buckets);
}

TEST_CASE("a parameter without a gradient, and a sparse gradient, are refused with their names") {
  const Context context = alone();
  Generators generators(at::kCPU, 3);
  VirtualReplicas replicas(Options(kThreeRanks), context, std::make_shared<Scale>(), generators);
  replicas.begin_turn(0);
  CHECK_THROWS_WITH(
      replicas.end_turn(0),
      "the last backward gave no gradient to 1 of 1 parameters on virtual rank 0: scale; they took "
      "no part in the loss. Set /ddp/find_unused_parameters if the model leaves parameters out on "
      "purpose");
  CHECK_THROWS_WITH(
      VirtualReplicas(Options(kThreeRanks), context, std::make_shared<Sparse>(), generators),
      "/train/virtual_ranks: the gradient of \"words.weight\" is sparse, and virtual ranks sum dense "
      "ones; remove it, or make that embedding a dense one");
}

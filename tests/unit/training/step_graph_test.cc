// Whole steps through a graph that is no GPU's: what it records it does again on the same memory, and nothing that the
// host did meanwhile.
#include "worker/training/step/step_graph.h"

#include "rendezvous/base/clock.h"
#include "tests/support/catch.h"
#include "worker/training/step/step.h"
#include <ddprun/exception.h>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/functional.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::training;

namespace {

/// Small, with running statistics and dropout.
class Net final : public Model {
 public:
  Net()
      : first_(register_module("first", torch::nn::Linear(6, 8))),
        norm_(register_module("norm", torch::nn::BatchNorm1d(8))),
        dropout_(register_module("dropout", torch::nn::Dropout(0.25))),
        last_(register_module("last", torch::nn::Linear(8, 3))) {}
  at::Tensor forward(at::Tensor input) override { return last_(dropout_(torch::relu(norm_(first_(input))))); }

 private:
  torch::nn::Linear first_;
  torch::nn::BatchNorm1d norm_;
  torch::nn::Dropout dropout_;
  torch::nn::Linear last_;
};

class ClassTask final : public Task {
 public:
  at::Tensor loss(const at::Tensor& output, const Batch& batch) const override {
    return torch::nn::functional::cross_entropy(output, batch.tensors[1]);
  }
  std::vector<Metric> metrics() const override { return {{.name = "loss"}}; }
  at::Tensor sums(const at::Tensor& /*output*/, const Batch& /*batch*/) const override { return {}; }
};

class Alone final : public Strategy {
 public:
  explicit Alone(Net& net) : net_(net) {}
  at::Tensor loss(const Batch& batch, const Task& task) override {
    return task.loss(net_.forward(batch.tensors[0]), batch);
  }

 private:
  Net& net_;
};

/// What a graph's work may not change while it is recorded, and what the host may not notice of a replay.
std::vector<at::Tensor> memory_of(Net& net) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : net.parameters()) all.push_back(parameter.detach());
  for (const at::Tensor& buffer : net.buffers()) all.push_back(buffer);
  return all;
}

class FakeRecording final : public runtime::Recording {
 public:
  using Gradients = std::vector<at::Tensor>;

  FakeRecording(Net& net, std::function<void()> work, std::vector<std::string>& lines)
      : net_(net), work_(std::move(work)), lines_(lines) {
    std::vector<at::Tensor> before;
    for (const at::Tensor& tensor : memory_of(net_)) before.push_back(tensor.clone());
    at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
    const at::Tensor drawn = generator.get_state();
    work_();
    recorded_ = gradients();
    generator.set_state(drawn);
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> now = memory_of(net_);
    for (std::size_t i = 0; i < now.size(); ++i) now[i].copy_(before[i]);
    for (const at::Tensor& gradient : recorded_) gradient.fill_(7);  // nothing was computed
    lines_.push_back("recorded");
  }

  void replay() override {
    const Gradients before = gradients();
    set_gradients(Gradients(before.size()));
    work_();
    const Gradients computed = gradients();
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < computed.size(); ++i) recorded_[i].copy_(computed[i]);
    set_gradients(before);
    lines_.push_back("replayed");
  }

 private:
  Gradients gradients() {
    Gradients all;
    for (const at::Tensor& parameter : net_.parameters()) all.push_back(parameter.grad());
    return all;
  }
  void set_gradients(const Gradients& all) {
    const std::vector<at::Tensor> parameters = net_.parameters();
    for (std::size_t i = 0; i < all.size(); ++i) parameters[i].mutable_grad() = all[i];
  }

  Net& net_;
  std::function<void()> work_;
  std::vector<std::string>& lines_;
  Gradients recorded_;
};

Batch training_batch(std::int64_t step) {
  const std::int64_t samples = step % 7 == 6 ? 5 : 16;  // an epoch's last one is smaller
  at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(step));
  return {{at::randn({samples, 6}, generator), at::randint(0, 3, {samples}, generator, at::kLong)}, samples};
}

struct Trained {
  std::vector<at::Tensor> memory;
  std::vector<double> losses;
  std::vector<std::string> lines;
};

/// 30 steps at a learning rate that changes.
Trained train_small(const StepOptions& options, bool in_graph) {
  torch::manual_seed(3);
  Trained trained;
  const auto net = std::make_shared<Net>();
  Alone strategy(*net);
  FusedSgd optimizer(net->parameters(), {.lr = 0.1, .momentum = 0.9});
  const ClassTask task;
  const KernelClock clock;
  TimeSpent time(clock);
  StepGraph graph(
      [&](const std::function<void()>& work) {
        return std::make_unique<FakeRecording>(*net, work, trained.lines);
      },
      3, optimizer);
  Step step({.strategy = strategy,
             .model = *net,
             .optimizer = optimizer,
             .task = task,
             .graph = in_graph ? &graph : nullptr,
             .time = time},
            options);
  for (std::int64_t i = 0; i < 30; ++i) {
    const MicroBatches batches{.count = 1, .next = [&] { return training_batch(i); }};
    const StepOutcome outcome = step.run(batches, 0.1 / static_cast<double>(i + 1));
    trained.losses.push_back(outcome.loss_and_items[0][0].item<double>());
  }
  for (const at::Tensor& tensor : memory_of(*net)) trained.memory.push_back(tensor.clone());
  return trained;
}

}  // namespace

TEST_CASE("a job whose steps are recorded ends with the bits of one whose steps are computed") {
  for (const StepOptions& options :
       {StepOptions{}, StepOptions{.clip_grad_norm = 0.1}, StepOptions{.non_finite = NonFinite::kSkip},
        StepOptions{.precision = Precision::kFp16, .clip_grad_norm = 0.1}}) {
    const Trained computed = train_small(options, /*in_graph=*/false);
    const Trained recorded = train_small(options, /*in_graph=*/true);
    CHECK(computed.losses == recorded.losses);
    for (std::size_t i = 0; i < computed.memory.size(); ++i)
      CHECK(torch::equal(computed.memory[i], recorded.memory[i]));
    CHECK(computed.lines.empty());
    // 26 large batches: 3 before the recording, and each of the others replayed.
    REQUIRE(recorded.lines.size() == 24);
    CHECK(recorded.lines[0] == "recorded");
    CHECK(recorded.lines[1] == "replayed");
  }
}

TEST_CASE("a step that is left out leaves no trace in running statistics") {
  torch::manual_seed(3);
  const auto net = std::make_shared<Net>();
  Alone strategy(*net);
  FusedSgd optimizer(net->parameters(), {.lr = 0.1});
  const ClassTask task;
  const KernelClock clock;
  TimeSpent time(clock);
  Step step({.strategy = strategy, .model = *net, .optimizer = optimizer, .task = task, .time = time},
            {.non_finite = NonFinite::kSkip});
  const auto memory_after = [&](double first_number) {
    Batch batch = training_batch(0);
    batch.tensors[0][0][0] = first_number;
    step.run({.count = 1, .next = [&] { return batch; }}, 0.1);
    std::vector<at::Tensor> memory;
    for (const at::Tensor& tensor : memory_of(*net)) memory.push_back(tensor.clone());
    return memory;
  };
  const std::vector<at::Tensor> before = memory_after(1);
  const std::vector<at::Tensor> left_out = memory_after(std::nan(""));
  const std::vector<at::Tensor> after = memory_after(1);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(torch::equal(before[i], left_out[i]));
  CHECK_FALSE(torch::equal(left_out.back(), after.back()));
}

/// What a step throws whose recording ends with what `fail` throws.
template <class Fail>
void record_and(const Fail& fail) {
  const auto net = std::make_shared<Net>();
  FusedSgd optimizer(net->parameters(), {});
  StepGraph graph(
      [&](const std::function<void()>&) -> std::unique_ptr<runtime::Recording> {
        fail();
        return nullptr;
      },
      0, optimizer);
  graph.run(training_batch(0), [](const Batch&) { return at::ones({}); });
}

TEST_CASE("what cannot be recorded is refused with what libtorch says of it, in a line") {
  const std::string refusal =
      "/train/cuda_graph: forward and backward cannot be recorded, since something in them waits for the GPU "
      "or "
      "talks to the host; set it to false. What is said of it: ";
  CHECK_THROWS_WITH(
      record_and([] { throw std::runtime_error("operation not permitted when stream is capturing\nmore"); }),
      refusal + "operation not permitted when stream is capturing");
  CHECK_THROWS_WITH(record_and([] { TORCH_CHECK(false, "capture was invalidated"); }),
                    refusal + "libtorch: capture was invalidated");
}

TEST_CASE("what has nothing to do with a recording is said as it is") {
  CHECK_THROWS_WITH(record_and([] { throw Exception(ErrorCode::kConfig, "/model: gives nothing"); }),
                    "/model: gives nothing");
  CHECK_THROWS_AS(record_and([] {
                    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "out of memory");
                  }),
                  c10::OutOfMemoryError);
  CHECK_THROWS_AS(record_and([] { throw std::bad_alloc(); }), std::bad_alloc);
  const std::string lost = "[/pytorch/gloo/transport/tcp/pair.cc:534] Connection closed by peer";
  CHECK_THROWS_WITH(record_and([&] { throw std::runtime_error(lost); }), lost);
}

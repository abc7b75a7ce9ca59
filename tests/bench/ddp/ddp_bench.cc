// One rank of the DDP benchmark: `ddp_bench MODEL BATCH STEPS [bare]` trains on random data and prints, on
// rank 0, the milliseconds of a step (median over ten slices of the run). `bare` drives c10d::Reducer without
// our wrapper.
#include "tests/bench/ddp/models.h"
#include "worker/runtime/ddp/make_reducer.h"
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/everywhere.h>
#include <ddprun/init.h>
#include <ddprun/optim.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace ddprun::bench {
namespace {

constexpr int kSlices = 10;

double median_ms_per_step(const std::function<void()>& step, int steps) {
  const int per_slice = std::max(1, steps / kSlices);
  for (int i = 0; i < per_slice; ++i) step();  // buckets are rebuilt, caches are warm
  std::vector<double> slices;
  for (int slice = 0; slice < kSlices; ++slice) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < per_slice; ++i) step();
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
    slices.push_back(elapsed.count() / per_slice);
  }
  std::nth_element(slices.begin(), slices.begin() + kSlices / 2, slices.end());
  return slices[kSlices / 2];
}

int run(const std::string& name, std::int64_t batch, int steps, bool bare) {
  torch::set_num_threads(1);
  seed_everything(1);
  Context context = init({.device = "cpu", .log = [](const std::string&) {}});
  const Workload workload = make_workload(name, batch);
  const DistributedDataParallelOptions options{.gradient_as_bucket_view = true};

  double milliseconds = 0;
  if (bare) {
    const ModuleView view = view_of(*workload.model);
    const auto reducer = runtime::make_reducer(view.parameters, context.process_group(), options);
    FusedSgd optimizer(workload.model->parameters(), {.lr = 0.01, .momentum = 0.9});
    milliseconds = median_ms_per_step(
        [&] {
          if (reducer->should_rebuild_buckets()) reducer->rebuild_buckets();
          const auto output = workload.model->forward(workload.input);
          reducer->prepare_for_backward({});
          torch::cross_entropy_loss(output, workload.target).backward();
          optimizer.step();
          optimizer.zero_grad();
        },
        steps);
  } else {
    DistributedDataParallel ddp(workload.model, context, options);
    FusedSgd optimizer(ddp.parameters(), {.lr = 0.01, .momentum = 0.9});
    milliseconds = median_ms_per_step(
        [&] {
          torch::cross_entropy_loss(ddp(workload.input), workload.target).backward();
          optimizer.step();
          optimizer.zero_grad();
        },
        steps);
  }
  rank0(context) << milliseconds << "\n";
  context.shutdown();
  return 0;
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: ddp_bench mlp|mnist_cnn|resnet18 BATCH STEPS [bare]\n");
    return 64;
  }
  return ddprun::bench::run(argv[1], std::stoll(argv[2]), std::stoi(argv[3]), argc > 4);
}

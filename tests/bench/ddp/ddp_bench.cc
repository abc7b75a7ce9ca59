// One rank of the DDP benchmark: `ddp_bench COMMANDS` trains as the lines say that rank 0 reads from the file
// (or pipe) COMMANDS, "WORKLOAD BATCH STEPS [HOW]", and answers each on rank 0 with the milliseconds of a
// step, until the file ends. A workload is made when first named and then kept, so that programs which are
// compared can take turns. HOW: `bare` drives c10d::Reducer without our wrapper, `checked` compares the
// replicas after every 100 steps, `check` does nothing but that; `clip` is clip_grad_norm_ alone, with a
// bound below the norm, `clip_nothing` with one above, `zero` a step with ZeroRedundancyOptimizer over Adam,
// `zero_alone` that optimizer's step alone. "WORKLOAD BATCH 1 zero_share" answers with the percentage of the
// optimizer's state that the fullest rank keeps.
#include "tests/bench/ddp/models.h"
#include "tests/bench/turns.h"
#include "worker/runtime/comm/backend/bucket_memory.h"
#include "worker/runtime/ddp/make_reducer.h"
#include <ddprun/clip_grad.h>
#include <ddprun/collectives.h>
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/divergence.h>
#include <ddprun/init.h>
#include <ddprun/optim.h>
#include <ddprun/seed.h>
#include <ddprun/zero_redundancy_optimizer.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>

namespace ddprun::bench {
namespace {

const DistributedDataParallelOptions kOptions{.gradient_as_bucket_view = true};
const FusedSgdOptions kSgd{.lr = 0.01, .momentum = 0.9};

Step make_bare_step(const Context& context, const Workload& workload) {
  const ModuleView view = view_of(*workload.model);
  const std::shared_ptr<c10d::Reducer> reducer =
      runtime::make_reducer(view, view.parameters, context.process_group(), kOptions).reducer;
  const auto optimizer = std::make_shared<FusedSgd>(workload.model->parameters(), kSgd);
  return [context, workload, reducer, optimizer] {
    if (reducer->should_rebuild_buckets()) {
      const runtime::BucketAllocationScope buckets_in_shared_memory(*context.process_group(),
                                                                    context.device());
      reducer->rebuild_buckets();
    }
    const auto output = workload.model->forward(workload.input);
    reducer->prepare_for_backward({});
    torch::cross_entropy_loss(output, workload.target).backward();
    optimizer->step();
    optimizer->zero_grad();
  };
}

std::unique_ptr<FusedOptimizer> make_zero(const Context& context, const std::vector<at::Tensor>& parameters) {
  return zero_redundancy_optimizer<FusedAdam>(context, parameters, FusedAdamOptions{.lr = 0.001});
}

/// A replica in the wrapper, and what trains it.
struct Training {
  Training(const Context& context, const Workload& given, bool with_zero = false)
      : workload(given), ddp(workload.model, context, kOptions) {
    optimizer =
        with_zero ? make_zero(context, ddp.parameters()) : std::make_unique<FusedSgd>(ddp.parameters(), kSgd);
  }

  void backward() { torch::cross_entropy_loss(ddp(workload.input), workload.target).backward(); }
  void step() {
    backward();
    optimizer->step();
    optimizer->zero_grad();
  }

  Workload workload;
  DistributedDataParallel<std::shared_ptr<Model>> ddp;
  std::unique_ptr<FusedOptimizer> optimizer;
};

Step make_wrapped_step(const Context& context, const Workload& workload, bool with_zero = false) {
  const auto training = std::make_shared<Training>(context, workload, with_zero);
  return [training] { training->step(); };
}

Step make_clip_alone(const Context& context, const Workload& workload, bool has_to_clip) {
  const auto training = std::make_shared<Training>(context, workload);
  training->backward();
  return [training, has_to_clip, parameters = training->ddp.parameters(), call = 0]() mutable {
    clip_grad_norm_(parameters,
                    has_to_clip ? 1.0 / ++call : 1e9);  // a bound that falls is always below the norm
  };
}

Step make_zero_alone(const Context& context, const Workload& workload) {
  const auto training = std::make_shared<Training>(context, workload, true);
  training->backward();
  return [training] { training->optimizer->step(); };
}

double bytes_of(const FusedOptimizer& optimizer) {
  double bytes = 0;
  for (const auto& state : optimizer.state()) {
    for (const auto& [name, tensor] : state) bytes += static_cast<double>(tensor.nbytes());
  }
  return bytes;
}

/// Of what Adam alone keeps.
double percent_on_fullest_rank(const Context& context, const Workload& workload) {
  Training training(context, workload, true);
  training.backward();
  training.optimizer->step();
  FusedAdam alone(training.ddp.parameters(), {});
  alone.step();
  const at::Tensor fullest = at::full(
      {1}, bytes_of(dynamic_cast<ZeroRedundancyOptimizer&>(*training.optimizer).local()), at::kDouble);
  all_reduce(context, fullest, ReduceOp::kMax);
  return 100 * fullest.item<double>() / bytes_of(alone);
}

std::shared_ptr<DivergenceCheck> make_check(const Context& context, const Training& training) {
  return std::make_shared<DivergenceCheck>(context, *training.workload.model, *training.optimizer,
                                           DivergenceCheckOptions{.every_steps = 100});
}

Step make_checked_step(const Context& context, const Workload& workload) {
  const auto training = std::make_shared<Training>(context, workload);
  return [training, check = make_check(context, *training), steps = 0]() mutable {
    training->step();
    check->after_step(++steps);
  };
}

Step make_check_alone(const Context& context, const Workload& workload) {
  const auto training = std::make_shared<Training>(context, workload);
  training->step();  // from now on there is momentum
  return [training, check = make_check(context, *training)] { check->compare(1); };
}

Step make_step(const Context& context, const Workload& workload, const std::string& how) {
  if (how == "bare") return make_bare_step(context, workload);
  if (how == "checked") return make_checked_step(context, workload);
  if (how == "check") return make_check_alone(context, workload);
  if (how == "clip" || how == "clip_nothing") return make_clip_alone(context, workload, how == "clip");
  if (how == "zero") return make_wrapped_step(context, workload, true);
  if (how == "zero_alone") return make_zero_alone(context, workload);
  return make_wrapped_step(context, workload);
}

double milliseconds_per_step(const Step& step, int steps) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) step();
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / steps;
}

int run(const char* commands_path) {
  torch::set_num_threads(1);
  const Context context = init({.device = "cpu", .log = [](const std::string&) {}});
  std::map<std::string, Step> prepared;
  take_turns(context, commands_path, [&](const Turn& turn) -> std::string {
    if (turn.how == "zero_share")
      return std::to_string(percent_on_fullest_rank(context, make_workload(turn.what, turn.size)));
    Step& step = prepared[turn.name()];
    if (!step) {
      seed_all_devices(1);
      const Workload workload = make_workload(turn.what, turn.size);
      step = make_step(context, workload, turn.how);
      milliseconds_per_step(step, std::max(2, turn.times));  // buckets are rebuilt, caches are warm
    }
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.6f", milliseconds_per_step(step, turn.times));
    return text.data();
  });
  prepared.clear();
  Context(context).shutdown();
  return 0;
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: ddp_bench COMMANDS\n");
    return 64;
  }
  return ddprun::bench::run(argv[1]);
}

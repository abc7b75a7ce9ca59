// One C++ rank of the interop matrix: `interop_ddp_worker DEVICE FOLDER…` trains the case in each folder with
// ddprun::DistributedDataParallel and writes this rank's final parameters and buffers there as raw bytes.
#include "tests/interop/ddp/models.h"
#include "tests/interop/ddp/recipe.h"
#include <ddprun/autocast.h>
#include <ddprun/comm_hooks.h>
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/init.h>

#include <cstdio>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun::interop {
namespace {

using Ddp = DistributedDataParallel<std::shared_ptr<Model>>;

// What the recipe wants to be compared of this step, besides the model.
std::vector<torch::Tensor> train_one_step(Ddp& ddp, Stepper& optimizer, const Recipe& recipe,
                                          const Batches& batches, std::int64_t step) {
  std::vector<torch::Tensor> kept;
  for (std::int64_t micro = 0; micro < recipe.accumulate; ++micro) {
    const auto [input, target] = batches.at(step * recipe.accumulate + micro);
    const auto forward = [&, &input = input, &target = target] {
      using Mode = AutocastGuard::Mode;
      const AutocastGuard autocast(input.device().type(), recipe.amp,
                                   recipe.amp ? Mode::kEnabled : Mode::kDisabled);
      const torch::Tensor output = ddp(input);
      kept = {output.detach()};
      return torch::cross_entropy_loss(output, target) / static_cast<double>(recipe.accumulate);
    };
    const auto forward_backward = [&] { optimizer.scaled(forward()).backward(); };
    if (micro + 1 < recipe.accumulate) {
      const auto guard = ddp.no_sync();
      forward_backward();
    } else {
      forward_backward();
    }
  }
  if (recipe.last_step) {
    for (const torch::Tensor& parameter : ddp.parameters()) kept.push_back(parameter.grad().clone());
  }
  if (recipe.json.at("in_backward")) return {};
  if (step >= recipe.dropped_steps) optimizer.step();
  optimizer.zero_grad();
  return recipe.last_step ? kept : std::vector<torch::Tensor>{};
}

CommHook post_local_sgd(const Context& context) {
  const int half = context.world_size() % 2 == 0 ? context.world_size() / 2 : context.world_size();
  std::vector<std::vector<int>> halves(static_cast<std::size_t>(context.world_size() / half));
  for (int rank = 0; rank < context.world_size(); ++rank)
    halves[static_cast<std::size_t>(rank / half)].push_back(rank);
  return post_local_sgd_hook({context, split_group(context, halves), {.start_step = 4}});
}

CommHook make_hook(const std::string& name, const Context& context) {
  if (name.starts_with("fp16:")) return fp16_compress_wrapper(make_hook(name.substr(5), context));
  if (name.starts_with("bf16:")) return bf16_compress_wrapper(make_hook(name.substr(5), context));
  if (name == "allreduce") return allreduce_hook(context);
  if (name == "fp16") return fp16_compress_hook(context);
  if (name == "bf16") return bf16_compress_hook(context);
  if (name == "noop") return noop_hook();
  if (name == "per_tensor") return quantization_per_tensor_hook(context);
  if (name == "per_channel") return quantization_per_channel_hook(context);
  if (name == "post_local_sgd") return post_local_sgd(context);
  if (name == "power_sgd") return power_sgd_hook({context, {.start_step = 3}});
  if (name == "power_sgd_4")
    return power_sgd_hook({context, {.matrix_approximation_rank = 4, .start_step = 3}});
  if (name == "batched_power_sgd") return batched_power_sgd_hook({context, {.start_step = 3}});
  if (name == "batched_power_sgd_cold") {
    return batched_power_sgd_hook({context,
                                   {.matrix_approximation_rank = 4,
                                    .start_step = 3,
                                    .use_error_feedback = false,
                                    .warm_start = false}});
  }
  throw std::runtime_error("no hook " + name);
}

void register_hook(Ddp& ddp, const nlohmann::json& name, const Context& context) {
  if (name.is_null()) return;
  if (name == "builtin_allreduce") {
    ddp.register_builtin_comm_hook(BuiltinCommHookType::ALLREDUCE);
  } else if (name == "builtin_fp16") {
    ddp.register_builtin_comm_hook(BuiltinCommHookType::FP16_COMPRESS);
  } else {
    ddp.register_comm_hook(make_hook(name.get<std::string>(), context));
  }
}

// False on the last rank, which leaves.
bool go_on_without_last(Ddp& ddp, const Context& context) {
  std::vector<int> ranks(static_cast<std::size_t>(context.world_size() - 1));
  std::iota(ranks.begin(), ranks.end(), 0);
  const Group remaining = new_group(context, ranks);
  ddp.update_process_group(remaining);
  return remaining.is_member();
}

void run_case(const Context& context, const std::string& folder) {
  const Recipe recipe = load_recipe(folder);
  const auto model = make_model(recipe.model, context);
  load_tensors(*model, folder + "/init.bin");
  model->to(context.device());
  Ddp ddp(model, context, recipe.options);
  register_hook(ddp, recipe.json.at("hook"), context);
  Stepper optimizer(recipe, ddp.parameters());
  optimizer.average_with(recipe, context);
  if (recipe.json.at("in_backward")) ddp.apply_optimizer_in_backward(optimizer.fused());
  const Batches batches(folder, recipe, context);
  const std::int64_t steps = recipe.steps - (recipe.uneven ? context.rank() : 0);
  const std::int64_t leaves_after =
      recipe.json.at("leaves_after").is_null() ? steps : recipe.json.at("leaves_after").get<std::int64_t>();
  std::vector<torch::Tensor> last_step;
  const auto loop = [&] {
    for (std::int64_t step = 0; step < steps; ++step) {
      if (step == leaves_after && !go_on_without_last(ddp, context)) return;
      last_step = train_one_step(ddp, optimizer, recipe, batches, step);
    }
  };
  if (recipe.json.at("zero")) {
    join({ddp, optimizer.spread(recipe, context)}, loop);
  } else if (recipe.uneven) {
    ddp.join(loop);
  } else {
    loop();
  }
  save_tensors(*model, folder + "/cpp_" + std::to_string(context.rank()) + ".bin", last_step);
}

}  // namespace
}  // namespace ddprun::interop

int main(int argc, char** argv) try {
  torch::set_num_threads(1);
  const std::string device = argv[1];
  ddprun::Context context = ddprun::init({.device = device});
  if (device != "cpu") at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  for (int i = 2; i < argc; ++i) ddprun::interop::run_case(context, argv[i]);
  context.shutdown();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "interop_ddp_worker: %s\n", error.what());
  return 1;
}

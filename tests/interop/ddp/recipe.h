#pragma once

#include "tests/interop/ddp/models.h"
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/grad_scaler.h>
#include <ddprun/model_averager.h>
#include <ddprun/optim.h>
#include <ddprun/zero_redundancy_optimizer.h>

#include <nlohmann/json.hpp>
#include <torch/optim/sgd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::interop {

/// What both sides do in one case of the matrix; read from case.json, which matrix.py writes.
struct Recipe {
  nlohmann::json json;
  std::string model;
  std::int64_t steps = 20;
  std::int64_t batch = 8;             ///< samples per rank and forward
  std::int64_t accumulate = 1;        ///< forwards per step, all but the last under no_sync
  bool set_to_none = true;            ///< how gradients are zeroed
  bool uneven = false;                ///< rank r leaves out its last r steps, under join
  bool last_step = false;             ///< save its output and gradients, too
  std::int64_t dropped_steps = 0;     ///< the first ones, whose gradients are thrown away
  std::optional<at::ScalarType> amp;  ///< autocast to it, and scale the loss
  DistributedDataParallelOptions options;
};

Recipe load_recipe(const std::string& folder);

/// Parameters (a tied one once), then buffers, in order, then `more`, as raw bytes. Loads into the CPU's
/// memory, saves from any device.
void load_tensors(torch::nn::Module& module, const std::string& path);
void save_tensors(const torch::nn::Module& module, const std::string& path,
                  const std::vector<torch::Tensor>& more = {});

/// The case's inputs and targets, on the context's device: sample i of forward f of rank r is entry f*world*batch +
/// r*batch + i.
class Batches {
 public:
  Batches(const std::string& folder, const Recipe& recipe, const Context& context);
  [[nodiscard]] std::pair<torch::Tensor, torch::Tensor> at(std::int64_t forward) const;

 private:
  torch::Tensor inputs_, targets_;
  std::int64_t batch_, rank_, world_;
};

/// The optimizer of the case: a fused one, or "stock_sgd", libtorch's own.
class Stepper {
 public:
  Stepper(const Recipe& recipe, std::vector<torch::Tensor> parameters);
  /// From now on a PostLocalSgdOptimizer with the recipe's averager, if it has one. Collective.
  void average_with(const Recipe& recipe, const Group& group);
  /// From now on with its state spread over the ranks. For adamw. Collective.
  Joinable& spread(const Recipe& recipe, const Group& group);
  /// Times the scale of the loss, where the recipe has one.
  [[nodiscard]] torch::Tensor scaled(const torch::Tensor& loss) { return scaler_.scale(loss); }
  void step();
  void zero_grad();
  [[nodiscard]] FusedOptimizer& fused() { return *fused_; }

 private:
  bool set_to_none_;
  GradScaler scaler_;
  std::unique_ptr<FusedOptimizer> fused_, local_;
  std::unique_ptr<ModelAverager> averager_;
  std::unique_ptr<torch::optim::SGD> stock_;
};

}  // namespace ddprun::interop

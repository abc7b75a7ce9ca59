#include "worker/training/evaluate.h"

#include "worker/training/batches/device_batches.h"
#include "worker/training/ranks/rank_sums.h"
#include <ddprun/autocast.h>
#include <ddprun/exception.h>
#include <ddprun/module_view.h>
#include <ddprun/sharded_evaluation.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::training {

LossSum sum_over_ranks(const Group& group, const LossSum& sum) {
  const std::vector<double> all = ddprun::sum_over_ranks(group, {sum.loss, static_cast<double>(sum.items)});
  return {all[0], std::llround(all[1])};
}

namespace {

/// Of each of the task's metrics, the sum over the samples of `indices`; then their items.
std::vector<double> sums_of(Model& model, const Task& task, const DataSource& source,
                            std::vector<std::int64_t> indices, const EvaluateOptions& options) {
  const std::vector<Metric> metrics = task.metrics();
  const std::unique_ptr<CopyLane> lane = make_copy_lane(options.device);
  DeviceBatches batches(source, std::move(indices), options.loader, options.device, lane.get());
  // Added up where the model is, and read once.
  at::Tensor sums = at::zeros({static_cast<std::int64_t>(metrics.size())},
                              at::TensorOptions(options.device).dtype(at::kDouble));
  std::int64_t items = 0;
  while (const std::optional<Batch> next = batches.next()) {
    const Batch& batch = *next;
    std::optional<AutocastGuard> autocast;
    if (options.autocast) autocast.emplace(options.device.type(), options.autocast);
    const at::Tensor found = task.sums(model.forward(batch.tensors[0]), batch);
    if (found.sizes() != sums.sizes()) {
      throw Exception(ErrorCode::kConfig,
                      fmt::format("/task/type: sums() of the task gives [{}] numbers, and metrics() names {}",
                                  fmt::join(found.sizes(), ", "), metrics.size()));
    }
    sums += found;
    items += task.items(batch);
    batches.prefetch();
    if (options.after_batch) options.after_batch();
  }
  sums = sums.cpu();
  const double* const first = sums.const_data_ptr<double>();
  std::vector<double> found(first, first + metrics.size());
  found.push_back(static_cast<double>(items));
  return found;
}

/// The buffers of a model that several ranks judge in turns, for those that change them: each rank begins with the
/// same, and the first one's remain.
class BuffersInTurns {
 public:
  explicit BuffersInTurns(const Model& model) {
    for (const auto& [name, buffer] : view_of(model).buffers()) buffers_.push_back(buffer);
    begin_ = copies();
  }
  void begin_turn() { take(begin_); }
  void end_first_turn() { of_first_ = copies(); }
  void end() { take(of_first_); }

 private:
  [[nodiscard]] std::vector<at::Tensor> copies() const {
    std::vector<at::Tensor> copies;
    for (const at::Tensor& buffer : buffers_) copies.push_back(buffer.clone());
    return copies;
  }
  void take(const std::vector<at::Tensor>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) buffers_[i].copy_(values[i]);
  }

  std::vector<at::Tensor> buffers_, begin_, of_first_;
};

}  // namespace

Evaluation evaluate(Model& model, const Task& task, const DataSource& source, const Group& group,
                    const EvaluateOptions& options) {
  const torch::NoGradGuard no_grad;
  model.eval();
  const RankBlock block =
      options.block.value_or(RankBlock{.ranks = group.size(), .first = group.process_group()->getRank()});
  std::vector<std::vector<double>> mine;
  std::optional<BuffersInTurns> buffers;
  if (block.count > 1) buffers.emplace(model);
  for (std::size_t turn = 0; turn < block.count; ++turn) {
    if (options.turn_to) options.turn_to(turn);
    if (buffers) buffers->begin_turn();
    mine.push_back(sums_of(model, task, source,
                           evaluation_shard(source.size(), block.rank(turn), block.ranks), options));
    if (buffers && turn == 0) buffers->end_first_turn();
  }
  if (options.turn_to) options.turn_to(0);
  if (buffers) buffers->end();
  const std::vector<Metric> metrics = task.metrics();
  const std::vector<double> all = sum_over_job(group, block, mine);
  Evaluation evaluation;
  for (std::size_t i = 0; i < metrics.size(); ++i) evaluation.sums.emplace_back(metrics[i].name, all[i]);
  evaluation.items = std::llround(all.back());
  return evaluation;
}

}  // namespace ddprun::training

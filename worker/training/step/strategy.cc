#include "worker/training/step/strategy.h"

#include "worker/training/ranks/buffers_part.h"
#include "worker/training/state/rng.h"
#include "worker/training/step/virtual_replicas.h"
#include <ddprun/data_parallel.h>
#include <ddprun/data_parallel_criterion.h>
#include <ddprun/exception.h>
#include <ddprun/module_view.h>

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace ddprun::training {
namespace {

using ModelPointer = std::shared_ptr<Model>;

/// A replica on each rank.
class Ddp final : public Strategy {
 public:
  Ddp(const Options& job, const Context& context, ModelPointer model)
      : context_(context),
        block_(rank_block(job, context)),
        has_own_buffers_(context.world_size() > 1 && !job.object("ddp").flag("broadcast_buffers")),
        model_(model),
        replica_(std::move(model), context, ddp_options(job.object("ddp"))) {}

  at::Tensor loss(const Batch& batch, const Task& task) override {
    return task.loss(replica_.forward(batch.tensors[0]), batch);
  }
  std::shared_ptr<void> no_sync() override {
    return std::shared_ptr<Replica::NoSync>(new Replica::NoSync(replica_.no_sync()));
  }
  std::unique_ptr<SavedPart> buffers_part() override {
    if (!has_own_buffers_ || view_of(*model_).buffers().empty()) return nullptr;
    return training::buffers_part(context_, block_, [this] { return BuffersByTurn{buffers()}; });
  }
  void sync_buffers() override { replica_.sync_buffers(); }
  BucketOrder bucket_order() override { return replica_.bucket_order(); }
  void set_bucket_order(const BucketOrder& order) override { replica_.set_bucket_order(order); }

 private:
  [[nodiscard]] std::vector<at::Tensor> buffers() const {
    std::vector<at::Tensor> all;
    for (const auto& [name, buffer] : view_of(*model_).buffers()) all.push_back(buffer);
    return all;
  }

  using Replica = DistributedDataParallel<ModelPointer>;
  const Context& context_;
  RankBlock block_;
  bool has_own_buffers_;
  ModelPointer model_;
  Replica replica_;
};

/// A replica on each device of this process; the outputs are gathered for one loss.
class InOneProcess : public Strategy {
 public:
  InOneProcess(ModelPointer model, std::vector<at::Device> devices,
               std::function<ModelPointer()> make_replica)
      : parallel_(std::move(model), std::move(devices), {.make_replica = std::move(make_replica)}) {}

  at::Tensor loss(const Batch& batch, const Task& task) override {
    return task.loss(parallel_.forward(batch.tensors[0]), batch);
  }

 protected:
  DataParallel<ModelPointer>& parallel() { return parallel_; }

 private:
  DataParallel<ModelPointer> parallel_;
};

/// The loss is computed where the outputs are.
class Balanced final : public InOneProcess {
 public:
  using InOneProcess::InOneProcess;

  at::Tensor loss(const Batch& batch, const Task& task) override {
    const auto loss_of_piece = [&task](const at::Tensor& output, const std::vector<at::Tensor>& tensors) {
      return task.loss(output, Batch{tensors, output.size(0)});
    };
    DataParallelCriterion criterion(loss_of_piece);
    return criterion(parallel().forward_scattered(batch.tensors[0]), batch.tensors);
  }
};

std::vector<at::Device> devices_of(const Options& job, const Context& context) {
  const auto wanted = static_cast<std::size_t>(job.integer("replicas"));
  std::vector<at::Device> devices;
  if (context.device().is_cuda()) {
    devices = all_devices();
  } else {
    devices.assign(std::max<std::size_t>(wanted, 1), context.device());
  }
  if (wanted > devices.size()) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("/replicas: {} are wanted, and this process sees {} GPUs; ask for "
                                "fewer, or for 0, which takes all",
                                wanted, devices.size()));
  }
  if (wanted > 0) devices.erase(devices.begin() + static_cast<std::ptrdiff_t>(wanted), devices.end());
  return devices;
}

}  // namespace

DistributedDataParallelOptions ddp_options(const Options& ddp) {
  DistributedDataParallelOptions options;
  options.bucket_cap_mb = ddp.number("bucket_cap_mb");
  options.broadcast_buffers = ddp.flag("broadcast_buffers");
  options.find_unused_parameters = ddp.flag("find_unused_parameters");
  options.static_graph = ddp.flag("static_graph");
  options.gradient_as_bucket_view = ddp.flag("gradient_as_bucket_view");
  return options;
}

void check_strategy(const Options& job, int processes) {
  rank_block(job.object("train").integer("virtual_ranks"), {.world_size = processes});
  const std::string name = job.text("strategy");
  if (name == "ddp" || processes == 1) return;
  throw Exception(ErrorCode::kConfig,
                  fmt::format("/strategy: {} works in one process, and this job has {} ranks; start it with "
                              "--nproc-per-node 1, or use ddp",
                              name, processes));
}

std::unique_ptr<Strategy> make_strategy(const Options& job, const Context& context, ModelPointer model,
                                        Generators& generators, std::function<ModelPointer()> make_replica) {
  const std::string name = job.text("strategy");
  if (const RankBlock block = rank_block(job, context); block.is_virtual)
    return std::make_unique<VirtualReplicas>(job, context, std::move(model), generators);
  if (name == "ddp") return std::make_unique<Ddp>(job, context, std::move(model));
  check_strategy(job, context.world_size());
  // Made in the first forward: a model's first weights are drawn, and the training would draw on from there.
  const auto quietly = [make_replica = std::move(make_replica)] {
    const KeptGenerators kept;
    return make_replica();
  };
  std::vector<at::Device> devices = devices_of(job, context);
  if (name == "balanced_data_parallel")
    return std::make_unique<Balanced>(std::move(model), std::move(devices), quietly);
  return std::make_unique<InOneProcess>(std::move(model), std::move(devices), quietly);
}

}  // namespace ddprun::training

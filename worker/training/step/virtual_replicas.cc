#include "worker/training/step/virtual_replicas.h"

#include "worker/runtime/ddp/broadcast_bytes.h"
#include "worker/runtime/ddp/replica_check.h"
#include <ddprun/collectives.h>
#include <ddprun/exception.h>
#include <ddprun/module_view.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>

namespace ddprun::training {
namespace {

void copy_all(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& into) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < from.size(); ++i) into[i].copy_(from[i]);
}

void broadcast_all(const Group& group, const std::vector<at::Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  if (!tensors.empty() && group.size() > 1)
    c10d::broadcast_coalesced(group.process_group(), tensors, runtime::kBroadcastBytes, 0);
}

/// Those that are trained.
std::vector<ModuleView::Parameter> dense_parameters(const Model& model) {
  std::vector<ModuleView::Parameter> trained = view_of(model).parameters;
  std::erase_if(trained, [](const auto& parameter) { return !parameter.tensor.requires_grad(); });
  for (const ModuleView::Parameter& parameter : trained) {
    if (parameter.has_sparse_gradient) {
      throw Exception(ErrorCode::kConfig,
                      fmt::format("/train/virtual_ranks: the gradient of \"{}\" is sparse, and virtual ranks "
                                  "sum dense ones; remove it, or make that embedding a dense one",
                                  parameter.name));
    }
  }
  return trained;
}

std::vector<at::Tensor> tensors_of(const std::vector<ModuleView::Parameter>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const ModuleView::Parameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

}  // namespace

VirtualReplicas::VirtualReplicas(const Options& job, const Context& context, std::shared_ptr<Model> model,
                                 Generators& generators)
    : model_(std::move(model)),
      context_(context),
      block_(rank_block(job, context)),
      options_(ddp_options(job.object("ddp"))),
      limits_(runtime::bucket_limits(options_)),
      generators_(generators),
      trained_(dense_parameters(*model_)),
      parameters_(tensors_of(trained_)),
      ready_(parameters_) {
  const ModuleView view = view_of(*model_);
  const std::vector<NamedTensor> buffers = view.buffers();
  for (const auto& [name, buffer] : buffers) buffers_.push_back(buffer);
  runtime::verify_replicas(context_, view.parameters, /*ignored=*/{}, buffers);
  std::vector<at::Tensor> all = buffers_;
  for (const ModuleView::Parameter& parameter : view.parameters) all.push_back(parameter.tensor.detach());
  broadcast_all(context_, all);
  aside_.resize(block_.count);
  for (std::size_t turn = 1; turn < block_.count; ++turn) {
    for (const at::Tensor& buffer : buffers_) aside_[turn].push_back(buffer.detach().clone());
  }
  for (const at::Tensor& buffer : buffers_) aside_[0].push_back(at::empty_like(buffer));

  buckets_ = runtime::first_buckets(limits_, parameters_, std::vector<bool>(parameters_.size()));
  // A reducer that searches for unused parameters keeps its first buckets.
  are_buckets_final_ = options_.find_unused_parameters;
  make_sums();
}

void VirtualReplicas::make_sums() {
  sums_.clear();
  for (const std::vector<std::size_t>& bucket : buckets_) {
    std::vector<at::Tensor> parameters;
    for (const std::size_t place : bucket) parameters.push_back(parameters_[place]);
    sums_.emplace_back(context_, block_, std::move(parameters));
  }
}

at::Tensor VirtualReplicas::loss(const Batch& batch, const Task& task) {
  // Of several micro batches the last one's backward counts, as it does to a reducer.
  ready_.clear();
  return task.loss(model_->forward(batch.tensors[0]), batch);
}

void VirtualReplicas::turn_to(std::size_t turn) {
  generators_.turn_to(turn);
  if (turn == turn_) return;
  copy_all(buffers_, aside_[turn_]);
  copy_all(aside_[turn], buffers_);
  turn_ = turn;
}

void VirtualReplicas::begin_turn(std::size_t turn) {
  if (turn == 0) {
    is_used_.assign(parameters_.size(), false);
    if (options_.broadcast_buffers) sync_buffers();
  }
  turn_to(turn);
}

void VirtualReplicas::end_turn(std::size_t turn) {
  std::vector<bool> is_in_last_backward(parameters_.size(), false);
  for (const std::size_t place : ready_.seen()) is_in_last_backward[place] = true;
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].grad().defined()) is_used_[i] = true;
    if (!is_in_last_backward[i]) missing.push_back(trained_[i].name);
  }
  if (!missing.empty() && !options_.find_unused_parameters) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("the last backward gave no gradient to {} of {} parameters on virtual rank "
                    "{}: {}; they took no part in the loss. Set /ddp/find_unused_parameters if "
                    "the model leaves parameters out on purpose",
                    missing.size(), parameters_.size(), block_.rank(turn), fmt::join(missing, ", ")));
  }
  for (BucketSum& sum : sums_) sum.keep(turn);
  // What other ranks than the first one see does not count.
  if (turn == 0 && !are_buckets_final_)
    buckets_ = runtime::later_buckets(limits_, parameters_, ready_.seen());
}

void VirtualReplicas::sum_gradients(TimeSpent& time) {
  turn_to(0);
  const auto span = time.on(Activity::kCommunication);
  for (BucketSum& sum : sums_) sum.sum();
  if (options_.find_unused_parameters) {
    const std::vector<bool> unused = unused_by_all();
    for (std::size_t i = 0; i < unused.size(); ++i) {
      if (unused[i]) parameters_[i].mutable_grad() = at::Tensor();
    }
  }
  if (!are_buckets_final_) rebuild_buckets();
}

std::vector<bool> VirtualReplicas::unused_by_all() const {
  std::vector<std::int64_t> used(is_used_.begin(), is_used_.end());
  at::Tensor processes = at::tensor(used, at::kLong).to(collective_device(context_));
  all_reduce(context_, processes);
  processes = processes.cpu();
  std::vector<bool> unused;
  for (std::size_t i = 0; i < used.size(); ++i)
    unused.push_back(processes.const_data_ptr<std::int64_t>()[i] == 0);
  return unused;
}

void VirtualReplicas::rebuild_buckets() {
  std::string text;
  for (const std::vector<std::size_t>& bucket : buckets_) text += fmt::format("{};", fmt::join(bucket, ","));
  BucketOrder rebuilt;
  std::vector<std::size_t> bucket;
  std::size_t number = 0;
  for (const char c : broadcast_bytes(context_, text)) {
    if (c >= '0' && c <= '9') {
      number = 10 * number + static_cast<std::size_t>(c - '0');
      continue;
    }
    bucket.push_back(std::exchange(number, 0));
    if (c == ';') rebuilt.push_back(std::exchange(bucket, {}));
  }
  set_bucket_order(rebuilt);
}

void VirtualReplicas::set_bucket_order(const BucketOrder& order) {
  std::vector<std::size_t> places;
  for (const std::vector<std::size_t>& bucket : order)
    places.insert(places.end(), bucket.begin(), bucket.end());
  std::sort(places.begin(), places.end());
  for (std::size_t i = 0; i < places.size() || i < parameters_.size(); ++i) {
    if (i >= places.size() || places[i] != i || i >= parameters_.size()) {
      throw Exception(ErrorCode::kConfig,
                      fmt::format("its buckets do not hold each of {} parameters once", parameters_.size()));
    }
  }
  buckets_ = order;
  are_buckets_final_ = true;
  make_sums();
}

void VirtualReplicas::sync_buffers() {
  broadcast_all(context_, buffers_);
  spread_buffers();
}

BuffersByTurn VirtualReplicas::buffers_by_turn() const {
  BuffersByTurn all = aside_;
  all.front() = buffers_;
  return all;
}

void VirtualReplicas::spread_buffers() { spread_first(buffers_by_turn()); }

std::vector<at::Tensor> VirtualReplicas::buffers_aside() const {
  std::vector<at::Tensor> all;
  for (std::size_t turn = 1; turn < aside_.size(); ++turn)
    all.insert(all.end(), aside_[turn].begin(), aside_[turn].end());
  return all;
}

std::unique_ptr<SavedPart> VirtualReplicas::buffers_part() {
  if (options_.broadcast_buffers || buffers_.empty()) return nullptr;
  return training::buffers_part(context_, block_, [this] { return buffers_by_turn(); });
}

}  // namespace ddprun::training

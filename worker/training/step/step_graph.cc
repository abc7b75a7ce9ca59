#include "worker/training/step/step_graph.h"

#include "worker/training/step/foreign_error.h"
#include <ddprun/exception.h>

#include <fmt/format.h>

#include <exception>
#include <utility>

namespace ddprun::training {
namespace {

BatchForm form_of(const Batch& batch) {
  BatchForm form;
  for (const at::Tensor& tensor : batch.tensors)
    form.emplace_back(tensor.sizes().vec(), tensor.scalar_type());
  return form;
}

}  // namespace

StepGraph::StepGraph(runtime::Recorder record, std::int64_t warm_up_steps, FusedOptimizer& optimizer)
    : record_(std::move(record)), plan_(warm_up_steps), optimizer_(optimizer) {}

at::Tensor StepGraph::run(const Batch& batch, const Learn& learn) {
  switch (plan_.next(form_of(batch))) {
    case GraphMove::kEager:
      return compute(batch, learn);
    case GraphMove::kRecord:
      record(batch, learn);
      return replay(batch);
    case GraphMove::kReplay:
      return replay(batch);
  }
  return {};
}

at::Tensor StepGraph::compute(const Batch& batch, const Learn& learn) {
  optimizer_.zero_grad();
  return learn(batch);
}

void StepGraph::record(const Batch& batch, const Learn& learn) {
  // Without gradients there the backward makes them: in the graph's own memory, where each replay puts them again.
  optimizer_.zero_grad();
  input_ = {{}, batch.samples};
  for (const at::Tensor& tensor : batch.tensors) input_.tensors.push_back(tensor.clone());
  try {
    recording_ = record_([this, learn] { loss_ = learn(input_).detach(); });
  } catch (const std::exception&) {
    // Memory that ran out, a lost peer and a refusal of ours are what they are without a graph.
    const Error error = describe_exception(std::current_exception());
    if (error.code() != ErrorCode::kInternal) throw;
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("/train/cuda_graph: forward and backward cannot be recorded, since something in them "
                    "waits for the GPU or talks to the host; set it to false. What is said of it: {}",
                    error.message()));
  }
  for (const at::Tensor& parameter : optimizer_.parameters()) gradients_.push_back(parameter.grad());
}

at::Tensor StepGraph::replay(const Batch& batch) {
  for (std::size_t i = 0; i < batch.tensors.size(); ++i)
    input_.tensors[i].copy_(batch.tensors[i], /*non_blocking=*/true);
  recording_->replay();
  // A step that was computed in between has left others.
  const std::vector<at::Tensor>& parameters = optimizer_.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad() = gradients_[i];
  return loss_;
}

}  // namespace ddprun::training

#pragma once

#include <ddprun/group.h>

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include <optional>

namespace ddprun {

/// Batch normalization over the batch of all ranks, which is what one process with the whole batch would
/// compute.
///
/// Shapes      input [N, C, …]: N may differ between ranks, even be 0; statistics per channel.
/// Device      CPU or GPU, wherever the group's backend is at home. float, or half types with float
/// statistics. Collective  in training mode: forward gathers 2C+1 numbers per rank, backward reduces 2C. All
/// ranks call both equally
///             often. In evaluation mode (with running statistics) it is a plain batch norm.
/// Gradients   of weight and bias stay local: DistributedDataParallel averages them like any other.
class SyncBatchNormImpl final : public torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  SyncBatchNormImpl(std::int64_t num_features, const Group& group)
      : SyncBatchNormImpl(torch::nn::BatchNormOptions(num_features), group) {}
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, const Group& group);

  /// The tensors of another normalization layer, to be shared.
  struct Tensors {
    torch::Tensor weight, bias, running_mean, running_var, num_batches_tracked;
  };
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, Tensors shared, Group group);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  torch::Tensor forward(const torch::Tensor& input);

  torch::nn::BatchNormOptions options;
  torch::Tensor weight, bias;                                    ///< undefined unless affine
  torch::Tensor running_mean, running_var, num_batches_tracked;  ///< undefined unless track_running_stats

 private:
  void register_tensors(Tensors tensors);

  Group group_;
};
TORCH_MODULE(SyncBatchNorm);

/// A SyncBatchNorm that shares the parameters and buffers of a batch norm. To be assigned to where the old
/// one was:
///   norm = replace_module("norm", ddprun::convert_sync_batchnorm(norm, group));
SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm1d& norm, const Group& group);
SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm2d& norm, const Group& group);
SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm3d& norm, const Group& group);

/// A Sequential with the same modules, in which every batch norm is synchronised. C++ cannot reach the batch
/// norms inside a module of another type (its member would keep the old one): such a module is refused with an
/// Exception kConfig that names them.
torch::nn::Sequential convert_sync_batchnorm(const torch::nn::Sequential& model, const Group& group);

}  // namespace ddprun

#pragma once

#include <ddprun/group.h>

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <type_traits>
#include <utility>

namespace ddprun {

/// Batch normalization over the batch of all ranks, which is what one process with the whole batch would
/// compute. Made without a group it normalizes this rank's batch, like torch::nn::BatchNorm, until
/// `convert_sync_batchnorm` gives it one: so a module written without knowledge of ranks can have it as a
/// member.
///
/// Shapes      input [N, C, …]: N may differ between ranks, even be 0; statistics per channel, of more than
///             one value. Where N is 0 on all ranks the running statistics stay as they are, and the batch is not
///             counted, but in a group of one rank, where it is torch's batch norm and counts it, as in Python.
/// Device      CPU or GPU, wherever the group's backend is at home. float or double, or half types with float
///             statistics. On a GPU by the kernels of torch.nn.SyncBatchNorm, in its order; Python has none for
///             the CPU.
/// Collective  in training mode: forward gathers 2C+1 numbers per rank, backward reduces 2C. All ranks call
///             both equally often. In evaluation mode it is a plain batch norm, of the batch's own statistics
///             where it keeps no running ones.
/// Gradients   of weight and bias stay local: DistributedDataParallel averages them like any other.
class SyncBatchNormImpl final : public torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  explicit SyncBatchNormImpl(std::int64_t num_features, std::optional<Group> group = {})
      : SyncBatchNormImpl(torch::nn::BatchNormOptions(num_features), std::move(group)) {}
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, std::optional<Group> group = {});

  /// The tensors of another normalization layer, to be shared.
  struct Tensors {
    torch::Tensor weight, bias, running_mean, running_var, num_batches_tracked;
  };
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, Tensors shared, Group group);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  torch::Tensor forward(const torch::Tensor& input);
  /// Whether a forward would ask other ranks at this moment: in training mode, in a group of several.
  [[nodiscard]] bool synchronises() const;
  /// From now on normalizes over the batch of this group.
  void set_group(Group group) { group_ = std::move(group); }

  torch::nn::BatchNormOptions options;
  torch::Tensor weight, bias;                                    ///< undefined unless affine
  torch::Tensor running_mean, running_var, num_batches_tracked;  ///< undefined unless track_running_stats

 private:
  void register_tensors(Tensors tensors);
  [[nodiscard]] double next_momentum() const;
  torch::Tensor normalize_alone(const torch::Tensor& input);

  std::optional<Group> group_;
};
TORCH_MODULE(SyncBatchNorm);

/// A SyncBatchNorm that shares the parameters and buffers of a batch norm.
SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm1d& norm, const Group& group);
SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm2d& norm, const Group& group);
SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm3d& norm, const Group& group);

/// Makes every batch norm of a model normalize over the group, in place and at any depth. A
/// torch::nn::BatchNorm1d, 2d or 3d in a Sequential, whoever owns that, is exchanged for a SyncBatchNorm with
/// the same tensors; a SyncBatchNorm, wherever it is, gets the group. A batch norm that is a member of a
/// module cannot be exchanged: C++ offers no way to the member, which would go on calling the old one.
/// Declare it as ddprun::SyncBatchNorm, or put it into a Sequential.
///
/// Order   after model->to(device) or before, but before DistributedDataParallel is made; again when that one goes on
///         over another group (update_process_group), to give the layers that. Parameters stay the same tensors.
/// Errors  Exception kConfig that names every batch norm that cannot be exchanged; then nothing has changed.
void convert_sync_batchnorm(torch::nn::Module& model, const Group& group);

/// The same for the module in a holder or shared_ptr, which is returned.
template <class Holder>
auto convert_sync_batchnorm(Holder model, const Group& group)
    -> std::enable_if_t<std::is_base_of_v<torch::nn::Module, std::remove_cvref_t<decltype(*model)>>, Holder> {
  convert_sync_batchnorm(static_cast<torch::nn::Module&>(*model), group);
  return model;
}

}  // namespace ddprun

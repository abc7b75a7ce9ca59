#include "worker/training/ranks/bucket_sum.h"

#include "worker/training/ranks/ring_sum.h"
#include <ddprun/collectives.h>

#include <ATen/ScalarOps.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <utility>

namespace ddprun::training {

BucketSum::BucketSum(const Group& group, const RankBlock& block, std::vector<at::Tensor> parameters)
    : group_(group), block_(block), parameters_(std::move(parameters)) {
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters_) whole_ += parameter.numel();
  const std::int64_t processes = group_.size();
  slice_ = (whole_ + processes - 1) / processes;
  flat_ = at::zeros({processes * slice_}, parameters_.front().options().requires_grad(false));
  rows_ = at::zeros({processes, static_cast<std::int64_t>(block_.count), slice_},
                    flat_.options().device(collective_device(group_)));
  std::int64_t first = 0;
  for (const at::Tensor& parameter : parameters_) {
    views_.push_back(view_of(parameter, first));
    first += parameter.numel();
  }
}

/// Laid out as the parameter is, which the reducer's buckets are, too.
at::Tensor BucketSum::view_of(const at::Tensor& parameter, std::int64_t first) const {
  if (parameter.is_non_overlapping_and_dense())
    return flat_.as_strided(parameter.sizes(), parameter.strides(), first);
  return flat_.narrow(0, first, parameter.numel()).view(parameter.sizes());
}

void BucketSum::keep(std::size_t turn) {
  const torch::NoGradGuard no_grad;
  // As the reducer does, which divides before it sums.
  const at::Tensor share = at::native::wrapped_scalar_tensor(1.0 / block_.ranks);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].grad();
    if (gradient.defined()) {
      at::mul_out(views_[i], gradient, share);
    } else {
      views_[i].zero_();
    }
  }
  rows_.select(1, static_cast<std::int64_t>(turn)).copy_(flat_.view({group_.size(), slice_}));
}

void BucketSum::sum() {
  const torch::NoGradGuard no_grad;
  at::Tensor all = rows_.view({block_.ranks, slice_});  // of one process: by rank as they lie there
  if (group_.size() > 1) {
    all = at::empty_like(all);
    all_to_all_single(group_, all, rows_.view({block_.ranks, slice_}));
  }
  const bool is_in_place = rows_.device() == flat_.device();
  at::Tensor means = is_in_place ? flat_ : at::empty(flat_.sizes(), rows_.options());
  at::Tensor mine = group_.size() > 1 ? at::empty({slice_}, rows_.options()) : means;
  ring_sum(mine, all, {.first = group_.rank() * slice_, .whole = whole_});
  if (group_.size() > 1) all_gather_into_tensor(group_, means, mine);
  if (!is_in_place) flat_.copy_(means);
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = views_[i];
}

}  // namespace ddprun::training

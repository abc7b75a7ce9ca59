#pragma once

#include "worker/transforms/image.h"
#include "worker/transforms/random.h"

#include <ATen/core/Tensor.h>

namespace ddprun::transforms {

/// MixUp and CutMix of batches: each sample is mixed with the one before it, the first with the last, as
/// torchvision's v2 does. Labels become shares of classes.

/// Zhang et al., "mixup", 2017: share · x + (1 - share) · neighbour. `share` is of Beta(alpha, alpha).
double draw_mixup(double alpha, Random& random);
at::Tensor mixup(const at::Tensor& images, double share);

/// Yun et al., "CutMix", 2019: a window of the neighbour.
struct Cut {
  Window window;
  double share = 1;  ///< of the picture that stays
};
Cut draw_cutmix(double alpha, Size image, Random& random);
at::Tensor cutmix(const at::Tensor& images, const Cut& cut);

/// labels   int64, N
/// returns  float, N × classes: `share` of the own class and the rest of the neighbour's
at::Tensor mix_labels(const at::Tensor& labels, std::int64_t classes, double share);

}  // namespace ddprun::transforms

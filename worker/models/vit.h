#pragma once

#include <ddprun/trainer/registry.h>

namespace ddprun::models {

/// vit_tiny, vit_small, vit_base: torchvision's VisionTransformer with 12 layers of width 192, 384 and 768 and
/// 3, 6 and 12 heads; vit_base with patches of 16 is its vit_b_16. The images' sides are multiples of the
/// patch's.
///
/// In evaluation it computes as in training. Python's attention then takes a fast path that rounds otherwise,
/// unless torch.backends.mha.set_fastpath_enabled(False) was called.
///
/// Options  patch_size: side of the squares that an image is cut into
///          dropout: share of values that is dropped in training
void register_vit(ModelRegistry& models);

}  // namespace ddprun::models

#pragma once

#include "worker/transforms/transform.h"
#include <ddprun/trainer/registry.h>

#include <functional>
#include <memory>

namespace ddprun::transforms {

/// Reads each key that it knows, with its default: who calls it refuses the others.
using TransformFactory = std::function<std::unique_ptr<Transform>(const Options& options)>;
using TransformRegistry = Registry<TransformFactory>;

/// Adds the transforms of ddprun itself, with torchvision's names, meaning and defaults:
///
///   resize               size: of the short side, or height and width
///   center_crop          size, or height and width
///   random_crop          the same; padding: 0
///   random_resized_crop  the same; scale: [0.08, 1], ratio: [0.75, 1.3333]
///   horizontal_flip      p: 0.5
///   vertical_flip        p: 0.5
///   color_jitter         brightness, contrast, saturation, hue: 0, the width of a range around 1, of hue around 0
///   rand_augment         num_ops: 2, magnitude: 9, num_magnitude_bins: 31
void register_transforms(TransformRegistry& registry);

}  // namespace ddprun::transforms

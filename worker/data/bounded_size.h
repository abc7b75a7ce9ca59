#pragma once

#include "rendezvous/base/result.h"
#include "worker/transforms/image.h"

#include <string>

namespace ddprun::data {

/// The size that the header of image file `name` says, before anything is taken for its pixels.
///
/// Errors  kCorrupt: more than transforms::kMostPixels.
Result<transforms::Size> bounded_size(transforms::Size size, const std::string& name);

}  // namespace ddprun::data

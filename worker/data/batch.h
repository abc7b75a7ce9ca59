#pragma once

#include "worker/data/dataset.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace ddprun::data {

/// What a model is fed: normalised images and their classes, on the CPU.
struct Batch {
  at::Tensor images;  ///< float, N × 1 × height × width
  at::Tensor labels;  ///< int64, N
};

/// Gathers `indices` of `set`. `pinned` memory lets a GPU copy it while computing.
Batch make_batch(const Dataset& set, std::span<const std::int64_t> indices, bool pinned);

}  // namespace ddprun::data

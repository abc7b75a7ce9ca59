#include "worker/data/batch.h"

#include <ATen/ops/empty.h>

#include <array>
#include <cstddef>

namespace ddprun::data {

Batch make_batch(const Dataset& set, std::span<const std::int64_t> indices, bool pinned) {
  const auto count = static_cast<std::int64_t>(indices.size());
  const auto options = at::TensorOptions().pinned_memory(pinned);
  Batch batch;
  batch.images = at::empty({count, 1, set.height, set.width}, options.dtype(at::kFloat));
  batch.labels = at::empty({count}, options.dtype(at::kLong));

  std::array<float, 256> value_of{};
  for (std::size_t level = 0; level < value_of.size(); ++level) {
    value_of[level] = (static_cast<float>(level) / 255.0F - set.mean) / set.deviation;
  }
  const auto image_size = static_cast<std::size_t>(set.image_size());
  float* value = batch.images.mutable_data_ptr<float>();
  std::int64_t* label = batch.labels.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t index : indices) {
    const std::uint8_t* pixel = set.pixels.data() + static_cast<std::size_t>(index) * image_size;
    for (std::size_t i = 0; i < image_size; ++i) *value++ = value_of[pixel[i]];
    *label++ = set.labels[static_cast<std::size_t>(index)];
  }
  return batch;
}

}  // namespace ddprun::data

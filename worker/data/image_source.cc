#include "worker/data/image_source.h"

#include <ATen/ops/empty.h>

#include <cstddef>
#include <utility>

namespace ddprun::data {

ImageSource::ImageSource(Images images) : images_(std::move(images)) {
  shape_.tensors = {{"image", {images_.channels, images_.height, images_.width}, at::kFloat},
                    {"label", {}, at::kLong}};
  shape_.classes = images_.classes;
  shape_.class_names = images_.class_names;
  shape_.unit = "images";
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(images_.channels); ++channel) {
    std::array<float, 256>& values = value_of_.emplace_back();
    for (std::size_t level = 0; level < values.size(); ++level) {
      values[level] =
          (static_cast<float>(level) / 255.0F - images_.mean[channel]) / images_.deviation[channel];
    }
  }
}

Batch ImageSource::make_batch(const BatchRequest& request) const {
  const auto count = static_cast<std::int64_t>(request.indices.size());
  const auto options = at::TensorOptions().pinned_memory(request.pinned);
  const at::Tensor images =
      at::empty({count, images_.channels, images_.height, images_.width}, options.dtype(at::kFloat));
  const at::Tensor labels = at::empty({count}, options.dtype(at::kLong));

  const auto plane_size = static_cast<std::size_t>(images_.plane_size());
  const auto image_size = static_cast<std::size_t>(images_.image_size());
  float* value = images.mutable_data_ptr<float>();
  std::int64_t* label = labels.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t index : request.indices) {
    const std::uint8_t* pixel = images_.pixels.data() + static_cast<std::size_t>(index) * image_size;
    for (const std::array<float, 256>& values : value_of_) {
      for (std::size_t i = 0; i < plane_size; ++i) *value++ = values[*pixel++];
    }
    *label++ = images_.labels[static_cast<std::size_t>(index)];
  }
  return {{images, labels}, count};
}

DataSplits to_sources(ImageSplits splits) {
  return {std::make_shared<ImageSource>(std::move(splits.train)),
          std::make_shared<ImageSource>(std::move(splits.held_out))};
}

}  // namespace ddprun::data

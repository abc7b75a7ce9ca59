#pragma once

#include "worker/data/images.h"
#include <ddprun/trainer/data_source.h>

#include <array>
#include <vector>

namespace ddprun::data {

/// Images in memory as a data source: "image", normalised floats [channels, height, width], and "label", the
/// class as int64.
class ImageSource final : public DataSource {
 public:
  explicit ImageSource(Images images);

  [[nodiscard]] std::int64_t size() const override { return images_.count; }
  [[nodiscard]] const DataShape& shape() const override { return shape_; }
  [[nodiscard]] Batch make_batch(const BatchRequest& request) const override;

 private:
  Images images_;
  DataShape shape_;
  std::vector<std::array<float, 256>> value_of_;  // by channel: what a byte stands for
};

/// Both splits as sources.
DataSplits to_sources(ImageSplits splits);

}  // namespace ddprun::data

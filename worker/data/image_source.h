#pragma once

#include "worker/data/byte_images.h"
#include "worker/data/images.h"
#include "worker/transforms/chain.h"
#include <ddprun/trainer/data_source.h>
#include <ddprun/trainer/options.h>

namespace ddprun::data {

/// Images in memory as a data source: "image", floats [channels, height, width] at the end of a chain of
/// transforms, and "label", the class as int64.
class ImageSource final : public DataSource, public ByteImages {
 public:
  /// Without transforms: normalised only.
  explicit ImageSource(Images images);
  ImageSource(Images images, transforms::Chain chain);

  [[nodiscard]] std::int64_t size() const override { return images_.count; }
  [[nodiscard]] const DataShape& shape() const override { return shape_; }
  [[nodiscard]] Batch make_batch(const BatchRequest& request) const override;
  [[nodiscard]] const transforms::Normalizer* end_of_bytes() const override { return chain_.end_of_bytes(); }
  [[nodiscard]] Batch make_byte_batch(const BatchRequest& request) const override;

  /// What other images are made from as these are: of this size and as many channels.
  [[nodiscard]] const transforms::Chain& chain() const { return chain_; }
  [[nodiscard]] transforms::Size image_size() const { return {images_.height, images_.width}; }
  [[nodiscard]] std::int64_t channels() const { return images_.channels; }

 private:
  template <class Element>
  [[nodiscard]] Batch make(const BatchRequest& request) const;

  Images images_;
  transforms::Chain chain_;
  DataShape shape_;
};

/// Both splits as sources, through the lists "transforms" and "test_transforms" of `options`.
///
/// Errors  Exception kConfig with the place in the job file: a list is wrong, or images of the two splits come
///         out in different sizes.
DataSplits to_sources(ImageSplits splits, const Options& options);

/// The chains of the two lists, and that they end in one size.
struct Chains {
  transforms::Chain train;
  transforms::Chain held_out;
};
Chains read_chains(const Options& options, const transforms::ChainInput& train,
                   const transforms::ChainInput& held_out);

/// What a source of images yields: "image" and "label".
DataShape image_shape(const transforms::Chain& chain, std::int64_t classes,
                      std::vector<std::string> class_names);

/// Tensors for the images, floats or bytes, and the labels of a request.
template <class Element>
struct ImageBatch {
  ImageBatch(const BatchRequest& request, const transforms::Chain& chain);
  /// Where the image of the request's i-th sample goes.
  [[nodiscard]] Element* image(std::size_t i) const;
  [[nodiscard]] std::int64_t& label(std::size_t i) const;
  [[nodiscard]] Batch take() const { return {{images, labels}, labels.size(0)}; }

  at::Tensor images;
  at::Tensor labels;
};

}  // namespace ddprun::data

#pragma once

#include "worker/data/byte_images.h"
#include "worker/data/damage.h"
#include "worker/data/image_listing.h"
#include "worker/transforms/chain.h"
#include <ddprun/trainer/data_source.h>
#include <ddprun/trainer/options.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace ddprun::data {

/// What happens at an image that cannot be decoded.
enum class OnDamage {
  kStop,  ///< make_batch throws Exception kCorrupt, naming the file
  kSkip,  ///< the next whole image of the listing takes its place; the file is named on stderr, once. A file that
          ///< cannot be read stops the job: another start may read it, and would learn from other images
};

/// A JPEG or PNG file's content, still to be decoded. The kind is known by the first bytes, not by the name, as
/// Pillow knows it. `bytes` and `path` outlive the result.
/// Errors  Exception kCorrupt, naming the file.
transforms::Undecoded open_image(const std::vector<std::uint8_t>& bytes, const std::string& path);

/// JPEG and PNG files as a data source: "image", floats [3, height, width] at the end of a chain, and "label".
/// Each image is read and decoded when a batch wants it; of a JPEG that is cropped first, the crop only.
class ImageFolderSource final : public DataSource, public ByteImages, public LeavesOutDamaged {
 public:
  ImageFolderSource(ImageListing listing, transforms::Chain chain, OnDamage on_damage);

  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(listing_.files.size());
  }
  [[nodiscard]] const DataShape& shape() const override { return shape_; }
  [[nodiscard]] Batch make_batch(const BatchRequest& request) const override;
  [[nodiscard]] const transforms::Normalizer* end_of_bytes() const override { return chain_.end_of_bytes(); }
  [[nodiscard]] Batch make_byte_batch(const BatchRequest& request) const override;

  [[nodiscard]] const transforms::Chain& chain() const { return chain_; }

  [[nodiscard]] std::int64_t left_out() const override;

 private:
  void skip(const std::string& path, const std::string& why) const;
  template <class Element>
  [[nodiscard]] Batch make(const BatchRequest& request) const;
  template <class Element>
  std::int64_t write_sample(const BatchRequest& request, std::int64_t index, Element* out) const;

  ImageListing listing_;
  transforms::Chain chain_;
  OnDamage on_damage_;
  DataShape shape_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> damaged_;
};

/// From "path": its folders train and val (or test), which have the same classes; without a folder train the
/// classes are in "path" itself, and "held_out_share" of each is held out.
///
/// Errors  Exception, naming the folder or file and what to do.
DataSplits open_image_folder(const Options& options);

}  // namespace ddprun::data

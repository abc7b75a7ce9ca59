#pragma once

#include "worker/transforms/normalize.h"
#include <ddprun/trainer/data_source.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace ddprun::data {

/// A source of images whose last change, from bytes to numbers, can be left to the device: a quarter of the memory on
/// the way there.
class ByteImages {
 public:
  virtual ~ByteImages() = default;
  ByteImages() = default;
  ByteImages(const ByteImages&) = delete;
  ByteImages& operator=(const ByteImages&) = delete;

  /// What makes the numbers of tensor 0; null: more than that does.
  [[nodiscard]] virtual const transforms::Normalizer* end_of_bytes() const = 0;

  /// The batch of DataSource::make_batch, with bytes for the numbers of tensor 0.
  [[nodiscard]] virtual Batch make_byte_batch(const BatchRequest& request) const = 0;
};

/// The batches of a source with their images in bytes, and what is left to be done with them on the device.
///
/// Lifetime  the source outlives it.
class InBytes final : public DataSource {
 public:
  /// Null where the source has no bytes to give, or where batches of `batch_size` are so small that the work on the
  /// device takes longer than it saves.
  static std::unique_ptr<InBytes> of(const DataSource& source, std::int64_t batch_size);

  [[nodiscard]] std::int64_t size() const override { return source_.size(); }
  [[nodiscard]] const DataShape& shape() const override { return shape_; }
  [[nodiscard]] Batch make_batch(const BatchRequest& request) const override;

  /// What makes the source's own batch of one of bytes that is on `device`.
  [[nodiscard]] std::function<Batch(Batch)> finish_on(const at::Device& device) const;

 private:
  InBytes(const DataSource& source, const ByteImages& bytes);

  const DataSource& source_;
  const ByteImages& bytes_;
  DataShape shape_;
};

}  // namespace ddprun::data

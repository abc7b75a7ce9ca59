#include "worker/data/mixed_source.h"

#include "worker/transforms/mix.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>

namespace ddprun::data {
namespace {

constexpr std::uint8_t kStreamOfBatches = 1;

class MixedSource final : public DataSource {
 public:
  MixedSource(std::shared_ptr<const DataSource> source, const MixOptions& options)
      : source_(std::move(source)), options_(options), shape_(source_->shape()) {
    shape_.tensors[1].sizes = {shape_.classes};
    shape_.tensors[1].dtype = at::kFloat;
  }

  [[nodiscard]] std::int64_t size() const override { return source_->size(); }
  [[nodiscard]] const DataShape& shape() const override { return shape_; }

  [[nodiscard]] Batch make_batch(const BatchRequest& request) const override {
    BatchRequest plain = request;
    plain.pinned = false;  // what is given out is made below
    Batch batch = source_->make_batch(plain);
    if (batch.samples == 0) return batch;
    transforms::Random random({.seed = request.seed,
                               .epoch = request.epoch,
                               .index = request.indices.front(),
                               .stream = kStreamOfBatches});
    const double share = mix(batch.tensors[0], random);
    batch.tensors[1] = transforms::mix_labels(batch.tensors[1], shape_.classes, share);
    if (request.pinned) {
      for (at::Tensor& tensor : batch.tensors) tensor = tensor.pin_memory();
    }
    return batch;
  }

 private:
  /// Returns the share of each sample that stays.
  double mix(at::Tensor& inputs, transforms::Random& random) const {
    const bool both = options_.mixup_alpha > 0 && options_.cutmix_alpha > 0;
    const bool cuts = both ? random.chance(0.5) : options_.cutmix_alpha > 0;
    if (!cuts) {
      const double share = transforms::draw_mixup(options_.mixup_alpha, random);
      inputs = transforms::mixup(inputs, share);
      return share;
    }
    const transforms::Cut cut =
        transforms::draw_cutmix(options_.cutmix_alpha, {inputs.size(2), inputs.size(3)}, random);
    inputs = transforms::cutmix(inputs, cut);
    return cut.share;
  }

  std::shared_ptr<const DataSource> source_;
  MixOptions options_;
  DataShape shape_;
};

void check(const DataShape& shape, const MixOptions& options) {
  const std::string key = options.mixup_alpha > 0 ? "/train/mixup_alpha" : "/train/cutmix_alpha";
  if (shape.classes == 0 || shape.tensors.size() < 2 || !shape.tensors[1].sizes.empty()) {
    throw Exception(
        ErrorCode::kConfig,
        key + ": mixes samples that have a class each, and those of this data have none; remove it");
  }
  const TensorShape& input = shape.tensors[0];
  const std::string found = fmt::format("the data gives \"{}\" of shape [{}] and type {}", input.name,
                                        fmt::join(input.sizes, ", "), at::toString(input.dtype));
  if (!at::isFloatingType(input.dtype))
    throw Exception(ErrorCode::kConfig, fmt::format("{}: mixes numbers, and {}; remove it", key, found));
  if (options.cutmix_alpha > 0 && input.sizes.size() != 3) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("/train/cutmix_alpha: cuts windows out of images, and {}; remove it, or set "
                                "/train/mixup_alpha alone",
                                found));
  }
}

}  // namespace

std::shared_ptr<const DataSource> mixed(std::shared_ptr<const DataSource> source, const MixOptions& options) {
  check(source->shape(), options);
  return std::make_shared<MixedSource>(std::move(source), options);
}

}  // namespace ddprun::data

#include "worker/data/mixed_source.h"

#include "tests/support/catch.h"
#include "worker/data/image_source.h"
#include "worker/data/loader.h"
#include "worker/data/synthetic.h"
#include <ddprun/exception.h>

#include <torch/types.h>

#include <memory>
#include <numeric>
#include <vector>

using namespace ddprun;

namespace {

std::shared_ptr<const DataSource> pictures() {
  return std::make_shared<data::ImageSource>(data::make_synthetic({.train_samples = 64}).train);
}

std::vector<Batch> batches(const DataSource& source, std::int64_t first, const data::LoaderOptions& options) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(64 - first));
  std::iota(indices.begin(), indices.end(), first);
  data::BatchLoader loader(source, indices, options);
  std::vector<Batch> all;
  while (auto batch = loader.next()) all.push_back(std::move(*batch));
  return all;
}

/// Has one shape and no samples.
class Shapely final : public DataSource {
 public:
  explicit Shapely(DataShape shape) : shape_(std::move(shape)) {}
  std::int64_t size() const override { return 0; }
  const DataShape& shape() const override { return shape_; }
  Batch make_batch(const BatchRequest&) const override { return {}; }

 private:
  DataShape shape_;
};

void make_mixed(DataShape shape, const data::MixOptions& options) {
  static_cast<void>(data::mixed(std::make_shared<Shapely>(std::move(shape)), options));
}

const TensorShape kLabel{"label", {}, at::kLong};

}  // namespace

TEST_CASE("a mixed batch is the same whatever thread makes it, and after a resume") {
  const auto source = data::mixed(pictures(), {.mixup_alpha = 0.4, .cutmix_alpha = 1});
  const auto expected = batches(*source, 0, {.batch_size = 8, .threads = 0, .seed = 5, .epoch = 2});
  const auto threaded = batches(*source, 0, {.batch_size = 8, .threads = 3, .seed = 5, .epoch = 2});
  const auto resumed = batches(*source, 24, {.batch_size = 8, .threads = 1, .seed = 5, .epoch = 2});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Batch& other = i < 3 ? threaded[i] : resumed[i - 3];
    CHECK(at::equal(expected[i].tensors[0], other.tensors[0]));
    CHECK(at::equal(expected[i].tensors[1], other.tensors[1]));
  }
  const auto next_epoch = batches(*source, 0, {.batch_size = 8, .threads = 0, .seed = 5, .epoch = 3});
  CHECK(!at::equal(expected[0].tensors[0], next_epoch[0].tensors[0]));
}

TEST_CASE("the labels of a mixed batch are shares that add up to one") {
  const auto source = data::mixed(pictures(), {.cutmix_alpha = 1});
  CHECK(source->shape().tensors[1].sizes == std::vector<std::int64_t>{10});
  for (const Batch& batch : batches(*source, 0, {.batch_size = 5})) {
    CHECK(at::allclose(batch.tensors[1].sum(1), torch::ones({batch.samples})));
  }
}

TEST_CASE("with both, each of the two mixes about half of the batches") {
  const auto source = data::mixed(pictures(), {.mixup_alpha = 1, .cutmix_alpha = 1});
  const auto plain = pictures();
  int cut = 0;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const auto mixed = batches(*source, 0, {.batch_size = 8, .epoch = epoch});
    const auto original = batches(*plain, 0, {.batch_size = 8, .epoch = epoch});
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      // CutMix leaves each pixel one of two; MixUp moves every one that differs.
      const at::Tensor now = mixed[i].tensors[0], own = original[i].tensors[0];
      cut += now.eq(own).logical_or(now.eq(own.roll(1, 0))).all().item<bool>() ? 1 : 0;
    }
  }
  CHECK(cut > 50);
  CHECK(cut < 110);
}

TEST_CASE("what cannot be mixed is refused with the reason") {
  CHECK_THROWS_WITH(
      make_mixed({.tensors = {{"x", {3}}, {"y", {1}}}}, {.mixup_alpha = 1}),
      "/train/mixup_alpha: mixes samples that have a class each, and those of this data have none; "
      "remove it");
  CHECK_THROWS_WITH(
      make_mixed({.tensors = {{"x", {3}}, kLabel}, .classes = 4}, {.cutmix_alpha = 1}),
      "/train/cutmix_alpha: cuts windows out of images, and the data gives \"x\" of shape [3] and type "
      "Float; remove it, or set /train/mixup_alpha alone");
  CHECK_THROWS_WITH(
      make_mixed({.tensors = {{"id", {3}, at::kLong}, kLabel}, .classes = 4}, {.mixup_alpha = 1}),
      "/train/mixup_alpha: mixes numbers, and the data gives \"id\" of shape [3] and type Long; remove it");
}

#include "worker/data/image_source.h"

#include "tests/support/catch.h"
#include "worker/data/synthetic.h"

#include <torch/types.h>

#include <array>

using namespace ddprun;

namespace {

DataSplits with_transforms(const std::string& lists) {
  return data::to_sources(data::make_synthetic({.train_samples = 20, .held_out_samples = 5}),
                          Options("{" + lists + "}", "/data"));
}

at::Tensor images_of(const DataSource& source, std::vector<std::int64_t> indices, std::int64_t epoch) {
  return source.make_batch({.indices = indices, .seed = 1, .epoch = epoch}).tensors[0];
}

const std::string kCrops =
    R"("transforms": [{"type": "random_crop", "size": 28, "padding": 4}, {"type": "horizontal_flip"}],
       "test_transforms": [])";

}  // namespace

TEST_CASE("an image follows from seed, epoch and index, and not from the batch it is in") {
  const DataSplits splits = with_transforms(kCrops);
  const at::Tensor together = images_of(*splits.train, {3, 7, 11}, 0);
  CHECK(torch::equal(images_of(*splits.train, {7}, 0)[0], together[1]));
  CHECK(!torch::equal(images_of(*splits.train, {3, 7, 11}, 1), together));
}

TEST_CASE("held-out images go through their own list") {
  const DataSplits splits = with_transforms(kCrops);
  const data::ImageSource plain(data::make_synthetic({.train_samples = 20, .held_out_samples = 5}).held_out);
  CHECK(torch::equal(images_of(*splits.held_out, {0, 4}, 0), images_of(plain, {0, 4}, 0)));
}

TEST_CASE("the shape of a source is that at the end of its transforms") {
  const DataSplits splits = with_transforms(
      R"("transforms": [{"type": "resize", "size": 14}], "test_transforms": [{"type": "center_crop", "size": 14}])");
  CHECK(splits.train->shape().tensors[0].sizes == std::vector<std::int64_t>{1, 14, 14});
  CHECK(images_of(*splits.held_out, {1}, 0).sizes() == at::IntArrayRef({1, 1, 14, 14}));
}

TEST_CASE("splits of different sizes are refused, with both") {
  CHECK_THROWS_WITH(
      with_transforms(R"("transforms": [{"type": "resize", "size": 14}], "test_transforms": [])"),
      "/data/test_transforms: its images end with 28 × 28 pixels, those of /data/transforms "
      "with 14 × 14; a model takes one size");
}

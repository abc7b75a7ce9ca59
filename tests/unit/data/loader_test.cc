#include "worker/data/loader.h"

#include "tests/support/catch.h"
#include "worker/data/synthetic.h"

#include <torch/torch.h>

#include <numeric>

using namespace ddprun;

namespace {

std::vector<std::int64_t> first(std::int64_t count) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

std::vector<at::Tensor> all_images(const data::Dataset& set, std::int64_t count,
                                   const data::LoaderOptions& options) {
  data::BatchLoader loader(set, first(count), options);
  std::vector<at::Tensor> images;
  while (const auto batch = loader.next()) images.push_back(batch->images);
  return images;
}

}  // namespace

TEST_CASE("a loader gives the same batches in the same order for any number of threads") {
  const data::Dataset set = data::make_synthetic({.train_samples = 250}).train;
  const auto expected = all_images(set, 250, {.batch_size = 8, .threads = 0});
  REQUIRE(expected.size() == 32);
  CHECK(expected.back().size(0) == 2);
  for (const int threads : {1, 3, 40}) {
    const auto images = all_images(set, 250, {.batch_size = 8, .threads = threads, .prefetch_batches = 3});
    REQUIRE(images.size() == expected.size());
    for (std::size_t i = 0; i < images.size(); ++i) CHECK(at::equal(images[i], expected[i]));
  }
}

TEST_CASE("a loader that is dropped in the middle of an epoch ends its threads") {
  const data::Dataset set = data::make_synthetic({.train_samples = 1000}).train;
  data::BatchLoader loader(set, first(1000), {.batch_size = 1, .threads = 4, .prefetch_batches = 2});
  CHECK(loader.next());
  CHECK(loader.batch_count() == 1000);
}

TEST_CASE("an empty shard has no batch") {
  const data::Dataset set = data::make_synthetic({.train_samples = 1}).train;
  data::BatchLoader loader(set, {}, {.threads = 2});
  CHECK_FALSE(loader.next());
}

TEST_CASE("a batch holds normalised pixels and labels") {
  data::Dataset set;
  set.count = 2;
  set.height = set.width = 1;
  set.mean = 0.5F;
  set.deviation = 0.25F;
  set.pixels = {0, 255};
  set.labels = {4, 9};
  const std::vector<std::int64_t> indices{1, 0, 1};
  const data::Batch batch = data::make_batch(set, indices, /*pinned=*/false);
  CHECK(at::equal(batch.images.flatten(), at::tensor({2.0F, -2.0F, 2.0F})));
  CHECK(at::equal(batch.labels, at::tensor({9, 4, 9}, at::kLong)));
}

TEST_CASE("synthetic data is the same for the same seed and differs for another") {
  const auto one = data::make_synthetic({.train_samples = 10, .seed = 1}).train;
  CHECK(one.pixels == data::make_synthetic({.train_samples = 10, .seed = 1}).train.pixels);
  CHECK(one.pixels != data::make_synthetic({.train_samples = 10, .seed = 2}).train.pixels);
}

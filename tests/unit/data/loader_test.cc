#include "worker/data/loader.h"

#include "tests/support/catch.h"
#include "worker/data/image_source.h"
#include "worker/data/synthetic.h"
#include <ddprun/exception.h>

#include <torch/types.h>

#include <numeric>

using namespace ddprun;

namespace {

std::vector<std::int64_t> first(std::int64_t count) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

data::ImageSource synthetic(std::int64_t count) {
  return data::ImageSource(data::make_synthetic({.train_samples = count}).train);
}

std::vector<at::Tensor> all_images(const DataSource& source, std::int64_t count,
                                   const data::LoaderOptions& options) {
  data::BatchLoader loader(source, first(count), options);
  std::vector<at::Tensor> images;
  while (const auto batch = loader.next()) images.push_back(batch->tensors[0]);
  return images;
}

/// Samples of one number: ten times the epoch, plus the index.
class Counting final : public DataSource {
 public:
  explicit Counting(std::int64_t broken = -1) : broken_(broken) {
    shape_.tensors = {{"number", {}, at::kLong}};
  }
  std::int64_t size() const override { return 10; }
  const DataShape& shape() const override { return shape_; }
  Batch make_batch(const BatchRequest& request) const override {
    std::vector<std::int64_t> numbers;
    for (const std::int64_t index : request.indices) {
      if (index == broken_) throw Exception(ErrorCode::kCorrupt, "sample 7 is damaged");
      numbers.push_back(10 * request.epoch + index);
    }
    return {{at::tensor(numbers)}, static_cast<std::int64_t>(numbers.size())};
  }

 private:
  std::int64_t broken_;
  DataShape shape_;
};

}  // namespace

TEST_CASE("a loader gives the same batches in the same order for any number of threads") {
  const data::ImageSource set = synthetic(250);
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
  const data::ImageSource set = synthetic(1000);
  data::BatchLoader loader(set, first(1000), {.batch_size = 1, .threads = 4, .prefetch_batches = 2});
  CHECK(loader.next());
  CHECK(loader.batch_count() == 1000);
}

TEST_CASE("an empty shard has no batch") {
  const data::ImageSource set = synthetic(1);
  data::BatchLoader loader(set, first(0), {.threads = 2});
  CHECK_FALSE(loader.next());
}

TEST_CASE("batches of several shards come in turns") {
  const std::vector<data::BatchList> shards{data::split({0, 1, 2, 3, 4, 5, 6}, 2),
                                            data::split({10, 11, 12, 13, 14, 15, 16}, 2)};
  CHECK(data::in_turns(shards, 1) ==
        data::BatchList{{0, 1}, {10, 11}, {2, 3}, {12, 13}, {4, 5}, {14, 15}, {6}, {16}});
  CHECK(data::in_turns(shards, 3) ==
        data::BatchList{{0, 1}, {2, 3}, {4, 5}, {10, 11}, {12, 13}, {14, 15}, {6}, {16}});
  CHECK(data::in_turns({{}, {}}, 3).empty());
}

TEST_CASE("a loader passes on the epoch, and what a sample throws") {
  const Counting source;
  data::BatchLoader whole(source, first(10), {.batch_size = 4, .threads = 1, .epoch = 3});
  CHECK(at::equal(whole.next()->tensors[0], at::tensor({30, 31, 32, 33}, at::kLong)));
  for (const int threads : {0, 1, 3}) {
    const Counting broken(7);
    data::BatchLoader loader(broken, first(10), {.batch_size = 1, .threads = threads});
    const auto read_all = [&] {
      while (loader.next()) {
      }
    };
    CHECK_THROWS_WITH(read_all(), "sample 7 is damaged");
    // Of what comes before it nothing is lost, however far ahead the threads are.
    data::BatchLoader steady(broken, first(10),
                             {.batch_size = 1, .threads = threads, .prefetch_batches = 10});
    for (int i = 0; i < 7; ++i) CHECK(steady.next().has_value());
    CHECK_THROWS_WITH(steady.next(), "sample 7 is damaged");
  }
}

TEST_CASE("a batch holds normalised pixels and labels") {
  data::Images set;
  set.count = 2;
  set.height = set.width = 1;
  set.mean = {0.5F};
  set.deviation = {0.25F};
  set.pixels = {0, 255};
  set.labels = {4, 9};
  const data::ImageSource source(set);
  const std::vector<std::int64_t> indices{1, 0, 1};
  const Batch batch = source.make_batch({.indices = indices});
  CHECK(batch.samples == 3);
  CHECK(at::equal(batch.tensors[0].flatten(), at::tensor({2.0F, -2.0F, 2.0F})));
  CHECK(at::equal(batch.tensors[1], at::tensor({9, 4, 9}, at::kLong)));
  CHECK(source.shape().classes == 10);
}

TEST_CASE("each channel of an image is normalised by its own mean and deviation") {
  data::Images set;
  set.count = 1;
  set.channels = 2;
  set.height = 1;
  set.width = 2;
  set.mean = {0, 1};
  set.deviation = {1, 0.5F};
  set.pixels = {0, 255, 255, 0};
  set.labels = {0};
  const std::vector<std::int64_t> indices{0};
  const Batch batch = data::ImageSource(set).make_batch({.indices = indices});
  CHECK(at::equal(batch.tensors[0], at::tensor({0.0F, 1.0F, 0.0F, -2.0F}).view({1, 2, 1, 2})));
}

TEST_CASE("synthetic data is the same for the same seed and differs for another") {
  const auto one = data::make_synthetic({.train_samples = 10, .seed = 1}).train;
  CHECK(one.pixels == data::make_synthetic({.train_samples = 10, .seed = 1}).train.pixels);
  CHECK(one.pixels != data::make_synthetic({.train_samples = 10, .seed = 2}).train.pixels);
}

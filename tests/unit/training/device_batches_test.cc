#include "worker/training/batches/device_batches.h"

#include "tests/support/catch.h"
#include "worker/data/image_source.h"
#include "worker/data/synthetic.h"

#include <torch/types.h>

#include <numeric>
#include <vector>

using namespace ddprun;
using namespace ddprun::training;

namespace {

/// Copies nothing, and keeps what kind of images came by.
class TypeLane final : public CopyLane {
 public:
  Batch begin(const Batch& batch, const Finish& finish) override {
    types.push_back(batch.tensors[0].scalar_type());
    return finish ? finish(batch) : batch;
  }
  void join(const Batch& /*batch*/) override {}

  std::vector<at::ScalarType> types;
};

DataSplits images(const std::string& last_transform = "") {
  const std::string list =
      R"([{"type": "random_crop", "size": 28, "padding": 4}, {"type": "horizontal_flip"})" + last_transform +
      "]";
  return data::to_sources(
      data::make_synthetic({.train_samples = 900, .held_out_samples = 1}),
      Options(R"({"transforms": )" + list + R"(, "test_transforms": )" + list + "}", "/data"));
}

std::vector<Batch> all_batches(const DataSource& source, std::int64_t batch_size, CopyLane* lane) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(source.size()));
  std::iota(indices.begin(), indices.end(), 0);
  DeviceBatches batches(source, indices, {.batch_size = batch_size, .threads = 1, .seed = 5, .epoch = 2},
                        at::kCPU, lane);
  std::vector<Batch> found;
  while (auto batch = batches.next()) {
    found.push_back(std::move(*batch));
    batches.prefetch();
  }
  return found;
}

bool are_equal(const std::vector<Batch>& some, const std::vector<Batch>& others) {
  if (some.size() != others.size()) return false;
  for (std::size_t i = 0; i < some.size(); ++i) {
    if (!torch::equal(some[i].tensors[0], others[i].tensors[0])) return false;
    if (!torch::equal(some[i].tensors[1], others[i].tensors[1])) return false;
  }
  return true;
}

constexpr std::int64_t kLarge = 400;  // × 28 × 28 floats: more than 1 MiB
constexpr std::int64_t kSmall = 100;

}  // namespace

TEST_CASE("large batches of images travel as bytes, and come out as the same numbers") {
  for (const std::string& scaling : std::vector<std::string>{"divide", "multiply"}) {
    const DataSplits splits =
        images(R"(, {"type": "normalize", "mean": [0.28], "std": [0.31], "scaling": ")" + scaling + "\"}");
    TypeLane lane;
    const std::vector<Batch> expected = all_batches(*splits.train, kLarge, nullptr);
    REQUIRE(expected.size() == 3);
    CHECK(are_equal(all_batches(*splits.train, kLarge, &lane), expected));
    CHECK(lane.types == std::vector<at::ScalarType>(3, at::kByte));
  }
}

TEST_CASE("small batches, and images that are changed after they are numbers, travel as numbers") {
  TypeLane lane;
  const DataSplits plain = images();
  CHECK(are_equal(all_batches(*plain.train, kSmall, &lane), all_batches(*plain.train, kSmall, nullptr)));
  CHECK(lane.types == std::vector<at::ScalarType>(9, at::kFloat));
  lane.types.clear();
  const DataSplits erased = images(R"(, {"type": "random_erasing", "p": 1})");
  CHECK(are_equal(all_batches(*erased.train, kLarge, &lane), all_batches(*erased.train, kLarge, nullptr)));
  CHECK(lane.types == std::vector<at::ScalarType>(3, at::kFloat));
}

#include "worker/training/batches/device_prefetcher.h"

#include "tests/support/catch.h"

#include <torch/types.h>

#include <stdexcept>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::training;

namespace {

using Lines = std::vector<std::string>;

std::string name_of(const Batch& batch) { return std::to_string(batch.tensors[0].item<std::int64_t>()); }

/// Gives the numbers 0 to 3, and says what is done with them.
struct Story {
  Lines lines;
  std::int64_t taken = 0;
  std::int64_t broken = -1;

  DevicePrefetcher::Take take() {
    return [this]() -> std::optional<Batch> {
      if (taken == broken) throw std::runtime_error("batch " + std::to_string(taken) + " is damaged");
      if (taken == 4) return std::nullopt;
      lines.push_back("take " + std::to_string(taken));
      return Batch{{at::tensor(taken++)}, 1};
    };
  }
};

class FakeLane final : public CopyLane {
 public:
  explicit FakeLane(Story& story) : story_(story) {}
  Batch begin(const Batch& batch, const Finish& finish) override {
    story_.lines.push_back("begin " + name_of(batch));
    return finish ? finish(batch) : batch;
  }
  void join(const Batch& batch) override { story_.lines.push_back("join " + name_of(batch)); }

 private:
  Story& story_;
};

}  // namespace

TEST_CASE("while a batch is computed on, the next one is on its way, and no more than that") {
  Story story;
  FakeLane lane(story);
  DevicePrefetcher batches(story.take(), &lane);
  CHECK(name_of(*batches.next()) == "0");
  CHECK(story.lines == Lines{"take 0", "begin 0", "join 0"});
  batches.prefetch();
  batches.prefetch();
  CHECK(story.lines == Lines{"take 0", "begin 0", "join 0", "take 1", "begin 1"});
  CHECK(name_of(*batches.next()) == "1");
  CHECK(story.lines.back() == "join 1");
  CHECK(story.taken == 2);
}

TEST_CASE("all batches come in their order, whether they are asked for ahead or not, and then none") {
  for (const int every : {1, 2, 100}) {
    Story story;
    FakeLane lane(story);
    DevicePrefetcher batches(story.take(), &lane);
    Lines seen;
    while (const auto batch = batches.next()) {
      seen.push_back(name_of(*batch));
      if (static_cast<int>(seen.size()) % every == 0) batches.prefetch();
    }
    CHECK(seen == Lines{"0", "1", "2", "3"});
    CHECK_FALSE(batches.next());
  }
}

TEST_CASE("what the taking of a batch throws comes in its place, after the batches before it") {
  Story story;
  story.broken = 2;
  FakeLane lane(story);
  DevicePrefetcher batches(story.take(), &lane);
  CHECK(name_of(*batches.next()) == "0");
  batches.prefetch();
  CHECK(name_of(*batches.next()) == "1");
  CHECK_NOTHROW(batches.prefetch());
  CHECK_THROWS_WITH(batches.next(), "batch 2 is damaged");
  CHECK_THROWS_WITH(batches.next(), "batch 2 is damaged");
}

TEST_CASE("one that is dropped in the middle takes nothing more") {
  Story story;
  FakeLane lane(story);
  {
    DevicePrefetcher batches(story.take(), &lane);
    batches.next();
    batches.prefetch();
  }
  CHECK(story.taken == 2);
}

TEST_CASE("without a lane batches are the taken ones, and none is taken ahead") {
  Story story;
  DevicePrefetcher batches(story.take(), nullptr);
  batches.prefetch();
  CHECK(story.taken == 0);
  Lines seen;
  while (const auto batch = batches.next()) {
    seen.push_back(name_of(*batch));
    batches.prefetch();
    CHECK(story.taken == static_cast<std::int64_t>(seen.size()));
  }
  CHECK(seen == Lines{"0", "1", "2", "3"});
}

TEST_CASE("a batch is finished on its way") {
  Story story;
  FakeLane lane(story);
  DevicePrefetcher batches(story.take(), &lane, [](Batch batch) {
    batch.tensors[0] = batch.tensors[0] + 10;
    return batch;
  });
  CHECK(name_of(*batches.next()) == "10");
  CHECK(name_of(*batches.next()) == "11");
}

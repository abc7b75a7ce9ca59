#include "worker/runtime/checkpoint/best_checkpoints.h"

#include "tests/support/catch.h"
#include "tests/unit/checkpoint/no_descriptors.h"
#include "tests/unit/checkpoint/temporary_folder.h"
#include <ddprun/checkpoint.h>
#include <ddprun/pt_file.h>

#include <cmath>
#include <filesystem>
#include <fstream>

using namespace ddprun;
using namespace ddprun::runtime;
using ddprun::testing::TemporaryFolder;

namespace {

const Metric kAccuracy{.name = "accuracy", .better = Metric::Better::kHigher};

/// As the trainer does.
void offer(BestCheckpoints& best, std::int64_t step, double value) {
  if (best.wants(step, value)) best.save(step, value, step, "");
}

std::vector<std::string> names(const TemporaryFolder& folder) {
  std::vector<std::string> all;
  for (const auto& file : std::filesystem::directory_iterator(folder.path()))
    all.push_back(file.path().filename().string());
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("the best checkpoints stay, whatever order they come in") {
  const TemporaryFolder folder;
  BestCheckpoints best(folder.path(), 2, kAccuracy);
  const double values[] = {0.5, 0.9, 0.25, 0.7, 0.1};
  for (std::int64_t i = 0; i < 5; ++i) offer(best, 10 * i, values[i]);
  CHECK(names(folder) ==
        std::vector<std::string>{"best-00000010-accuracy-0.9.pt", "best-00000030-accuracy-0.7.pt"});
  CHECK(load_pt(best.list().front().path).as_int() == 10);
}

TEST_CASE("lower is better of a loss, and the earlier of equal ones") {
  const TemporaryFolder folder;
  BestCheckpoints best(folder.path(), 1, {.name = "loss"});
  for (const std::int64_t step : {1, 2, 3}) offer(best, step, step == 3 ? 0.5 : 0.25);
  CHECK(names(folder) == std::vector<std::string>{"best-00000001-loss-0.25.pt"});
}

TEST_CASE("what is no finite number never becomes best") {
  const TemporaryFolder folder;
  BestCheckpoints best(folder.path(), 3, kAccuracy);
  CHECK_FALSE(best.wants(1, NAN));
  CHECK_FALSE(best.wants(1, INFINITY));
}

TEST_CASE("neither the newest-checkpoints rule nor the best one removes what is the other's") {
  const TemporaryFolder folder;
  CheckpointDirectory newest(folder.path(), 1);
  BestCheckpoints best(folder.path(), 1, kAccuracy);
  best.save(10, 0.9, 1, newest.save(10, 1));
  for (const std::int64_t step : {20, 30}) newest.save(step, 1);
  best.save(40, 0.95, 1, "");
  CHECK(names(folder) == std::vector<std::string>{"best-00000040-accuracy-0.95.pt", "step-00000030.pt"});
}

TEST_CASE("a linked checkpoint outlives the one that it was") {
  const TemporaryFolder folder;
  CheckpointDirectory newest(folder.path(), 1);
  BestCheckpoints best(folder.path(), 1, kAccuracy);
  const std::string path = best.save(10, 0.9, 1, newest.save(10, 7)).value();
  CHECK(std::filesystem::hard_link_count(path) == 2);
  newest.save(20, 8);
  CHECK(load_pt(path).as_int() == 7);
  CHECK(names(folder).size() == 2);
}

TEST_CASE("a step that is evaluated again replaces what it found before") {
  const TemporaryFolder folder;
  BestCheckpoints best(folder.path(), 2, kAccuracy);
  for (const double value : {0.9, 0.8, 0.8}) offer(best, 10, value);
  CHECK(names(folder) == std::vector<std::string>{"best-00000010-accuracy-0.8.pt"});
}

TEST_CASE("names of people and of other metrics stay, and metrics of any name make a file") {
  const TemporaryFolder folder;
  for (const char* name : {"best.pt", "best-1.pt", "best-x-accuracy-0.1.pt", "best-00000009-loss-0.1.pt"})
    std::ofstream(folder.file(name)) << "mine";
  BestCheckpoints best(folder.path(), 1, {.name = "a/b\nc", .better = Metric::Better::kHigher});
  offer(best, 1, -1e-7);
  offer(best, 2, 3);
  CHECK(names(folder) == std::vector<std::string>{"best-00000002-a_b_c-3.pt", "best-00000009-loss-0.1.pt",
                                                  "best-1.pt", "best-x-accuracy-0.1.pt", "best.pt"});
}

TEST_CASE("a folder that is gone has no best checkpoints, and is made for the next") {
  const TemporaryFolder folder;
  BestCheckpoints best(folder.file("gone"), 1, kAccuracy);
  CHECK(best.list().empty());
  offer(best, 1, 0.5);
  CHECK(best.list().size() == 1);
}

TEST_CASE("a folder that cannot be read is not taken for one without best checkpoints") {
  const TemporaryFolder folder;
  BestCheckpoints best(folder.path(), 1, kAccuracy);
  offer(best, 1, 0.5);
  const ddprun::testing::NoDescriptors none;
  CHECK_THROWS_AS(best.list(), Exception);
  CHECK_THROWS_AS(best.wants(2, 0.25), Exception);
}

TEST_CASE("a remark on best checkpoints of before says why there is none, and ends no job") {
  const TemporaryFolder folder;
  const ddprun::testing::NoDescriptors none;
  CHECK(BestCheckpoints(folder.path(), 1, kAccuracy).others_in_words() ==
        "cannot list folder " + folder.path() + ", so what it holds is not known: Too many open files");
}

TEST_CASE("best checkpoints of another metric, and all where none are kept any more, are told of") {
  const TemporaryFolder folder;
  BestCheckpoints by_accuracy(folder.path(), 2, kAccuracy);
  for (const std::int64_t step : {10, 20}) offer(by_accuracy, step, static_cast<double>(step) / 100);
  CHECK(by_accuracy.others_in_words().empty());
  CHECK(BestCheckpoints(folder.path(), 2, {.name = "loss"}).others_in_words() ==
        "2 best checkpoints by accuracy of before stay in the folder, neither counted nor removed: "
        "/checkpoint/best_by is loss now");
  CHECK(BestCheckpoints(folder.path(), 0, kAccuracy).others_in_words() ==
        "2 best checkpoints by accuracy of before stay in the folder, neither counted nor removed: "
        "/checkpoint/best is 0 now");
}

#include "tests/support/catch.h"
#include "tests/unit/checkpoint/temporary_folder.h"
#include "worker/runtime/checkpoint/staging.h"
#include "worker/runtime/checkpoint/work_queue.h"
#include <ddprun/checkpointer.h>
#include <ddprun/init.h>
#include <ddprun/pt_file.h>

#include <torch/torch.h>

#include <filesystem>
#include <future>

using namespace ddprun;
using ddprun::runtime::Staging;
using ddprun::runtime::WorkQueue;
using ddprun::testing::TemporaryFolder;

namespace fs = std::filesystem;

namespace {

PtDict state_of(const at::Tensor& weights) {
  PtDict state;
  state.set("weights", weights);
  return state;
}

std::vector<std::string> names(const std::string& folder) {
  std::vector<std::string> all;
  for (const auto& file : fs::directory_iterator(folder)) all.push_back(file.path().filename().string());
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("a staged value stays as it was when its tensors change") {
  Staging staging;
  const at::Tensor weights = torch::arange(6).view({2, 3});
  const PtValue copy = staging.copy(state_of(weights.t()));
  weights.zero_();
  const at::Tensor& staged = copy.as_dict().at("weights").as_tensor();
  CHECK(staged.equal(torch::arange(6).view({2, 3}).t()));
  CHECK(staged.is_contiguous());
}

TEST_CASE("the second copy of a state needs no memory, and a tensor that occurs twice is copied once") {
  Staging staging;
  const at::Tensor tied = torch::ones({4});
  PtDict state = state_of(tied);
  state.set("tied", tied);
  state.set("list", PtList{{torch::zeros({2}), 1, "text", PtValue()}});
  const PtValue first = staging.copy(state);
  const PtDict& dict = first.as_dict();
  CHECK(dict.at("weights").as_tensor().is_same(dict.at("tied").as_tensor()));
  CHECK(dict.at("list").as_sequence()[3].is_none());
  CHECK(staging.allocations() == 2);
  staging.copy(state);
  CHECK(staging.allocations() == 2);
}

TEST_CASE("work is done in its order, and who adds more than there is room for waits") {
  std::promise<void> may_go;
  const std::shared_future<void> go = may_go.get_future().share();
  std::vector<int> done;
  {
    WorkQueue queue(2);
    queue.add([&, go] { go.wait(), done.push_back(1); });
    queue.add([&] { done.push_back(2); });
    std::thread other([&] { queue.add([&] { done.push_back(3); }); });
    may_go.set_value();
    other.join();
    queue.wait_for_room();
  }
  CHECK(done == std::vector<int>{1, 2, 3});
}

TEST_CASE("checkpoints are written behind the training, and told when they are on the disk") {
  const TemporaryFolder folder;
  std::vector<std::int64_t> saved;
  const at::Tensor weights = torch::zeros({3});
  {
    Checkpointer checkpoints(init(), {.folder = folder.file("a/b"),
                                      .keep = 2,
                                      .on_saved = [&](const auto& one) { saved.push_back(one.step); }});
    CHECK_FALSE(checkpoints.newest());
    for (const int step : {1, 2, 3}) {
      weights.add_(1);
      checkpoints.save(step, state_of(weights));
    }
    checkpoints.flush();
    CHECK(saved == std::vector<std::int64_t>{1, 2, 3});
    const auto newest = checkpoints.newest();
    CHECK(newest->entry.step == 3);
    CHECK(newest->value.as_dict().at("weights").as_tensor().equal(weights));
    checkpoints.save(4, state_of(weights));
  }
  CHECK(names(folder.file("a/b")) == std::vector<std::string>{"step-00000003.pt", "step-00000004.pt"});
  const PtValue third = load_pt(folder.file("a/b/step-00000003.pt"));
  CHECK(third.as_dict().at("weights").as_tensor().equal(torch::full({3}, 3.0)));
}

TEST_CASE("the best stay beside the newest") {
  const TemporaryFolder folder;
  std::vector<std::string> best;
  Checkpointer checkpoints(
      init(), {.folder = folder.path(), .keep = 1, .keep_best = 1, .on_saved = [&](const auto& one) {
                 if (one.is_best) best.push_back(one.path);
               }});
  const at::Tensor weights = torch::zeros({3});
  checkpoints.save(1, state_of(weights), {.best = 0.5});
  checkpoints.save(2, state_of(weights), {.newest = false, .best = 0.25});
  checkpoints.save(3, state_of(weights));
  checkpoints.flush();
  CHECK(names(folder.path()) == std::vector<std::string>{"best-00000002-loss-0.25.pt", "step-00000003.pt"});
  CHECK(checkpoints.best() == std::vector<std::string>{folder.file("best-00000002-loss-0.25.pt")});
  CHECK(best.size() == 2);
  CHECK(checkpoints.is_among_best(4, 0.125));
  CHECK_FALSE(checkpoints.is_among_best(4, 0.75));
}

TEST_CASE("a checkpoint that cannot be written throws in the disk's words, later, or is told") {
  const TemporaryFolder folder;
  fs::create_directories(folder.file("step-00000001.pt/in the way"));
  const PtDict state = state_of(torch::zeros({3}));
  {
    Checkpointer checkpoints(init(), {.folder = folder.path()});
    checkpoints.save(1, state);
    CHECK_THROWS_WITH(checkpoints.flush(), "cannot save " + folder.file("step-00000001.pt") +
                                               ": cannot rename a file to " +
                                               folder.file("step-00000001.pt") + ": Is a directory");
    checkpoints.save(2, state);
    CHECK_NOTHROW(checkpoints.flush());
  }
  std::vector<std::int64_t> failed;
  Checkpointer checkpoints(
      init(), {.folder = folder.path(),
               .on_failed = [&](std::int64_t step, const Exception&) { failed.push_back(step); }});
  checkpoints.save(1, state);
  checkpoints.save(3, state);
  checkpoints.flush();
  CHECK(failed == std::vector<std::int64_t>{1});
  CHECK(checkpoints.newest()->entry.step == 3);
}

TEST_CASE("a damaged newest checkpoint is passed over for the one before") {
  const TemporaryFolder folder;
  Checkpointer checkpoints(init(), {.folder = folder.path()});
  for (const int step : {1, 2}) checkpoints.save(step, state_of(torch::full({2}, step)));
  checkpoints.flush();
  fs::resize_file(folder.file("step-00000002.pt"), 70);
  std::int64_t skipped = 0;
  const auto newest =
      checkpoints.newest([&](const auto& entry, const std::string&) { skipped = entry.step; });
  CHECK(newest->entry.step == 1);
  CHECK(skipped == 2);
}

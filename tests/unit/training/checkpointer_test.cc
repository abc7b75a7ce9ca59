#include "tests/support/catch.h"
#include "tests/unit/checkpoint/temporary_folder.h"
#include "worker/runtime/checkpoint/staging.h"
#include "worker/runtime/checkpoint/unfinished.h"
#include "worker/runtime/checkpoint/work_queue.h"
#include <ddprun/checkpointer.h>
#include <ddprun/init.h>
#include <ddprun/pt_file.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <torch/types.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <thread>

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
  CHECK(staging.slabs() == 1);
  staging.copy(state);
  CHECK(staging.slabs() == 1);
}

TEST_CASE("a tensor and its conjugate are staged as what they are") {
  Staging staging;
  const at::Tensor z = at::complex(at::arange(3, at::kFloat), at::full({3}, 2.0F));
  const PtValue copy = staging.copy(PtList{{z, z.conj(), at::imag(z), at::imag(z.conj())}});
  const auto& list = copy.as_sequence();
  CHECK(at::equal(list[0].as_tensor(), z));
  CHECK(at::equal(list[1].as_tensor(), z.conj().resolve_conj()));
  CHECK(at::equal(list[2].as_tensor(), at::full({3}, 2.0F)));
  CHECK(at::equal(list[3].as_tensor(), at::full({3}, -2.0F)));
}

TEST_CASE("copies of a large model take hardly more memory than it has") {
  Staging staging;
  PtList state;
  std::size_t bytes = 0;
  for (int i = 0; i < 60; ++i) {
    state.items.emplace_back(torch::full({(i % 6 + 1) * 70'000}, i));
    bytes += state.items.back().as_tensor().nbytes();
  }
  const PtValue copy = staging.copy(state);
  // Each one rounded up to a power of two: pinned memory comes in such sizes.
  std::size_t rounded = 0;
  for (const PtValue& one : state.items) rounded += std::bit_ceil(one.as_tensor().nbytes());
  CHECK(rounded > bytes * 4 / 3);
  CHECK(staging.bytes() < bytes * 5 / 4);
  for (int i = 0; i < 60; ++i) CHECK(copy.as_sequence()[i].as_tensor().equal(state.items[i].as_tensor()));
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

TEST_CASE("work that waits may be given up, but for what was to be kept and what is being done") {
  std::promise<void> may_go, has_begun;
  const std::shared_future<void> go = may_go.get_future().share();
  std::vector<int> done;
  {
    WorkQueue queue(4);
    queue.add([&, go] { has_begun.set_value(), go.wait(), done.push_back(1); }, /*may_be_dropped=*/true);
    has_begun.get_future().wait();
    CHECK(queue.drop_waiting() == 0);
    queue.add([&] { done.push_back(2); }, /*may_be_dropped=*/true);
    queue.add([&] { done.push_back(3); });
    CHECK(queue.drop_waiting() == 1);
    may_go.set_value();
  }
  CHECK(done == std::vector<int>{1, 3});
}

namespace {

/// The thread that writes checkpoints comes as far as its first fsync, and waits there to be let on.
class SlowWriter {
 public:
  SlowWriter() {
    training_ = std::this_thread::get_id();
    let_on_ = {};
    is_let_on_ = let_on_.get_future().share();
    is_there_ = true;
  }
  ~SlowWriter() { is_there_ = false; }
  SlowWriter(const SlowWriter&) = delete;
  SlowWriter& operator=(const SlowWriter&) = delete;

  void let_on() { let_on_.set_value(); }
  static void wait() {
    if (is_there_ && std::this_thread::get_id() != training_) is_let_on_.wait();
  }

 private:
  inline static std::atomic<bool> is_there_ = false;
  inline static std::thread::id training_;
  inline static std::promise<void> let_on_;
  inline static std::shared_future<void> is_let_on_;
};

}  // namespace

/// In place of libc's, also for the library.
extern "C" int fsync(int fd) {
  SlowWriter::wait();
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

TEST_CASE("the last checkpoint waits for the one that is being written, and for no other") {
  const TemporaryFolder folder;
  SlowWriter writer;
  std::vector<std::int64_t> saved;
  Checkpointer checkpoints(init(), {.folder = folder.path(),
                                    .keep_best = 1,
                                    .on_saved = [&](const auto& one) { saved.push_back(one.step); }});
  const PtDict state = state_of(torch::zeros({3}));
  checkpoints.save(1, state, {.newest = false, .best = 0.5});
  checkpoints.save(2, state);
  checkpoints.save(3, state_of(torch::ones({3})), {.is_last = true});
  CHECK(runtime::is_something_unfinished());
  writer.let_on();
  checkpoints.flush();
  CHECK_FALSE(runtime::is_something_unfinished());
  CHECK(saved == std::vector<std::int64_t>{1, 3});
  CHECK(checkpoints.newest()->value.as_dict().at("weights").as_tensor().equal(torch::ones({3})));
}

TEST_CASE("a program that ends without a word about its checkpoints hears of one that is lost") {
  const TemporaryFolder folder;
  fs::create_directories(folder.file("step-00000001.pt/in the way"));
  std::fflush(stderr);
  const int kept = ::dup(STDERR_FILENO);
  const int file = ::open(folder.file("stderr").c_str(), O_WRONLY | O_CREAT, 0600);
  ::dup2(file, STDERR_FILENO);
  {
    Checkpointer checkpoints(init(), {.folder = folder.path()});
    checkpoints.save(1, state_of(torch::zeros({3})));
  }
  std::fflush(stderr);
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  ::close(file);
  std::ifstream said(folder.file("stderr"));
  const std::string text(std::istreambuf_iterator<char>(said), {});
  CHECK(text.starts_with("ddprun: the checkpoint of step 1 is lost: cannot save " +
                         folder.file("step-00000001.pt")));
}

namespace {

/// As long as it lives no thread can be started: there is no room for its stack.
class NoThreads {
 public:
  NoThreads() {
    ::pthread_attr_t attributes;
    ::pthread_getattr_default_np(&attributes);
    ::pthread_attr_getstacksize(&attributes, &before_);
    set(std::size_t{1} << 50);
  }
  ~NoThreads() { set(before_); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  static void set(std::size_t stack_size) {
    ::pthread_attr_t attributes;
    ::pthread_getattr_default_np(&attributes);
    ::pthread_attr_setstacksize(&attributes, stack_size);
    ::pthread_setattr_default_np(&attributes);
  }

  std::size_t before_ = 0;
};

}  // namespace

TEST_CASE("a checkpoint for which no thread can be started is refused, and the next one is written") {
  const TemporaryFolder folder;
  std::vector<std::int64_t> saved;
  Checkpointer checkpoints(
      init(), {.folder = folder.path(), .on_saved = [&](const auto& one) { saved.push_back(one.step); }});
  {
    const NoThreads none;
    CHECK_THROWS_WITH(checkpoints.save(1, 1), Catch::Matchers::StartsWith("cannot start a thread: "));
  }
  checkpoints.save(2, 2);
  checkpoints.flush();
  CHECK(saved == std::vector<std::int64_t>{2});
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

TEST_CASE("a worse checkpoint leaves the best one where it is, and so does one without a finite value") {
  const TemporaryFolder folder;
  std::vector<std::int64_t> best;
  Checkpointer checkpoints(
      init(), {.folder = folder.path(), .keep = 1, .keep_best = 1, .on_saved = [&](const auto& one) {
                 if (one.is_best) best.push_back(one.step);
               }});
  const PtDict state = state_of(torch::zeros({3}));
  checkpoints.save(1, state, {.best = 0.25});
  checkpoints.save(2, state, {.best = 0.5});
  checkpoints.save(3, state, {.newest = false, .best = NAN});
  checkpoints.save(4, state, {.newest = false, .best = -INFINITY});
  checkpoints.save(5, state);
  checkpoints.flush();
  CHECK(names(folder.path()) == std::vector<std::string>{"best-00000001-loss-0.25.pt", "step-00000005.pt"});
  CHECK(best == std::vector<std::int64_t>{1});
}

TEST_CASE("where none of the best are kept, a value makes no file and removes none") {
  const TemporaryFolder folder;
  std::ofstream(folder.file("best-00000001-loss-0.25.pt")) << "of before";
  Checkpointer checkpoints(init(), {.folder = folder.path(), .keep = 1});
  checkpoints.save(2, state_of(torch::zeros({3})), {.best = 0.5});
  checkpoints.flush();
  CHECK(names(folder.path()) == std::vector<std::string>{"best-00000001-loss-0.25.pt", "step-00000002.pt"});
}

TEST_CASE("numbers of checkpoints that cannot be kept are refused, and best ones without a name") {
  const auto make = [](const CheckpointerOptions& options) { Checkpointer(init(), options); };
  CHECK_THROWS_WITH(make({.folder = "/nowhere", .keep = -1}),
                    "checkpoints: keep is -1; it has to be at least 1");
  CHECK_THROWS_WITH(make({.folder = "/nowhere", .keep = 0}),
                    "checkpoints: keep is 0; it has to be at least 1");
  CHECK_THROWS_WITH(make({.folder = "/nowhere", .keep_best = -2}),
                    "checkpoints: keep_best is -2; it has to be at least 0");
  CHECK_THROWS_WITH(
      make({.folder = "/nowhere", .keep_best = 1, .best_by = ""}),
      "checkpoints: best_by is empty; it is a part of the names of the best: say what the value is");
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

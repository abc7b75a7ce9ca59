// What watching costs: the console with its live line, the metrics file, TensorBoard and the report are told of a
// training as a trainer tells them. Each line "MILLISECONDS STEPS" of the file COMMANDS is answered with microseconds
// per step, for steps that take so long by the observers' clock: a live line and a report come by time, not by steps.

#include "tests/support/fake_clock.h"
#include "worker/training/observers/console_observer.h"
#include "worker/training/observers/metrics_observer.h"
#include "worker/training/observers/report.h"
#include "worker/training/observers/tensorboard_observer.h"

#include <torch/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace ddprun::bench {
namespace {

using namespace training;

constexpr std::int64_t kStepsPerEpoch = 469;  // of MNIST on 2 ranks with batches of 64
constexpr std::int64_t kLogEvery = 50;
constexpr std::int64_t kGlobalBatch = 128;

template <class T>
void require(const Result<T>& result) {
  if (result) return;
  std::fprintf(stderr, "%s\n", result.error().message().c_str());
  std::exit(1);
}

template <class T>
T value(Result<T> result) {
  require(result);
  return std::move(*result);
}

class Watched {
 public:
  explicit Watched(const std::string& folder) : metrics_(warn) {
    require(metrics_.append_to(folder + "/metrics.jsonl"));
    length_.epochs = 1000000;
    length_.epoch_samples = kStepsPerEpoch * kGlobalBatch;
    observers_.push_back(std::make_unique<ConsoleObserver>(
        console_, ConsoleObserver::Facts{.model = "mlp",
                                         .device = "cpu",
                                         .backend_line = "",
                                         .batch_size = 64,
                                         .output_dir = folder,
                                         .metrics_path = folder + "/metrics.jsonl",
                                         .report_path = folder + "/report.html",
                                         .working_directory = folder,
                                         .lost_records = [] { return 0; }}));
    observers_.push_back(std::make_unique<MetricsObserver>(
        metrics_, MetricsObserver::Facts{.backend = "shm", .restart_count = 0}));
    observers_.push_back(std::make_unique<ReportObserver>(
        ReportObserver::Files{folder + "/metrics.jsonl", folder + "/report.html"},
        ReportFacts{.name = "bench", .model = "mlp", .device = "cpu"}, Options("{}"), clock_, warn));
    observers_.push_back(
        std::make_unique<TensorBoardObserver>(value(EventFile::create(folder + "/tensorboard")), warn));
    const StartEvent start{.position = position_,
                           .length = length_,
                           .data = shape_,
                           .metrics = {{.name = "loss"}},
                           .more_metrics = {},
                           .train_samples = length_.epoch_samples,
                           .held_out_samples = 10000,
                           .steps_per_epoch = kStepsPerEpoch,
                           .world = {.ranks = 2, .global_batch = kGlobalBatch}};
    for (const auto& observer : observers_) observer->on_start(start);
  }

  double microseconds_per_step(Duration step_time, std::int64_t steps) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < steps; ++i) {
      clock_.advance(step_time);
      step();
    }
    const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - begin;
    return elapsed.count() / static_cast<double>(steps);
  }

 private:
  static void warn(const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }

  void step() {
    ++position_.step;
    position_.samples_seen += kGlobalBatch;
    const StepEvent event{
        .position = position_,
        .learning_rate = 0.1,
        .steps_per_epoch = kStepsPerEpoch,
        .loss = position_.step % kLogEvery == 0 ? std::optional(0.5) : std::nullopt,
        .loss_so_far = loss_so_far_,
        .seconds = 1,
        .units = kGlobalBatch,
    };
    for (const auto& observer : observers_) observer->on_step(event);
    if (position_.step % kStepsPerEpoch == 0) end_epoch();
  }

  void end_epoch() {
    ++position_.epoch;
    position_.samples_seen = 0;
    const EpochEvent event{.position = position_,
                           .number = position_.epoch,
                           .train_loss = {.loss = 1, .items = 1},
                           .seconds = 1,
                           .units = length_.epoch_samples,
                           .learning_rate = 0.1};
    for (const auto& observer : observers_) observer->on_epoch(event);
  }

  testing::FakeClock clock_;
  Console console_{Console::Speaker::kRankZero, "always", clock_};
  MetricsLog metrics_;
  Observers observers_;
  Position position_;
  JobLength length_;
  DataShape shape_{.tensors = {{"image", {1, 28, 28}}, {"label", {}, at::kLong}}, .classes = 10};
  at::Tensor sums_ = at::ones({2}, at::kDouble);
  std::function<double()> loss_so_far_ = [this] { return sums_[0].item<double>() / sums_[1].item<double>(); };
};

int run(const char* commands_path, const std::string& folder) {
  if (std::freopen("/dev/null", "w", stderr) == nullptr) return 1;
  std::FILE* const answers = fdopen(dup(STDOUT_FILENO), "w");
  if (answers == nullptr || std::freopen("/dev/null", "w", stdout) == nullptr) return 1;
  Watched watched(folder);
  std::ifstream commands(commands_path);
  double milliseconds = 0;
  for (std::int64_t steps = 0; commands >> milliseconds >> steps;) {
    const auto step_time =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(milliseconds));
    std::fprintf(answers, "%.4f\n", watched.microseconds_per_step(step_time, steps));
    std::fflush(answers);
  }
  return 0;
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: observers_bench FOLDER COMMANDS\n");
    return 64;
  }
  return ddprun::bench::run(argv[2], argv[1]);
}

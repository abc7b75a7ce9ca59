#include "worker/training/job.h"

#include "rendezvous/base/exit_codes.h"
#include "worker/data/mnist.h"
#include "worker/data/synthetic.h"
#include "worker/training/first_failure.h"
#include "worker/training/foreign_error.h"
#include "worker/training/resume.h"
#include "worker/training/text.h"
#include "worker/training/trainer.h"
#include <ddprun/fail_together.h>
#include <ddprun/init.h>
#include <ddprun/record.h>

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <system_error>

namespace ddprun::training {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSyntheticTrainSamples = 4096;
constexpr std::int64_t kSyntheticTestSamples = 1024;
/// How long a rank that lost another one waits for that one's last words.
constexpr std::chrono::milliseconds kPatienceForTheCause{1000};

Result<data::DataSplits> load_data(const TrainConfig& config) {
  const DataConfig& wanted = config.data;
  if (wanted.type == "mnist")
    return data::load_mnist(wanted.path, {wanted.train_samples, wanted.test_samples});
  data::SyntheticOptions options;
  options.train_samples = wanted.train_samples > 0 ? wanted.train_samples : kSyntheticTrainSamples;
  options.held_out_samples = wanted.test_samples > 0 ? wanted.test_samples : kSyntheticTestSamples;
  options.seed = config.seed;
  return data::make_synthetic(options);
}

/// The folder exists, can be written, and holds the merged job file.
Result<void> prepare_output(const std::string& folder, const std::string& config_text) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return Error(
        ErrorCode::kOs,
        fmt::format("cannot create output folder {}: {}; set /output_dir to a place that can be written",
                    folder, error.message()));
  }
  const std::string path = folder + "/job.json";
  std::ofstream file(path);
  file << config_text << "\n";
  file.flush();
  if (!file) return os_error("cannot write " + path, errno);
  return ok();
}

Error to_error(const Exception& exception) { return {exception.code(), exception.what()}; }

std::optional<Exception> to_exception(const std::optional<Error>& error) {
  if (!error) return std::nullopt;
  return Exception(error->code(), error->message());
}

/// What rank 0 does for the whole job before it starts.
struct Preparation {
  MetricsLog metrics;
  std::optional<ResumePoint> resume;
};

class Job {
 public:
  Job(const config::JobConfig& job, Drain& drain)
      : config_(read_train_config(job.values)),
        config_text_(job.values.dump(2)),
        working_directory_(fs::current_path()),
        drain_(drain) {}

  Outcome run() {
    // Reading data and meeting the other ranks take their time side by side.
    std::future<Result<data::DataSplits>> data =
        std::async(std::launch::async, [this] { return load_data(config_); });
    std::string backend_line;
    InitOptions options;
    options.backend = config_.backend;
    options.device = config_.device;
    options.log = [&](const std::string& line) { backend_line = line; };
    Context context = init(options);
    try {
      return run_in(context, data, backend_line);
    } catch (...) {
      // The group is open until this has returned: who sees it close can already read why.
      return fail(context, describe_exception(std::current_exception()));
    }
  }

 private:
  Outcome run_in(Context& context, std::future<Result<data::DataSplits>>& data,
                 const std::string& backend_line) {
    const auto speaker = context.rank() == 0 ? Console::Speaker::kRankZero : Console::Speaker::kSilent;
    console_ = std::make_unique<Console>(speaker, config_.log.progress, clock_);

    std::optional<Error> trouble;
    Result<data::DataSplits> splits = data.get();
    if (!splits) trouble = splits.error();
    Preparation preparation;
    if (!trouble && context.rank() == 0) trouble = prepare(context, preparation);
    if (const auto shared = agree_on_error(context, to_exception(trouble))) return refuse(*shared, trouble);

    preparation.resume = share_resume_point(context, std::move(preparation.resume));
    greet(context, backend_line, *splits);
    Outcome outcome = train(context, *splits, preparation);
    // After SIGTERM the ranks may not wait for each other again.
    if (outcome.exit_code == exit_code::kOk) context.shutdown();
    return outcome;
  }

  /// Says what ended this rank, before anything is closed: in its error file, and to the other ranks. A rank
  /// that only lost another one names that.
  static Outcome fail(const Context& context, Error error) {
    const bool may_be_consequence =
        error.code() == ErrorCode::kPeerLost || error.code() == ErrorCode::kTimeout;
    bool is_filed = false;
    try {
      if (!may_be_consequence) {
        write_error_file(error.message());
        is_filed = true;
        tell_failure(*context.store(), context.rank(), error.message());
      } else if (const auto first = hear_failure(*context.store(), kPatienceForTheCause)) {
        error = to_error(consequence_of({.rank = first->rank, .message = first->message}));
      }
    } catch (const std::exception&) {
      // The store is gone with its launcher: nobody is left to tell.
    }
    return {.exit_code = to_exit_code(error.code()), .error = error.message(), .is_filed = is_filed};
  }

  std::optional<Error> prepare(const Context& context, Preparation& preparation) {
    if (Result<void> done = prepare_output(config_.output_dir, config_text_); !done) return done.error();
    std::vector<std::string> files{metrics_path()};
    if (!context.log_dir().empty()) files.push_back(context.log_dir() + "/metrics.jsonl");
    Result<MetricsLog> metrics =
        MetricsLog::open(files, [this](const std::string& text) { console_->warning(text); });
    if (!metrics) return metrics.error();
    preparation.metrics = std::move(*metrics);
    try {
      preparation.resume =
          find_resume_point({checkpoint_folder(), config_.resume, context.restart_count() > 0}, *console_);
    } catch (const Exception& exception) {
      return to_error(exception);
    }
    return std::nullopt;
  }

  Outcome train(const Context& context, const data::DataSplits& splits, Preparation& preparation) {
    std::optional<Trainer> trainer;
    std::optional<Error> trouble;
    const PtDict* checkpoint = preparation.resume ? &preparation.resume->content : nullptr;
    const TrainerParts parts{context, config_, config_text_, splits, *console_, preparation.metrics,
                             clock_,  drain_};
    try {
      trainer.emplace(parts, checkpoint);
    } catch (const Exception& exception) {
      // A checkpoint that does not fit is the same on every rank; anything else is not ours to explain.
      if (checkpoint == nullptr) throw;
      trouble = to_error(exception).with("cannot resume from " + shown(preparation.resume->path));
    }
    if (const auto shared = agree_on_error(context, to_exception(trouble))) return refuse(*shared, trouble);
    if (preparation.resume) tell_resumed(*trainer, preparation.resume->path);
    preparation.metrics.write("start", {{"world_size", context.world_size()},
                                        {"backend", context.backend()},
                                        {"step", trainer->position().step},
                                        {"restart_count", context.restart_count()}});
    if (trainer->is_complete()) {
      tell_complete(*trainer, preparation.resume->path);
      return {};
    }
    const TimePoint start = clock_.now();
    const Ending ending = trainer->run();
    if (ending == Ending::kComplete) {
      tell_end(*trainer, to_seconds(clock_.now() - start), splits, preparation.metrics.lost_records());
      return {};
    }
    tell_stopped(*trainer, ending);
    return {.exit_code = exit_code::kSignalBase + drain_.signal()};
  }

  /// All ranks know of `shared`: who has an error of its own ends with that, and the others because of it.
  static Outcome refuse(const SharedError& shared, const std::optional<Error>& mine) {
    if (!mine) {
      const Exception end = consequence_of(shared);
      return {.exit_code = to_exit_code(end.code()), .error = end.what(), .speaks = false};
    }
    const bool is_input = mine->code() == ErrorCode::kCorrupt || mine->code() == ErrorCode::kNotFound;
    return {.exit_code = to_exit_code(is_input ? ErrorCode::kConfig : mine->code()),
            .error = mine->message(),
            .speaks = shared.is_mine};
  }

  void greet(const Context& context, const std::string& backend_line, const data::DataSplits& splits) {
    console_->line(fmt::format("{} on {} training images, {} rank{} of batch {} on {}", config_.model.type,
                               with_thousands(splits.train.count), context.world_size(),
                               context.world_size() == 1 ? "" : "s", config_.batch_size,
                               context.device().str()));
    if (!backend_line.empty()) console_->line(backend_line);
  }

  void tell_resumed(const Trainer& trainer, const std::string& path) {
    const Position& position = trainer.position();
    console_->line(fmt::format("resumed from {}: {} of {} epochs done, step {}", shown(path), position.epoch,
                               config_.epochs, position.step));
  }

  void tell_complete(const Trainer& trainer, const std::string& path) {
    const Position& position = trainer.position();
    std::string line = fmt::format("training is complete: {} of {} epochs, step {}", position.epoch,
                                   config_.epochs, position.step);
    if (position.evaluation)
      line += fmt::format(", accuracy {:.2f} %", 100 * position.evaluation->accuracy());
    console_->line(line);
    const bool by_steps = position.epoch < config_.epochs;
    const std::string more = by_steps ? fmt::format("/train/max_steps={}", 2 * config_.max_steps)
                                      : fmt::format("/train/epochs={}", 2 * config_.epochs);
    console_->line(fmt::format("  to train on    --set {}", more));
    console_->line("  to start anew  --set /resume=never");
    console_->line("  checkpoint     " + shown(path));
  }

  void tell_end(const Trainer& trainer, double seconds, const data::DataSplits& splits,
                std::int64_t lost_records) {
    const Position& position = trainer.position();
    std::string line = fmt::format("done: {} of {} epochs, {} steps in {:.1f} s", position.epoch,
                                   config_.epochs, position.step, seconds);
    if (position.evaluation) {
      line += fmt::format(", accuracy {:.2f} % on {} held-out images", 100 * position.evaluation->accuracy(),
                          with_thousands(splits.held_out.count));
    }
    console_->line(line);
    console_->line("  checkpoint  " + shown(trainer.checkpoint_path()));
    const std::string lost =
        lost_records == 0 ? "" : fmt::format(" ({} records could not be written)", lost_records);
    console_->line("  metrics     " + shown(metrics_path()) + lost);
    console_->line("  job file    " + shown(config_.output_dir + "/job.json"));
  }

  void tell_stopped(const Trainer& trainer, Ending ending) {
    const std::int64_t step = trainer.position().step;
    const char* const signal = drain_.signal() == SIGINT ? "SIGINT" : "SIGTERM";
    if (ending == Ending::kAbandoned) {
      console_->warning(fmt::format(
          "stopped by {} after step {} without a checkpoint: not all ranks got the signal", signal, step));
      return;
    }
    console_->line(fmt::format("stopped by {} after step {}; the same command goes on from {}", signal, step,
                               shown(trainer.checkpoint_path())));
  }

  [[nodiscard]] std::string shown(const std::string& path) const {
    return shown_path(path, working_directory_);
  }
  [[nodiscard]] std::string checkpoint_folder() const { return config_.output_dir + "/checkpoints"; }
  [[nodiscard]] std::string metrics_path() const { return config_.output_dir + "/metrics.jsonl"; }

  TrainConfig config_;
  std::string config_text_;
  std::string working_directory_;
  Drain& drain_;
  KernelClock clock_;
  std::unique_ptr<Console> console_;
};

}  // namespace

Outcome run_job(const config::JobConfig& job, Drain& drain) { return Job(job, drain).run(); }

}  // namespace ddprun::training

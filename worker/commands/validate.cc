#include "rendezvous/base/check.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/printable.h"
#include "worker/commands/checkpoint_weights.h"
#include "worker/commands/commands.h"
#include "worker/commands/opened_job.h"
#include "worker/commands/output.h"
#include "worker/commands/smoke_data.h"
#include "worker/commands/temporary_folder.h"
#include "worker/tasks/registry.h"
#include "worker/training/evaluate.h"
#include "worker/training/observers/console.h"
#include "worker/training/observers/text.h"
#include "worker/training/parts/job_data.h"
#include "worker/training/parts/job_downloads.h"
#include "worker/training/parts/plugins.h"
#include "worker/training/resume/resume.h"
#include "worker/training/step/foreign_error.h"
#include "worker/training/step/strategy.h"
#include "worker/training/trainer.h"
#include <ddprun/autocast.h>
#include <ddprun/module_view.h>
#include <ddprun/pt_file.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::commands {
namespace {

namespace fs = std::filesystem;
using training::with_thousands;

constexpr double kMebibyte = 1024.0 * 1024.0;

std::string shape_in_words(const TensorShape& tensor) {
  return tensor.sizes.empty() ? tensor.name
                              : fmt::format("{} [{}]", tensor.name, fmt::join(tensor.sizes, ", "));
}

/// The first and the last sample of a source, read like a batch of a job.
Batch read_ends(const DataSource& source, std::uint64_t seed) {
  std::vector<std::int64_t> ends{0, source.size() - 1};
  return source.make_batch({.indices = ends, .seed = seed});
}

/// One look at all that a start of the job looks at. What one part says is kept, and the others are looked at as
/// far as they can be without it.
class Validation {
 public:
  Validation(const config::JobConfig& config, int ranks)
      : path_(config.path),
        values_(config.values),
        job_(config.values.dump()),
        parts_(training::built_in_parts()),
        ranks_(ranks) {}

  int run() {
    look([&] { context_ = world_of_one(job_.text("device"), job_.text("backend")); });
    look([&] { check_output_folder(); });
    look([&] { stand_in_for_downloads(); });
    look([&] { data_ = runtime_data(); });
    look([&] {
      if (data_.train) judging_ = runtime_judging_data();
    });
    look([&] { find_resume_point(); });
    if (data_.train) {
      look([&] { check_samples(); });
      look([&] { check_length(); });
      look_at_model();
    }
    look([&] { check_resume(); });
    return problems_.empty() ? tell_facts() : tell_problems();
  }

 private:
  void look(const std::function<void()>& part) {
    try {
      part();
    } catch (...) {
      const std::string problem = training::describe_exception(std::current_exception()).message();
      // Two parts may meet the same one.
      if (std::find(problems_.begin(), problems_.end(), problem) == problems_.end())
        problems_.push_back(problem);
    }
  }

  /// What a start downloads is not downloaded here: made-up samples of its form are looked at, and it is said.
  void stand_in_for_downloads() {
    for (const training::PendingDownload& pending : training::pending_downloads(job_)) {
      if (!made_up_) made_up_.emplace("ddprun-validate");
      nlohmann::json& data = values_.at(nlohmann::json::json_pointer(pending.pointer));
      const std::string folder = *made_up_ / std::to_string(downloads_.size());
      const auto place = make_up_data(data, values_.at("model").at("type"), {}, folder);
      DDPRUN_CHECK(place.has_value(), "what can be downloaded can be made up");
      data["path"] = *place;
      downloads_.push_back(pending.pointer);
      facts_.emplace_back(downloads_.size() == 1 ? "download" : "",
                          "a start downloads " + pending.in_words());
    }
    job_ = Options(values_.dump());
  }

  [[nodiscard]] bool is_made_up(const std::string& pointer) const {
    return std::find(downloads_.begin(), downloads_.end(), pointer) != downloads_.end();
  }

  DataSplits runtime_data() {
    Result<DataSplits> data = training::load_data(parts_, job_);
    if (!data) throw Exception(data.error().code(), data.error().message());
    return std::move(*data);
  }

  std::vector<training::JudgingData> runtime_judging_data() {
    Result<std::vector<training::JudgingData>> data =
        training::load_judging_data(parts_, job_, data_.train->shape());
    if (!data) throw Exception(data.error().code(), data.error().message());
    return std::move(*data);
  }

  [[nodiscard]] std::uint64_t seed() const { return static_cast<std::uint64_t>(job_.integer("seed")); }

  void check_output_folder() const {
    fs::path folder(job_.text("output_dir"));
    std::error_code error;
    while (!fs::exists(folder, error) && folder.has_parent_path() && folder != folder.parent_path())
      folder = folder.parent_path();
    const bool is_folder = fs::is_directory(folder, error);
    if (is_folder && ::access(folder.c_str(), W_OK | X_OK) == 0) return;
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("/output_dir: {} cannot be written: {} {}", job_.text("output_dir"), folder.string(),
                    is_folder ? "may not be written by this user" : "is no folder"));
  }

  void check_samples() {
    const DataShape& shape = data_.train->shape();
    for (const auto& source : {data_.held_out, data_.train}) {
      if (source->size() == 0) throw Exception(ErrorCode::kConfig, "/data: there is no sample to read");
      sample_ = read_ends(*source, seed());
    }
    std::vector<std::string> tensors;
    for (const TensorShape& tensor : shape.tensors) tensors.push_back(shape_in_words(tensor));
    const std::string samples =
        is_made_up("/data")
            ? "not there yet"
            : fmt::format("{} training and {} held-out {}", with_thousands(data_.train->size()),
                          with_thousands(data_.held_out->size()),
                          shape.unit == "images" ? "images" : "samples");
    facts_.emplace_back(
        "data",
        fmt::format("{}: {}, {}{}", job_.object("data").text("type"), samples, fmt::join(tensors, ", "),
                    shape.classes > 0 ? ", " + counted(shape.classes, "classes") : ""));
  }

  void check_length() {
    const training::LoopOptions options = training::read_loop_options(job_);
    training::check_strategy(job_, ranks_);
    if (is_made_up("/data")) return;  // how many steps it has is seen when the data is there
    const std::int64_t virtual_ranks = job_.object("train").integer("virtual_ranks");
    const training::RankBlock block = training::rank_block(virtual_ranks, {.world_size = ranks_});
    size_ = training::size_of_job(options, data_.train->size(), block.ranks);
    const std::int64_t all = size_->length.epochs * size_->steps_per_epoch;
    const bool is_cut = options.max_steps > 0 && options.max_steps < all;
    facts_.emplace_back(
        "length",
        fmt::format("{} of {}, {} in all{}, with {} of batch {}{}", counted(options.epochs, "epochs"),
                    counted(size_->steps_per_epoch, "steps"),
                    counted(is_cut ? options.max_steps : all, "steps"), is_cut ? " (/train/max_steps)" : "",
                    counted(block.ranks, block.is_virtual ? "virtual ranks" : "ranks"), options.batch_size,
                    options.accumulation > 1 ? fmt::format(" × {}", options.accumulation) : ""));
  }

  /// Model and task each by itself, so that both can be wrong, and then with weights and freezes as a start has
  /// them.
  void look_at_model() {
    const DataShape& shape = data_.train->shape();
    bool fits = true;
    const auto look_closer = [&](const std::function<void()>& part) {
      const std::size_t before = problems_.size();
      look(part);
      fits = fits && problems_.size() == before;
    };
    const Options model = job_.object("model");
    look_closer([&] { training::make_part(parts_.models, model.text("type"), model, shape); });
    const Options task = job_.object("task");
    const std::string type = task.text("type");
    look_closer([&] {
      training::make_part(parts_.tasks, type == "auto" ? tasks::task_for(shape) : type, task, shape);
    });
    if (!fits || !context_) return;
    look([&] {
      if (size_) training::check_last_batch(job_, parts_, shape, *size_);
    });
    look([&] {
      training::Draft draft = training::make_draft(*context_, job_, parts_, shape, resume_point_.has_value());
      draft.model->to(context_->device());
      look([&] { check_forward(*draft.model, *draft.task); });
      tell_model(*draft.model, *draft.task, type == "auto" ? tasks::task_for(shape) : type);
      trainer_.emplace(
          training::TrainerParts{*context_, job_, parts_, data_, observers_, clock_, drain_, judging_},
          std::move(draft));
    });
  }

  void check_forward(Model& model, const Task& task) const {
    if (!sample_) return;
    const at::NoGradGuard no_grad;
    model.eval();
    const Batch batch = training::to_device(*sample_, context_->device());
    const auto precision = training::read_step_options(job_.object("train")).precision;
    const std::optional<c10::ScalarType> autocast = training::autocast_dtype(precision);
    std::optional<AutocastGuard> guard;
    if (autocast) guard.emplace(context_->device().type(), autocast);
    const at::Tensor output = model.forward(batch.tensors[0]);
    // Either is an error of libtorch's where output and targets do not fit each other.
    static_cast<void>(task.loss(output, batch).item<double>());
    static_cast<void>(task.sums(output, batch));
  }

  void tell_model(const Model& model, const Task& task, const std::string& type) {
    std::int64_t count = 0;
    std::int64_t frozen = 0;
    double bytes = 0;
    for (const ModuleView::Parameter& parameter : view_of(model).parameters) {
      count += parameter.tensor.numel();
      bytes += static_cast<double>(parameter.tensor.nbytes());
      if (!parameter.tensor.requires_grad()) frozen += parameter.tensor.numel();
    }
    const Options options = job_.object("model");
    facts_.emplace_back(
        "model", fmt::format("{}: {} parameters in {:.1f} MiB{}{}, on {}", options.text("type"),
                             with_thousands(count), bytes / kMebibyte,
                             frozen > 0 ? fmt::format(", {} of them frozen", with_thousands(frozen)) : "",
                             options.has("weights") && !resume_point_
                                 ? ", beginning with the weights of " + options.text("weights")
                                 : "",
                             context_->device().str()));
    std::vector<std::string> metrics;
    for (const Metric& metric : task.metrics()) metrics.push_back(metric.name);
    facts_.emplace_back("task", fmt::format("{}: {}", type, fmt::join(metrics, ", ")));
  }

  void find_resume_point() {
    const std::string choice = job_.text("resume");
    if (choice == "auto") {
      resume_point_ = newest_checkpoint(job_.text("output_dir") + "/checkpoints");
    } else if (choice != "never") {
      resume_point_ = own_checkpoint(choice);
      if (!resume_point_) resume_point_ = Checkpoint{choice, load_pt(choice)};
    }
  }

  /// Of a job that began from `choice` before: what it goes on from.
  std::optional<Checkpoint> own_checkpoint(const std::string& choice) {
    if (!context_) return std::nullopt;
    training::Console console(training::Console::Speaker::kRankZero, "never", clock_);
    training::ResumeSearch search(
        *context_, {.folder = job_.text("output_dir") + "/checkpoints", .choice = choice}, console);
    search.look();
    if (search.settle()) throw *search.trouble();
    auto point = search.share();
    if (!point) return std::nullopt;
    return Checkpoint{point->path, PtValue(std::move(point->content))};
  }

  void check_resume() {
    training::Position position;
    if (resume_point_ && trainer_) {
      try {
        trainer_->restore(resume_point_->content.as_dict());
      } catch (const Exception& exception) {
        throw Exception(exception.code(), fmt::format("cannot resume from {}: {}",
                                                      describe(*resume_point_, {}), exception.what()));
      }
      position = trainer_->position();
    }
    if (size_) {
      position.world = size_->world;
      training::check_schedule(training::read_loop_options(job_).warmup_steps, position, *size_);
    }
    if (!resume_point_) {
      facts_.emplace_back("start", job_.text("resume") == "never"
                                       ? "from the beginning"
                                       : "from the beginning: there is no checkpoint");
      return;
    }
    const bool is_complete = size_ && training::is_complete(position, size_->length);
    facts_.emplace_back("start",
                        fmt::format("from {}, epoch {}{}", describe(*resume_point_, {false, position}),
                                    position.epoch, is_complete ? ": nothing is left to do" : ""));
  }

  int tell_facts() const {
    print(path_ + " is valid\n" + two_columns(facts_, 2, columns_of(STDOUT_FILENO)));
    return exit_code::kOk;
  }

  int tell_problems() const {
    std::string text = fmt::format("ddprun validate: {}: {}\n", path_,
                                   counted(static_cast<std::int64_t>(problems_.size()), "problems"));
    for (const std::string& problem : problems_) text += "  " + problem + "\n";
    if (!data_.train) text += "  (model and task were not looked at: they are made for the data)\n";
    print_error(printable_lines(text));
    return exit_code::kConfig;
  }

  std::string path_;
  nlohmann::json values_;
  Options job_;
  std::optional<TemporaryFolder> made_up_;
  std::vector<std::string> downloads_;  ///< whose data is made up
  training::JobParts parts_;
  int ranks_;
  std::vector<std::string> problems_;
  std::vector<std::pair<std::string, std::string>> facts_;
  std::optional<Context> context_;
  DataSplits data_;
  std::vector<training::JudgingData> judging_;
  std::optional<Batch> sample_;
  std::optional<Checkpoint> resume_point_;
  std::optional<training::JobSize> size_;
  KernelClock clock_;
  Drain drain_;
  training::Observers observers_;
  std::optional<training::Trainer> trainer_;  // last: it works with the others
};

int read_ranks(const std::string& text) {
  int ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (error == std::errc() && end == text.data() + text.size() && ranks >= 1 && ranks <= 1'000'000)
    return ranks;
  throw Exception(ErrorCode::kUsage,
                  fmt::format("--ranks: expected a number of ranks from 1 to 1000000, got \"{}\"", text));
}

}  // namespace

int run_validate(const config::JobCommandLine& line) {
  const int ranks = read_ranks(line.value("ranks", "1"));
  return Validation(read_job_file(line), ranks).run();
}

}  // namespace ddprun::commands

#include "worker/training/job.h"

#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/printable.h"
#include "worker/models/summary.h"
#include "worker/runtime/process/memory/freed_memory.h"
#include "worker/tasks/sample_text.h"
#include "worker/training/first_failure.h"
#include "worker/training/job_output.h"
#include "worker/training/observers/console.h"
#include "worker/training/observers/text.h"
#include "worker/training/parts/job_data.h"
#include "worker/training/parts/job_downloads.h"
#include "worker/training/parts/job_parts.h"
#include "worker/training/resume/job_marks.h"
#include "worker/training/resume/memory_checkpoints.h"
#include "worker/training/resume/resume.h"
#include "worker/training/resume/same_job.h"
#include "worker/training/state/timeline.h"
#include "worker/training/step/foreign_error.h"
#include "worker/training/step/kernels.h"
#include "worker/training/step/step.h"
#include "worker/training/trainer.h"
#include <ddprun/autocast.h>
#include <ddprun/collectives.h>
#include <ddprun/fail_together.h>
#include <ddprun/init.h>
#include <ddprun/record.h>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::training {
namespace {

namespace fs = std::filesystem;

/// How long a rank that lost another one looks for that one's last words, and then waits for them.
constexpr std::chrono::milliseconds kGlance{10};
constexpr std::chrono::milliseconds kPatienceForTheCause{1000};

Error to_error(const Exception& exception) { return {exception.code(), exception.what()}; }

std::optional<Exception> to_exception(const std::optional<Error>& error) {
  if (!error) return std::nullopt;
  return Exception(error->code(), error->message());
}

/// Everything that a job reads.
struct JobData {
  DataSplits splits;
  std::vector<JudgingData> judging;
};

Result<JobData> load_all_data(JobParts& parts, const Options& job, const std::stop_token& stop) {
  if (Result<void> done = download_data(job, stop); !done) return done.error();
  keep_text_tokens(job, stop);
  Result<DataSplits> splits = load_data(parts, job);
  if (!splits) return splits.error();
  Result<std::vector<JudgingData>> judging = load_judging_data(parts, job, splits->train->shape());
  if (!judging) return judging.error();
  return JobData{std::move(*splits), std::move(*judging)};
}

/// Where it went on from a checkpoint that says nothing of its line, this one counts as what the line began from.
Timeline line_with_origin(Timeline line, const std::optional<ResumePoint>& point) {
  if (point && name_of(point->content).empty()) line.began_path = kept_path(point->path);
  return line;
}

/// Where a line begins, each rank has drawn one, and rank 0 alone knows what it began from. Collective.
Timeline of_rank_zero(const Context& context, const Timeline& line) {
  const std::vector<std::string> words =
      broadcast_bytes_list(context, {line.id, line.job, line.began_from, line.began_path, line.continues});
  return {.id = words.at(0),
          .job = words.at(1),
          .began_from = words.at(2),
          .began_path = words.at(3),
          .continues = words.at(4)};
}

struct StopAtEnd {
  std::stop_source& stop;
  ~StopAtEnd() { stop.request_stop(); }
};

class Job {
 public:
  Job(const config::JobConfig& job, Drain& drain)
      : job_(job.values.dump()),
        parts_(built_in_parts()),
        working_directory_(fs::current_path()),
        drain_(drain),
        output_(job_, job.path, working_directory_, clock_) {}

  Outcome run() {
    // Reading data and meeting the other ranks take their time side by side. The thread has options of its own.
    std::stop_source stop;
    std::future<Result<JobData>> data =
        std::async(std::launch::async, [this, job = Options(job_.to_json()), token = stop.get_token()] {
          return load_all_data(parts_, job, token);
        });
    // Whatever ends this first waits for that thread: not until a download is through.
    const StopAtEnd stop_download{stop};
    std::string backend_line;
    InitOptions options;
    options.backend = job_.text("backend");
    options.device = job_.text("device");
    options.log = [&](const std::string& line) { backend_line = line; };
    Context context = init(options);
    // What only memory has is lost with the launcher. Before all ranks are here none of them waits for long.
    if (context.restart_count() > 0 && process_env(env_name::kKeptMemory)) drain_.has_unsaved(true);
    try {
      return run_in(context, data, backend_line);
    } catch (...) {
      // The group is open until this has returned: who sees it close can already read why.
      // The SIGTERM of a launcher that has seen another rank go ends whoever makes no step: not before this is written.
      drain_.take_time();
      return fail(context, describe_exception(std::current_exception()));
    }
  }

 private:
  Outcome run_in(Context& context, std::future<Result<JobData>>& data, const std::string& backend_line) {
    const auto speaker = context.rank() == 0 ? Console::Speaker::kRankZero : Console::Speaker::kSilent;
    console_ = std::make_unique<Console>(speaker, job_.object("log").text("progress"), clock_);

    std::optional<Error> trouble;
    Result<JobData> all = data.get();
    if (!all) trouble = all.error();
    identity_ = identify(marks_of(context));
    std::optional<ResumeSearch> search(std::in_place, context, resume_options(job_.text("resume")),
                                       *console_);
    if (!trouble && context.rank() == 0) {
      trouble = output_.open(context, *console_, backend_line);
      if (!trouble) trouble = look(*search);
    }
    if (const auto shared = agree_on_error(context, to_exception(trouble))) return refuse(*shared, trouble);

    const auto difference = compare_with_rank_zero(context, common_job(job_, all->splits, all->judging));
    if (difference) trouble = to_error(*difference);
    if (const auto shared = agree_on_error(context, difference)) return refuse(*shared, trouble);

    auto shared = search->settle();
    std::optional<MemoryPoint> memory;
    if (!shared) {
      open_memory(context);
      if (memory_) memory = find_in_memory(*search);
      if (!memory_) drain_.has_unsaved(false);
      // What the job has may be where the folder cannot be opened: on a mount that is missing.
      if (!memory && search->step() < 0) {
        shared = agree_on_error(context, to_exception(output_.folder_trouble()));
        if (shared) return refuse(*shared, output_.folder_trouble());
      }
      if (!memory) shared = search->conclude();
    }
    if (shared) {
      if (search->trouble()) trouble = to_error(*search->trouble());
      return refuse(*shared, trouble);
    }
    std::optional<ResumePoint> resume;
    if (!memory) resume = search->share();
    search.reset();  // it may hold a whole checkpoint
    Outcome outcome = train(context, *all, std::move(resume), std::move(memory));
    // After SIGTERM the ranks may not wait for each other again.
    if (outcome.exit_code == exit_code::kOk) context.shutdown();
    return outcome;
  }

  /// Says what ended this rank, before anything is closed: in its error file, and to the other ranks. A rank
  /// that only lost another one names that.
  Outcome fail(const Context& context, Error error) {
    const bool may_be_consequence =
        error.code() == ErrorCode::kPeerLost || error.code() == ErrorCode::kTimeout;
    const auto is_heard = [&](std::chrono::milliseconds patience) {
      const auto first = hear_failure(*context.store(), patience);
      if (first) error = to_error(consequence_of({.rank = first->rank, .message = first->message}));
      return first.has_value();
    };
    bool is_filed = false;
    try {
      if (!may_be_consequence) {
        write_error_file(error.message());
        is_filed = true;
        tell_failure(*context.store(), context.rank(), error.message());
      } else if (!is_heard(kGlance)) {
        // A rank that was killed has no last words, and while they are waited for this one may be ended.
        tell_observers(error.message());
        drain_.progress();
        is_heard(kPatienceForTheCause);
      }
    } catch (const std::exception&) {
      // The store is gone with its launcher: nobody is left to tell.
    }
    tell_observers(error.message());
    drain_.progress();
    return {.exit_code = exit_code_of(error.code()), .error = error.message(), .is_filed = is_filed};
  }

  /// Of a training that an error has ended, once. After that was said to all who wait for it: a page takes its time.
  void tell_observers(const std::string& what) {
    const std::optional<Position> position = std::exchange(failed_at_, std::nullopt);
    if (!position) return;
    try {
      for (const auto& observer : output_.observers())
        observer->on_failure({.position = *position, .what = what});
    } catch (const std::exception& exception) {
      console_->warning(fmt::format("the failure is not in metrics and report: {}", exception.what()));
    }
  }

  static std::optional<Error> look(ResumeSearch& search) {
    try {
      search.look();
    } catch (const Exception& exception) {
      return to_error(exception);
    }
    return std::nullopt;
  }

  /// What the launcher keeps for this rank, if the job file wants that, and every rank has such. Collective.
  void open_memory(const Context& context) {
    if (job_.object("checkpoint").integer("memory_every_steps") == 0) return;
    std::optional<Exception> trouble;
    try {
      memory_ = std::make_unique<MemoryCheckpoints>(context, process_env(env_name::kKeptMemory).value_or(""),
                                                    job_.to_json(), can_keep_in_place(context, job_));
    } catch (const Exception& exception) {
      trouble = exception;
    }
    if (const auto shared = agree_on_error(context, trouble)) {
      memory_.reset();
      console_->warning(
          fmt::format("/checkpoint/memory_every_steps: nothing is kept in memory ({}), for which ddprun has "
                      "to start the job",
                      shared->message));
    }
  }

  /// The last step in memory, where it comes after what the disk has; else what is there is of no use any more.
  /// Collective.
  std::optional<MemoryPoint> find_in_memory(const ResumeSearch& disk) {
    const std::int64_t newest_on_disk = disk.step();
    MemoryCheckpoints::Found found = memory_->find_after(newest_on_disk);
    if (!found.passed_over.empty())
      console_->warning(
          fmt::format("memory is passed over: {}; checkpoints on the disk count", found.passed_over));
    if (found.point) {
      found.point->timeline = disk.of_this_job(std::move(found.point->timeline));
      found.point->newest_on_disk = newest_on_disk;
    } else {
      memory_->forget();
      drain_.has_unsaved(false);
    }
    return std::move(found.point);
  }

  Outcome train(const Context& context, const JobData& data, std::optional<ResumePoint> resume,
                std::optional<MemoryPoint> memory) {
    const bool is_resumed = resume || memory;
    const std::unique_ptr<c10::StreamGuard> stream = stream_of_graph(context);
    std::optional<Error> trouble;
    std::optional<Draft> draft;
    try {
      const DataShape& shape = data.splits.train->shape();
      const RankBlock block = rank_block(job_, context);
      // First weights may be computed, too: orthogonal ones are.
      choose_threads(job_.object("train"));
      draft = make_draft(context, job_, parts_, shape, is_resumed);
      check_last_batch(job_, parts_, shape,
                       size_of_job(read_loop_options(job_), data.splits.train->size(), block.ranks));
    } catch (const Exception& exception) {
      trouble = to_error(exception);
    }
    if (const auto shared = agree_on_error(context, to_exception(trouble))) return refuse(*shared, trouble);
    const std::string warning = draft->warning;
    const std::vector<std::string> of_weights = words_on_weights(*draft);
    std::optional<Trainer> trainer;
    const Timeline timeline = of_rank_zero(context, memory   ? memory->timeline
                                                    : resume ? resume->timeline
                                                             : begin_timeline(identity_));
    try {
      trainer.emplace(
          TrainerParts{context, job_, parts_, data.splits, output_.observers(), clock_, drain_, data.judging,
                       [&, own = line_with_origin(timeline, resume)] {
                         return find_resume_point(context, resume_options(job_.text("resume"), own),
                                                  *console_);
                       },
                       output_.trace(context, *console_), timeline, memory_.get(),
                       memory ? std::optional(memory->newest_on_disk) : std::nullopt},
          std::move(*draft));
    } catch (const Exception& exception) {
      // What does not fit each other in the job file is the same on every rank.
      if (exception.code() != ErrorCode::kConfig) throw;
      trouble = to_error(exception);
    }
    const std::string resumed_from = memory ? "memory" : resume ? resume->path : "";
    if (trainer && is_resumed) {
      try {
        if (memory) {
          trainer->restore(memory->state);
        } else {
          trainer->restore(resume->content);
        }
      } catch (const Exception& exception) {
        trouble =
            to_error(exception).with("cannot resume from " + shown_path(resumed_from, working_directory_));
      }
    }
    memory.reset();  // as large as the model and the optimizer
    resume.reset();
    runtime::release_freed_memory();  // of what was read, weights as well
    if (trainer && !trouble) {
      try {
        trainer->check();
      } catch (const Exception& exception) {
        trouble = to_error(exception);
      }
    }
    if (const auto shared = agree_on_error(context, to_exception(trouble))) return refuse(*shared, trouble);
    if (!warning.empty()) console_->warning(warning);
    const std::string slow =
        warning_of_slow_precision(job_.object("train"), context.device(), is_slow_in_bf16());
    if (!slow.empty()) console_->warning(slow);
    for (const std::string& line : of_weights) console_->line(line);
    if (context.rank() == 0 && job_.object("log").flag("summary"))
      console_->line(models::summary(trainer->model(), data.splits.train->shape()));
    trainer->start(is_resumed ? std::optional(resumed_from) : std::nullopt);
    if (!trainer->has_work()) return {};
    const Ending ending = run(*trainer);
    if (ending == Ending::kComplete) {
      say_sample(context, *trainer, data.splits.train->shape());
      return {};
    }
    return {.exit_code = exit_code::kSignalBase + drain_.signal()};
  }

  /// What was made of the file that /model/weights names.
  [[nodiscard]] std::vector<std::string> words_on_weights(const Draft& draft) const {
    if (draft.foreign_prefix.empty() && !draft.begins_with_average) return {};
    const std::string file = shown_path(job_.object("model").text("weights"), working_directory_);
    std::vector<std::string> words;
    if (!draft.foreign_prefix.empty()) {
      words.push_back(
          fmt::format("the names in {} begin with \"{}\", which this model's do not; it is left out", file,
                      draft.foreign_prefix));
    }
    if (draft.begins_with_average)
      words.push_back("the model begins with the average of the weights in " + file);
    return words;
  }

  Ending run(Trainer& trainer) {
    try {
      return trainer.run();
    } catch (...) {
      failed_at_ = trainer.position();
      throw;
    }
  }

  /// What the finished model makes up, as far as the job file wants some. Collective.
  void say_sample(const Context& context, Trainer& trainer, const DataShape& data) {
    const std::int64_t tokens = job_.object("log").integer("sample_tokens");
    if (tokens == 0) return;
    Model& model = trainer.evaluated();
    if (context.rank() != 0) return;
    const at::NoGradGuard no_grad;
    std::optional<AutocastGuard> autocast;
    if (const auto dtype = autocast_dtype(read_step_options(job_.object("train")).precision))
      autocast.emplace(context.device().type(), dtype);
    model.eval();
    const auto seed = static_cast<std::uint64_t>(job_.integer("seed"));
    console_->line(
        printable_lines(fmt::format("sample: {}", tasks::sample_text(model, data, tasks::first_prompt(data),
                                                                     {.tokens = tokens, .seed = seed}))));
  }

  /// What a graph is recorded from has to run, from the making of DDP on, on one stream that is not the default one.
  [[nodiscard]] std::unique_ptr<c10::StreamGuard> stream_of_graph(const Context& context) const {
    const at::Device device = context.device();
    if (!job_.object("train").flag("cuda_graph") || device.is_cpu()) return nullptr;
    return std::make_unique<c10::StreamGuard>(
        c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
  }

  /// All ranks know of `shared`: who has an error of its own ends with that, and the others because of it.
  static Outcome refuse(const SharedError& shared, const std::optional<Error>& mine) {
    if (!mine) {
      const Exception end = consequence_of(shared);
      return {.exit_code = exit_code_of(end.code()), .error = end.what(), .speaks = false};
    }
    return {.exit_code = exit_code_of(mine->code()), .error = mine->message(), .speaks = shared.is_mine};
  }

  [[nodiscard]] ResumeOptions resume_options(const std::string& choice, const Timeline& own = {}) const {
    return {.folder = output_.checkpoint_folder(), .choice = choice, .job = identity_, .own = own};
  }

  Options job_;
  JobParts parts_;
  std::string working_directory_;
  Drain& drain_;
  KernelClock clock_;
  JobOutput output_;
  JobIdentity identity_;
  std::unique_ptr<Console> console_;
  std::unique_ptr<MemoryCheckpoints> memory_;
  std::optional<Position> failed_at_;  ///< where an error has ended the training
};

}  // namespace

Outcome run_job(const config::JobConfig& job, Drain& drain) { return Job(job, drain).run(); }

}  // namespace ddprun::training

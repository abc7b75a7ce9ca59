#include "worker/training/job_output.h"

#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/base/restart_cause.h"
#include "worker/training/observers/console_observer.h"
#include "worker/training/observers/csv_observer.h"
#include "worker/training/observers/device_memory.h"
#include "worker/training/observers/metrics_observer.h"
#include "worker/training/observers/report.h"
#include "worker/training/observers/tensorboard_observer.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

namespace ddprun::training {
namespace {

TraceOptions read_trace_options(const Options& job) {
  const Options trace = job.object("log").object("trace");
  return {.first_step = trace.integer("first_step"), .steps = trace.integer("steps")};
}

/// The launcher's words, or those of whoever has set the variable.
std::string restart_cause() {
  return printable(process_env(kRestartCauseName).value_or(""), kLongestRestartCause);
}

}  // namespace

JobOutput::JobOutput(const Options& job, std::string job_path, std::string working_directory,
                     const Clock& clock)
    : job_(job),
      job_path_(std::move(job_path)),
      working_directory_(std::move(working_directory)),
      clock_(clock) {
  // Without it the profiler says on stderr that a machine has no GPU.
  if (read_trace_options(job_).steps > 0) ::setenv("KINETO_LOG_LEVEL", "99", 0);
}

std::optional<Error> JobOutput::open(const Context& context, Console& console,
                                     const std::string& backend_line) {
  if (auto error = open_folder(context, console)) return error;
  if (auto error = open_metrics(context, console)) return error;
  add_observers(context, console, backend_line);
  return std::nullopt;
}

std::optional<Error> JobOutput::open_folder(const Context& context, Console& console) {
  Result<OutputFolder> opened =
      OutputFolder::open(folder(), {.tell = [&](const std::string& words) { console.line(words); }});
  if (opened) {
    folder_ = std::move(*opened);
  } else if (goes_on_without(opened.error(), context, console)) {
    folder_trouble_ = opened.error();
  } else {
    return opened.error();
  }
  const Result<bool> merged = write_merged_job(folder(), job_path_, job_.to_json());
  if (merged && !*merged)
    console.warning(
        folder() +
        "/job.json cannot be read as one of ddprun's, and stays; the merged job file is not written");
  if (!merged && !goes_on_without(merged.error(), context, console)) return merged.error();
  return std::nullopt;
}

std::optional<Error> JobOutput::open_metrics(const Context& context, Console& console) {
  std::vector<std::string> files{metrics_path()};
  if (!context.log_dir().empty()) files.push_back(context.log_dir() + "/metrics.jsonl");
  metrics_ = MetricsLog([&console](const std::string& text) { console.warning(text); });
  for (const std::string& path : files) {
    const Result<void> opened = metrics_.append_to(path);
    if (!opened && !goes_on_without(opened.error(), context, console)) return opened.error();
  }
  return std::nullopt;
}

void JobOutput::add_observers(const Context& context, Console& console, const std::string& backend_line) {
  const auto warn = [&console](const std::string& text) { console.warning(text); };
  const Options log = job_.object("log");
  const std::string model = job_.object("model").text("type");
  observers_.push_back(std::make_unique<ConsoleObserver>(
      console,
      ConsoleObserver::Facts{.model = model,
                             .device = context.device().str(),
                             .backend_line = backend_line,
                             .batch_size = job_.object("train").integer("batch_size"),
                             .are_virtual = job_.object("train").integer("virtual_ranks") > 0,
                             .resume = job_.text("resume"),
                             .output_dir = folder(),
                             .metrics_path = metrics_path(),
                             .report_path = log.flag("report") ? report_path() : "",
                             .working_directory = working_directory_,
                             .gpu_bytes = [device = context.device()] { return device_bytes(device); },
                             .lost_records = [this] { return metrics_.lost_records(); }}));
  observers_.push_back(std::make_unique<MetricsObserver>(
      metrics_, MetricsObserver::Facts{context.backend(), context.restart_count(), restart_cause()}));
  if (log.flag("report")) {
    observers_.push_back(std::make_unique<ReportObserver>(
        ReportObserver::Files{metrics_path(), report_path()},
        ReportFacts{.name = job_.text("name"), .model = model, .device = context.device().str()}, job_,
        clock_, warn));
  }
  if (log.flag("csv")) observers_.push_back(std::make_unique<CsvObserver>(folder() + "/metrics.csv", warn));
  if (log.flag("tensorboard")) {
    Result<EventFile> events = EventFile::create(folder() + "/tensorboard");
    if (events) {
      observers_.push_back(std::make_unique<TensorBoardObserver>(std::move(*events), warn));
    } else {
      warn(events.error().message() + "; the training goes on, and TensorBoard shows nothing of it");
    }
  }
}

/// Whether a job that outlives errors of writing is started again beside a disk that takes nothing, as it went on
/// beside it: what it has reached may be in memory alone.
bool JobOutput::goes_on_without(const Error& error, const Context& context, Console& console) const {
  const bool outlives = job_.object("checkpoint").text("on_write_error") == "go_on";
  if (error.code() != ErrorCode::kOs || context.restart_count() == 0 || !outlives) return false;
  console.warning(error.message() + "; the training goes on");
  return true;
}

StepTrace* JobOutput::trace(const Context& context, Console& console) {
  const TraceOptions options = read_trace_options(job_);
  if (options.steps == 0) return nullptr;
  trace_.emplace(
      options,
      StepTrace::Facts{.folder = folder() + "/trace",
                       .rank = context.rank(),
                       .world_size = context.world_size(),
                       .backend = context.backend(),
                       .device = context.device(),
                       .working_directory = working_directory_},
      [&console](const std::string& text) { console.line(text); },
      [this, &console, rank = context.rank()](const std::string& text) {
        if (rank == 0) return console.warning(text);
        // What cannot be written may be so on this rank's host alone.
        Console(Console::Speaker::kRankZero, "never", clock_).warning(fmt::format("rank {}: {}", rank, text));
      });
  return &*trace_;
}

}  // namespace ddprun::training

#pragma once

#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"
#include "worker/training/observers/console.h"
#include "worker/training/observers/metrics_log.h"
#include "worker/training/observers/observer.h"
#include "worker/training/observers/step_trace.h"
#include "worker/training/resume/output_folder.h"
#include <ddprun/init.h>
#include <ddprun/trainer/options.h>

#include <optional>
#include <string>

namespace ddprun::training {

/// What a job leaves in its output folder and says while it trains: rank 0 holds the folder, writes metrics, report
/// and tables, and has an observer for each of them. On other ranks only paths and a trace.
class JobOutput {
 public:
  /// To be made before there is another thread: it may set a variable of the environment. What it is given has to
  /// outlive it. `job` is the whole job file.
  JobOutput(const Options& job, std::string job_path, std::string working_directory, const Clock& clock);

  /// Of rank 0: takes the folder's lock, which may be waited for, writes the merged job file, opens metrics, and makes
  /// the observers. The error is a sentence for the person; with one nothing may be trained. Not collective.
  std::optional<Error> open(const Context& context, Console& console, const std::string& backend_line);

  /// Why a restart goes on without the folder, which is held by nobody then.
  [[nodiscard]] const std::optional<Error>& folder_trouble() const { return folder_trouble_; }

  /// Empty on all ranks but 0.
  [[nodiscard]] Observers& observers() { return observers_; }

  /// The trace of this rank, which lives as long as this; null: the job file wants none. Once.
  StepTrace* trace(const Context& context, Console& console);

  [[nodiscard]] std::string folder() const { return job_.text("output_dir"); }
  [[nodiscard]] std::string checkpoint_folder() const { return folder() + "/checkpoints"; }

 private:
  std::optional<Error> open_folder(const Context& context, Console& console);
  std::optional<Error> open_metrics(const Context& context, Console& console);
  void add_observers(const Context& context, Console& console, const std::string& backend_line);
  [[nodiscard]] bool goes_on_without(const Error& error, const Context& context, Console& console) const;
  [[nodiscard]] std::string report_path() const { return folder() + "/report.html"; }
  [[nodiscard]] std::string metrics_path() const { return folder() + "/metrics.jsonl"; }

  const Options& job_;
  const std::string job_path_, working_directory_;
  const Clock& clock_;
  OutputFolder folder_;
  std::optional<Error> folder_trouble_;
  MetricsLog metrics_;
  Observers observers_;
  std::optional<StepTrace> trace_;
};

}  // namespace ddprun::training

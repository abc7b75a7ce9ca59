#pragma once

#include "rendezvous/base/clock.h"
#include "worker/training/observers/observer.h"
#include <ddprun/trainer/options.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::training {

/// What a report says beside the records of the metrics file.
struct ReportFacts {
  std::string name;  ///< of the job
  std::string model;
  std::string device;
  std::int64_t steps_per_epoch = 1;
  std::vector<Metric> metrics;
};

/// One page that explains a run, without a server or network: curves, where the time went on each rank, epochs,
/// starts and restarts, settings. `records` are the lines of metrics.jsonl, of all runs into the folder: shown is what
/// has led to the model as it is, and not what was undone by a rollback, a start from an earlier checkpoint or one from
/// the beginning. What is no JSON there (a line that a full disk cut) is left out. `job` is the merged job file.
std::string make_report(const ReportFacts& facts, const std::vector<std::string>& records,
                        const std::string& job);

/// The page, with @@DATA@@ where the numbers go.
std::string_view report_page();

/// Keeps report.html beside the metrics file: at a start where one is there, after epochs, though not more often than
/// every ten seconds, and at the end, which may be a failure.
class ReportObserver final : public Observer {
 public:
  struct Files {
    std::string metrics;  ///< read
    std::string report;   ///< replaced at once, never half-written
  };
  /// `facts` but for what the start tells. `warn` is told once of a page that cannot be written.
  ReportObserver(Files files, ReportFacts facts, const Options& job, const Clock& clock,
                 std::function<void(const std::string& text)> warn);

  void on_start(const StartEvent& event) override;
  void on_epoch(const EpochEvent& event) override;
  void on_end(const EndEvent& event) override;
  void on_failure(const FailureEvent& event) override;

 private:
  void write();

  Files files_;
  ReportFacts facts_;
  std::string job_;
  const Clock& clock_;
  std::function<void(const std::string& text)> warn_;
  TimePoint next_{};
};

}  // namespace ddprun::training

#pragma once

#include "launcher/agent/observer.h"
#include "launcher/plan.h"
#include "launcher/report/evidence.h"
#include "launcher/report/failure_report.h"

#include <optional>
#include <string>

namespace ddprun::launcher {

/// Turns outcomes into what a user reads: a line on stderr for every generation that is restarted; at
/// the end of a failed job the report on stderr, report.json in the log directory, and a copy of the root
/// cause's error file in our own TORCHELASTIC_ERROR_FILE. Construct it before the job starts: it remembers
/// the machine's state of then.
class Reporter final : public Observer {
 public:
  explicit Reporter(const Plan& plan);

  void generation_started(const RoundInfo& round) override;
  void worker_exited(const RoundInfo& round, const WorkerOutcome& worker) override;
  void generation_ended(const GenerationOutcome& outcome) override;
  void restarting(int next_restart_count, Duration delay) override;

  /// Reports the end of the job; silent when it succeeded. Returns the path of report.json, or nothing.
  std::string finish(const JobOutcome& outcome);

 private:
  [[nodiscard]] std::optional<RootCause> root_cause_of(const GenerationOutcome& generation) const;
  void propagate_error_file(const RootCause& root, int exit_code) const;

  const Plan& plan_;
  ReportContext context_;
  OomWatch oom_;
  std::optional<Evidence> space_;  ///< at the first failure of the generation
  std::string pending_restart_;    ///< what `restarting` prints, made when the generation ended
};

}  // namespace ddprun::launcher

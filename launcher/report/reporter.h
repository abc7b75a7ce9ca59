#pragma once

#include "launcher/output/files_beside.h"
#include "launcher/plan/plan.h"
#include "launcher/report/evidence.h"
#include "launcher/report/failure_report.h"
#include "launcher/report/observer.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// Turns outcomes into what a user reads: a line on stderr for every generation that is restarted; at
/// the end of a failed job the report on stderr, report.json in the log directory, and a copy of the root
/// cause's error file in our own TORCHELASTIC_ERROR_FILE. Construct it before the job starts: it remembers
/// the machine's state of then.
class Reporter final : public Observer {
 public:
  /// `print` takes text for stderr; `files` makes the files.
  Reporter(const Plan& plan, std::function<void(std::string_view text)> print, FilesBeside& files);

  void round_begins(const membership::Round& round) override;
  void worker_exited(const membership::Round& round, const WorkerOutcome& worker) override;
  void generation_ended(const GenerationOutcome& outcome) override;
  void restarting(const membership::Restart& restart) override;

  /// What is known of a worker that failed in this generation.
  [[nodiscard]] membership::Account account_of(const WorkerOutcome& worker);

  /// Reports the end of the job; silent when it succeeded, but for report.json in a log directory that was
  /// asked for when a generation failed before.
  void finish(const JobOutcome& outcome);
  /// This rank is about to be killed because the job hangs; `page` is what `ddprun why` says.
  void note_hang(int rank, HangEnd end, const std::string& page);
  /// What was noted of it in this generation.
  [[nodiscard]] HangEnd hang_of(Rank rank) const;
  void note_straggler(const Straggler& straggler) { context_.straggler = straggler; }
  /// Says what output was lost, if any, and adds it to report.json, if that is there by now.
  void finish_output(const JobOutcome& outcome);
  /// The path of report.json; empty when there is none, or none yet.
  [[nodiscard]] const std::string& report_file() const { return written_report_; }

 private:
  /// `victim` speaks for a worker that left with 0 or stood still.
  [[nodiscard]] RootCause examine(const WorkerOutcome& worker, const WorkerOutcome* victim);
  [[nodiscard]] std::optional<RootCause> root_cause_of(const GenerationOutcome& generation);
  void propagate_error_file(const RootCause& root, int exit_code);

  void report_recovery(const JobOutcome& outcome);
  void write_report(const JobOutcome& outcome);

  const Plan& plan_;
  std::function<void(std::string_view text)> print_;
  FilesBeside& files_;
  ReportContext context_;
  OomWatch oom_;
  std::optional<Evidence> space_;  ///< at the first failure of the generation
  std::map<int, HangEnd> hangs_;   ///< by rank, why it was ended for one; of this generation
  std::optional<RootCause> root_;  ///< of the job, once it has ended
  std::string written_report_;
  std::string pending_restart_;  ///< what `restarting` prints, made when the generation ended
};

}  // namespace ddprun::launcher

#pragma once

#include "launcher/plan/plan.h"
#include "launcher/report/findings.h"
#include "launcher/report/observer.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// Opens the file of --events for appending. A FIFO is waited for until somebody reads it, as any program
/// does. kUsage when it cannot be opened.
Result<UniqueFd> open_events_file(const std::string& path);

/// --events FILE: one JSON object a line for everything that happens to the job, as
/// configs/events.schema.json has it. A line is appended with one write, so that several jobs may share a
/// file and `tail -f | jq` sees whole lines. What cannot be written is dropped: a full disk must not stop a
/// job.
class EventLog final : public Observer {
 public:
  /// `write` takes each line whole, with its '\n'. Writes job_started.
  EventLog(const Plan& plan, std::function<void(std::string_view line)> write);

  void round_begins(const membership::Round& round) override;
  void worker_spawned(const membership::Round& round, const WorkerOutcome& worker) override;
  void worker_exited(const membership::Round& round, const WorkerOutcome& worker) override;
  void stopping(const membership::Round& round, StopReason reason, const std::string& why) override;
  void generation_ended(const GenerationOutcome& outcome) override;
  void restarting(const membership::Restart& restart) override;
  void hang_found(const Hang& hang);
  void straggler_found(const Straggler& straggler);
  /// `report_file` is empty when there is none.
  void job_ended(const JobOutcome& outcome, const std::string& report_file);

 private:
  void write(const char* event, const nlohmann::ordered_json& fields);

  std::function<void(std::string_view line)> write_;
  std::string job_;
  std::string host_;
};

}  // namespace ddprun::launcher

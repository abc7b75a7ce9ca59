#pragma once

#include "launcher/agent/observer.h"
#include "launcher/plan.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <utility>

namespace ddprun::launcher {

/// --events FILE: one JSON object a line for everything that happens to the job, as
/// configs/events.schema.json has it. A line is appended with one write, so that several jobs may share a
/// file and `tail -f | jq` sees whole lines. What cannot be written is dropped: a full disk must not stop a
/// job.
class EventLog final : public Observer {
 public:
  /// Opens the file for appending and writes job_started. kUsage when it cannot be opened.
  static Result<EventLog> open(const Plan& plan);

  void generation_started(const RoundInfo& round) override;
  void worker_spawned(const RoundInfo& round, const WorkerOutcome& worker) override;
  void worker_exited(const RoundInfo& round, const WorkerOutcome& worker) override;
  void stopping(const RoundInfo& round, StopReason reason, const std::string& why) override;
  void generation_ended(const GenerationOutcome& outcome) override;
  void restarting(int next_restart_count, Duration delay) override;
  /// `report_file` is empty when there is none.
  void job_ended(const JobOutcome& outcome, const std::string& report_file);

 private:
  EventLog(UniqueFd file, std::string job, std::string host)
      : file_(std::move(file)), job_(std::move(job)), host_(std::move(host)) {}
  void write(const char* event, nlohmann::ordered_json fields);

  UniqueFd file_;
  std::string job_;
  std::string host_;
};

}  // namespace ddprun::launcher

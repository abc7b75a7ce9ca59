#pragma once

#include "launcher/plan/plan.h"
#include "launcher/report/observer.h"
#include "rendezvous/base/unique_fd.h"

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// What a launcher says of its job to whoever looks from this host (`ddprun ps`, with --watch as well, `drain`, `why`,
/// and the process that answers --metrics), whether it has workers at the moment or not.
struct PublishedJob {
  pid_t launcher = 0;  ///< as the launcher itself knows it, like those of the workers (pid namespaces)
  std::string tag;
  std::string run_id;
  /// "starting", "running", "stopping", "restarting", "ending"; "waiting": for the other nodes
  std::string phase;
  std::string awaits{};  ///< before a round: "1 of 2 nodes are here: …"; empty: nobody
  int local_world_size = 0;
  int world_size = 0;  ///< 0 before the first round
  int restart_count = 0;
  int restarts_used = 0;
  int max_restarts = 0;
  int base_rank = 0;
  std::string log_dir;         ///< <log_dir>/attempt_N of this generation; empty: none
  std::vector<pid_t> workers;  ///< by local rank; 0: not started, or ended
};

/// The workers' pids in columns of one width, so that one can be changed in its place, and then JSON.
std::string to_text(const PublishedJob& state);

/// Nullopt: it is something else, or was read while it was being written.
std::optional<PublishedJob> parse_job_state(std::string_view text);

/// Keeps the state in a memfd, which `ps` opens through /proc/<launcher>/fd: it has no name anywhere, and is
/// gone with the process, however that ends. Nobody is waited for. Without a memfd it does nothing.
class JobStatePublisher final : public Observer {
 public:
  explicit JobStatePublisher(const Plan& plan);

  void waiting(const std::string& text) override;
  void round_begins(const membership::Round& round) override;
  void worker_spawned(const membership::Round& round, const WorkerOutcome& worker) override;
  void worker_exited(const membership::Round& round, const WorkerOutcome& worker) override;
  void stopping(const membership::Round& round, StopReason reason, const std::string& why) override;
  void generation_ended(const GenerationOutcome& outcome) override;
  void restarting(const membership::Restart& restart) override;

 private:
  void publish(std::string phase);
  void publish_worker(LocalRank local_rank, pid_t pid);

  const Plan& plan_;
  PublishedJob state_;
  UniqueFd file_;
};

/// The text that the process `pid` publishes; empty if there is none, or it may not be read.
std::string read_job_state(pid_t pid);

}  // namespace ddprun::launcher

#pragma once

#include "launcher/cleanup/guard.h"
#include "launcher/cleanup/job_cgroup.h"
#include "launcher/cleanup/job_sweep.h"
#include "launcher/cleanup/leftovers.h"
#include "launcher/output/output.h"
#include "launcher/plan/plan.h"
#include "launcher/process/lifeline.h"
#include "launcher/process/spawn.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/result.h"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace ddprun::launcher {

/// Sees to it that nothing of the job outlives it: marks every worker so that its family can be found, keeps
/// two guards for the day the launcher is killed, reaps the orphans that become ours, and ends what the
/// workers of a generation left behind.
///
/// Threads  none: the io_context's one thread. Workers are not reaped here: each one's exit is told by its
///          own pidfd, in order, for the order tells cause from consequence.
class OrphanWatch {
 public:
  /// Makes this process a subreaper and starts the guards: before any descriptor is open that they should
  /// not hold, and before the first worker. Errors kOs. `output` and `logger` outlive it.
  static Result<std::unique_ptr<OrphanWatch>> start(boost::asio::io_context& io, const Plan& plan,
                                                    JobOutput& output, Logger& logger);

  /// From now on the kernel sends the workers' OS process groups SIGTERM when this process dies (lifeline.h).
  void tie_workers() { lifeline_ = Lifeline::make(); }

  /// Adds what a worker and its family will be found by.
  void mark(SpawnRequest& request);
  void worker_started(pid_t pid);
  /// The worker was reaped.
  void worker_ended(pid_t pid);

  /// Until when workers may live, whatever this process does until then; TimePoint::max(): for ever, or there
  /// are none.
  void hold_lease(TimePoint until) { guards_->hold_lease(until); }

  /// SIGCHLD came: reaps what is not a worker, and replaces a guard that was killed.
  void reap();
  /// Called each time `reap` has ended.
  void set_on_reaped(std::function<void()> on_reaped) { on_reaped_ = std::move(on_reaped); }

  /// The generation is over: removes what PyTorch in its processes left in /dev/shm (shm_files.h).
  void remove_segments();

  /// Ends what the workers left behind; those that have not ended themselves are spared, given up as stuck.
  /// `on_done` is never called from within.
  void sweep(SweepMode mode, std::function<void(Leftovers)> on_done);
  /// Nothing runs any more.
  void close() { gate_.close(); }

 private:
  OrphanWatch(boost::asio::io_context& io, JobOutput& output, Logger& logger)
      : io_(io), output_(output), logger_(logger), leftovers_(io) {}
  void replace_guard(pid_t pid);

  boost::asio::io_context& io_;
  JobOutput& output_;
  Logger& logger_;
  std::optional<JobCgroup> cgroup_;
  std::optional<Lifeline> lifeline_;
  JobMarks marks_;           // its sessions are those of this generation's workers
  std::set<pid_t> running_;  // workers that have not been reaped
  std::optional<GuardPair> guards_;
  LeftoverSweep leftovers_;
  bool reap_again_ = false;
  std::function<void()> on_reaped_;
  Gate gate_;
};

}  // namespace ddprun::launcher

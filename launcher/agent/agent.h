#pragma once

#include "launcher/output/output.h"
#include "launcher/plan/plan.h"
#include "launcher/report/look_desk.h"
#include "launcher/report/observer.h"
#include "launcher/report/outcome.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/signals.h"

#include <boost/asio/io_context.hpp>
#include <sys/resource.h>

#include <functional>

namespace ddprun::launcher {

/// What `ddprun drain` sends along with SIGTERM, so that the launcher knows that the whole job is meant:
/// "drn".
inline constexpr int kDrainValue = 0x64726e;

/// What the agent needs from outside. All references outlive the call.
struct AgentDeps {
  boost::asio::io_context& io;
  SignalSource& signals;  ///< of agent_signals; started and, unless there is an error, closed by the agent
  JobOutput& output;
  Logger& logger;
  rlimit open_files;  ///< RLIMIT_NOFILE of the workers: what it was before it was raised for us
  Observer& observer;
  /// Makes the workers of a generation; `worker_specs` of plan.h, or a test's own.
  std::function<std::vector<WorkerSpec>(const Plan&, const membership::Round&)> worker_specs;
  /// What is known of a failed worker's end, for the other nodes.
  std::function<membership::Account(const WorkerOutcome&)> account_of;
  /// Why that rank was killed for its want of progress, by who watches for it; empty: it was not. Null: nobody watches.
  std::function<HangEnd(Rank)> hang_of{};
  /// The job is over: says so through `output`, for which the agent then waits, in bounds.
  std::function<void(const JobOutcome&)> on_end;
  /// `lost_output` is known as well: the last that is to be said.
  std::function<void(const JobOutcome&)> on_output_done;
  /// Opened and closed by the agent; null: `ddprun why` and `ps --watch` see this node alone.
  LookDesk* looks = nullptr;
};

/// Runs the job on this node to its end: opens the store, starts the guard and the workers, passes their
/// output on, stops the group when one fails, restarts it within the budget, and leaves no process behind.
///
/// Blocks   until the job is over. One io_context, on the caller's thread.
/// Threads  beside it: those that write files (FileWriter, FilesBeside) and that look up names (NameLookup), which end
///          before it returns or are left to a file system or name server that does not answer.
/// Polling  none while a job runs, but at most ten times a second whether a worker has a handler by now, for a SIGUSR1
///          or SIGUSR2 that came before it; and whether somebody is left in the OS process group of a worker that was
///          asked to end and has ended.
/// Process  makes it a subreaper. Call it once, from a process without other threads or children.
/// Output   all through `output`: never blocks on a console or a file; of `logger` only the level is used.
/// Errors   only what prevents a job from being attempted at all: the store's port is taken (kUnavailable),
///          the log directory cannot be made (kConfig), no guard can be started (kOs). Everything after that
///          is an outcome.
Result<JobOutcome> run_agent(const Plan& plan, const AgentDeps& deps);

}  // namespace ddprun::launcher

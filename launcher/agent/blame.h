#pragma once

#include "launcher/report/outcome.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/exit_status.h"
#include "rendezvous/base/ids.h"

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>

namespace ddprun::launcher {

/// One worker of the current generation, as the supervisor sees it.
struct SupervisedWorker : WorkerFate {
  Rank rank{};
  pid_t pid = 0;  ///< 0: not spawned
  bool is_alive = false;
  std::optional<ExitStatus> status;
  std::optional<int> asked_with;  ///< the signal we sent it before SIGKILL
  TimePoint started_at{};         ///< of the events, as is `ended_at`; the process's own are WorkerOutcome's
  TimePoint ended_at{};
};

/// "rank 2 (pid 4711)"; without the pid of one that was not spawned.
std::string name_of(const SupervisedWorker& worker);

/// "rank 2 (pid 4711) exited with code 1 after 3.2 s: lost a peer (…)" of one that has ended.
std::string describe_end(const SupervisedWorker& ended);

/// "rank 0 (pid 4710) left with exit code 0 after 3.2 s, while others waited for it" of one that has.
std::string describe_leaving(const SupervisedWorker& left);

/// "rank 0 (pid 4710) was stopped by a signal (SIGSTOP), while others waited for it" of one that was.
std::string describe_standstill(const SupervisedWorker& suspended);

/// Whether it was stopped by a signal when others lost it, and has not failed of its own doing since.
bool stood_still(const SupervisedWorker& worker);

/// Whether one of them failed because a peer was silent for too long.
bool has_waited_in_vain(std::span<const SupervisedWorker> workers);

/// Whether all of them ended with 0, and none of them because of us.
bool have_succeeded_unasked(std::span<const SupervisedWorker> workers);

/// Whom of a generation's workers to blame for its end, and what for.
struct Blame {
  LocalRank guilty;
  std::string why;
  std::optional<int> exit_code{};     ///< of the job; none: as it was, because `guilty` got our signal first
  std::optional<LocalRank> victim{};  ///< of one that left or stood still: who lost it, and how the job ends
};

// Pure; `workers` stand by local rank, and those that have no status yet say nothing.
//
//   a cause          before a doubt before a symptom; of two of a kind what failed first
//   all symptoms     who left with 0 is to blame, the last to do so before the first failed; else, where one waited in
//                    vain, who stood still, stopped by a signal; else who left first after it

/// The first judgement, made before any worker is stopped. At least one has failed.
Blame blame(std::span<const SupervisedWorker> workers);

/// The judgement when another node's failure stops the group; nullopt: none has ended here yet, or stands still. Who
/// left with 0 first, or stands still, may be whom the other node lost.
std::optional<Blame> blame_until_now(std::span<const SupervisedWorker> workers);

/// The judgement after `ended`, one more, while the group is being stopped; nullopt where it stays as it was.
/// No `root`: another node's failure stopped the group. That may be a symptom of ours; who has seen both
/// decides.
std::optional<Blame> reconsider(std::span<const SupervisedWorker> workers, std::optional<LocalRank> root,
                                LocalRank ended);

}  // namespace ddprun::launcher

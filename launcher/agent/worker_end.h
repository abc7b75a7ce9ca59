#pragma once

#include "launcher/agent/blame.h"
#include "launcher/report/error_file.h"
#include "launcher/report/outcome.h"
#include "rendezvous/base/exit_status.h"

#include <optional>
#include <vector>

namespace ddprun::launcher {

// What a worker ended of: what its process and its words tell, with what we did to it. Pure.

/// The last of our signals that can have come before it ended like that: who gets SIGKILL ends by nothing
/// else.
std::optional<int> signal_before(const SupervisedWorker& worker, const ExitStatus& status);

/// Sets `worker.stopped_with`: the last of our signals, by `seen`, unless the worker was leaving already.
void note_our_part(WorkerOutcome& worker, const SupervisedWorker& seen);

/// Of a worker that has a status and whose `stopped_with` is set. `final_codes` are those of --no-restart-exit-codes.
Ending ending_of(const WorkerOutcome& worker, const std::optional<ErrorFile>& error_file,
                 const std::vector<int>& final_codes);

}  // namespace ddprun::launcher

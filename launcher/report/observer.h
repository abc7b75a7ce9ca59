#pragma once

#include "launcher/plan/plan.h"
#include "launcher/report/outcome.h"
#include "rendezvous/membership/types.h"

#include <string>

namespace ddprun::launcher {

/// Told what happens to a job, as it happens, on the agent's thread: --events, `ddprun ps` and the reports
/// hang here. Calls must be quick and must not throw; every method does nothing unless overridden.
class Observer {
 public:
  virtual ~Observer() = default;

  /// No round yet: who is there and who is waited for, for people.
  virtual void waiting(const std::string& text) { static_cast<void>(text); }
  /// The store is open and the workers of `round` are about to be started.
  virtual void round_begins(const membership::Round& round) { static_cast<void>(round); }
  virtual void worker_spawned(const membership::Round& round, const WorkerOutcome& worker) {
    static_cast<void>(round), static_cast<void>(worker);
  }
  virtual void worker_exited(const membership::Round& round, const WorkerOutcome& worker) {
    static_cast<void>(round), static_cast<void>(worker);
  }
  /// The group is being stopped; `why` is the sentence of GenerationOutcome.
  virtual void stopping(const membership::Round& round, StopReason reason, const std::string& why) {
    static_cast<void>(round), static_cast<void>(reason), static_cast<void>(why);
  }
  virtual void generation_ended(const GenerationOutcome& outcome) { static_cast<void>(outcome); }
  /// A new generation begins after `restart.delay`, which begins now.
  virtual void restarting(const membership::Restart& restart) { static_cast<void>(restart); }
};

}  // namespace ddprun::launcher

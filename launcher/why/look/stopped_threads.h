#pragma once

#include "launcher/why/facts/facts.h"

#include <sys/types.h>

#include <chrono>
#include <vector>

namespace ddprun::launcher::why {

using SteadyTime = std::chrono::steady_clock::time_point;

/// Stops threads of another process by ptrace and lets them go on, as often as is asked. Those that a stop would harm
/// are left alone.
class StoppedThreads {
 public:
  explicit StoppedThreads(pid_t pid) : pid_(pid) {}
  /// Who was asked and stops late is let go as soon as it does. One that was seized and then began what a stop would
  /// end is let go by a stop in a later moment: the kernel lets go of nobody that runs.
  ~StoppedThreads();
  StoppedThreads(const StoppedThreads&) = delete;
  StoppedThreads& operator=(const StoppedThreads&) = delete;

  /// Waits until the process may be stopped and its main thread bears it: one that asks and sleeps by turns, as a rank
  /// does that waits for a key of the store, is in recvfrom(2) now and then. Where there is no such moment the others'
  /// stacks are had without the main thread's. False: it may not be stopped at all.
  bool await_calm(SteadyTime deadline);
  /// Those of `look` that have stopped within 30 ms are in tids() then.
  void stop(const ProcessLook& look);
  /// Who has not stopped yet stays asked.
  void release();

  /// The main thread first: there may be no time for all.
  [[nodiscard]] std::vector<pid_t> tids() const;
  /// Why a thread could not be seized; 0: each could.
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] SteadyTime began() const { return began_; }

 private:
  struct Stop {
    pid_t tid = 0;
    long signal = 0;
  };

  void ask();
  void collect();
  [[nodiscard]] bool is_stopped(pid_t tid) const;
  bool has_stopped(pid_t tid);

  pid_t pid_;
  SteadyTime began_;
  bool is_meant_ = false;  ///< nobody else has the number by now
  std::vector<pid_t> seized_;
  std::vector<pid_t> asked_;  ///< of those that are seized
  std::vector<Stop> stopped_;
  int error_ = 0;
};

}  // namespace ddprun::launcher::why

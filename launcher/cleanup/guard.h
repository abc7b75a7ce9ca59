#pragma once

#include "launcher/cleanup/guard_board.h"
#include "launcher/cleanup/job_sweep.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <set>
#include <utility>

namespace ddprun::launcher {

/// A small process that outlives the launcher by a moment. When the launcher dies without a word (SIGKILL,
/// the out-of-memory killer), it ends everything that belongs to the job, as sweep_job says. While the
/// launcher lives but does nothing (SIGSTOP, a write to a disk that hangs), it keeps the lease: at its end,
/// by CLOCK_BOOTTIME, it kills what belongs to the job, as kill_job says, again and again until the launcher
/// has said something new.
///
/// Process  a fork of the launcher in a session of its own, with no descriptor but those to watch by; no
///          signal but SIGKILL ends it. It is called "job-guard" everywhere, so that what kills ddprun, the
///          job or its program by name does not kill it.
/// Deputy   when the launcher or the other guard is killed, whoever does that may have a list of us: before
///          anything else a guard leaves a copy of itself behind, which takes over if the guard is killed
///          next.
/// Owner    `Guard` kills and reaps it; the owner starts another one when it finds it dead (`pid` was
///          reaped).
/// Limits   it kills what it may: processes of another user are left to init.
class Guard {
 public:
  /// Guard number `index` of those on the board, which outlives this object. Errors kOs.
  static Result<Guard> start(GuardBoard& board, std::size_t index, const JobMarks& marks);

  Guard(Guard&& other) noexcept;
  Guard& operator=(Guard&& other) noexcept;
  ~Guard();

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// There is something new on the board: a lease where there was none, another guard.
  void nudge() const;
  /// The process was reaped by its owner.
  void forget() { pid_ = 0; }

 private:
  Guard(pid_t pid, UniqueFd nudge) : pid_(pid), nudge_(std::move(nudge)) {}
  void end();

  pid_t pid_ = 0;
  UniqueFd nudge_;
};

/// Two guards and what they know, so that whoever kills one of them and the launcher at the same moment still
/// meets the other.
class GuardPair {
 public:
  static Result<GuardPair> start(GuardBoard board, const JobMarks& marks);

  GuardPair(GuardPair&&) = default;
  GuardPair& operator=(GuardPair&&) = delete;
  /// The job is over, and nothing of it is left.
  ~GuardPair();

  [[nodiscard]] bool has(pid_t pid) const;
  /// For SpawnRequest.
  [[nodiscard]] GuardBoard::Session* free_session() { return board_->free_session(); }
  void end_session(pid_t session) { board_->end_session(session); }
  void note_ended(pid_t pid) { board_->note_ended(pid); }
  void forget_ended() { board_->forget_ended(); }
  [[nodiscard]] std::set<pid_t> makers() const { return board_->makers(); }
  /// Until when workers may live; TimePoint::max(): as long as they like, or there are none.
  void hold_lease(TimePoint until);
  /// The guard `pid` was killed and has been reaped: starts another in its place. Errors kOs.
  Result<void> replace(pid_t pid, const JobMarks& marks);

 private:
  using Guards = std::array<Guard, GuardBoard::kGuards>;
  GuardPair(std::unique_ptr<GuardBoard> board, Guards guards)
      : board_(std::move(board)), guards_(std::move(guards)) {}

  std::unique_ptr<GuardBoard> board_;
  Guards guards_;
};

}  // namespace ddprun::launcher

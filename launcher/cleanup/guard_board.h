#pragma once

#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>

namespace ddprun::launcher {

/// What a launcher and its guards both know: memory that they share, so that telling never blocks, nothing
/// told is ever lost, and only the newest counts. It is there as long as one of them is, and a worker writes
/// into it before its program runs.
///
/// Threads  each fact is one atomic word. The launcher writes, but for `set_swept`, which is a guard's, and for a
///          session, into which its worker writes.
class GuardBoard {
 public:
  static constexpr std::size_t kGuards = 2;
  /// Where a worker puts its pid, which is its session; 0: free.
  using Session = std::atomic<pid_t>;
  /// Those who are no workers, and have ended, are remembered up to this many: the newest. Of the workers all are,
  /// each of which ends once before what it made is removed.
  static constexpr std::size_t kMostEnded = 4096;

  /// With room for the sessions of `workers`. Errors kOs.
  static Result<GuardBoard> make(std::size_t workers);

  /// A free place.
  [[nodiscard]] Session* free_session();
  /// The worker is about to be reaped or has been: the number may soon be somebody else's.
  void end_session(pid_t session);
  [[nodiscard]] std::set<pid_t> sessions() const;

  /// A process of the job has ended, and what it made in /dev/shm (shm_files.h) may still be there. So it is
  /// with a worker from `end_session` on.
  void note_ended(pid_t pid);
  /// What they made has been removed.
  void forget_ended();
  /// By whom there may be something in /dev/shm: the workers, and who has ended.
  [[nodiscard]] std::set<pid_t> makers() const;

  /// Until when workers may live; TimePoint::max(): no lease, or no workers.
  void set_lease(TimePoint until) { page_->lease = until.time_since_epoch().count(); }
  [[nodiscard]] TimePoint lease() const { return TimePoint(Duration(page_->lease.load())); }

  void set_guard(std::size_t index, pid_t pid) { page_->guards[index] = pid; }
  [[nodiscard]] pid_t guard(std::size_t index) const { return page_->guards[index]; }

  /// The launcher ends as it should, and leaves nothing to a guard.
  void set_over() { page_->is_over = true; }
  [[nodiscard]] bool is_over() const { return page_->is_over; }
  /// A guard has swept the job to its end.
  void set_swept() { page_->is_swept = true; }
  [[nodiscard]] bool is_swept() const { return page_->is_swept; }

 private:
  struct Page {
    std::atomic<std::int64_t> lease{TimePoint::max().time_since_epoch().count()};
    std::array<std::atomic<pid_t>, kGuards> guards{};
    std::atomic<bool> is_over{false};
    std::atomic<bool> is_swept{false};
  };
  static_assert(std::atomic<std::int64_t>::is_always_lock_free && Session::is_always_lock_free);

  struct Unmap {
    std::size_t bytes = 0;
    void operator()(void* memory) const;
  };
  GuardBoard(std::unique_ptr<void, Unmap> memory, std::size_t workers);

  std::unique_ptr<void, Unmap> memory_;
  Page* page_;
  std::span<Session> sessions_;
  std::span<std::atomic<pid_t>> ended_;  // two rings: of workers, and behind it of others
  std::size_t next_worker_ = 0;          // both are the launcher's alone
  std::size_t next_other_ = 0;
};

}  // namespace ddprun::launcher

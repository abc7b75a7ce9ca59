#pragma once

#include "rendezvous/base/clock.h"
#include "worker/runtime/comm/shm/segment.h"

#include <atomic>
#include <memory>
#include <vector>

namespace ddprun::runtime::shm {

/// How a wait at a barrier ended.
enum class WaitEnd {
  kOpen,      ///< every rank has arrived, and none of them has given this barrier up
  kGaveUp,    ///< the caller's patience is over; it may wait again
  kTimedOut,  ///< the deadline passed
  kPeerDied,  ///< a rank that has not arrived has ended
  kPeerLeft,  ///< a rank that has not arrived has left the group
  kFailed,    ///< some rank has ended the group: segment.failure()
  kAborted,   ///< abort() was called
};

/// One rank's place at the barriers of a group.
///
/// A barrier is a ticket number. A rank arrives by storing the number in a line of its own and waits until
/// all lines hold it: first by reading them over and over, then asleep on one word of the segment. Whoever
/// arrives last and sees that somebody sleeps wakes them all, so that a barrier costs no system call while
/// all ranks are awake and one wake-up for each rank when they are not. A rank does not spin for one that
/// needs the same processor. One that is woken on a peer's moves to another of those that it may use, if these
/// are enough for all ranks (and at most 1024).
///
/// What a rank wrote before arrive() is seen by every rank whose wait() said kOpen.
/// Threads: one at a time, but for abort().
class Barrier {
 public:
  Barrier(std::shared_ptr<Segment> segment, int rank);

  /// The line that the next arrive() publishes; the caller fills everything but the ticket.
  [[nodiscard]] Post& next_post() { return segment_->post(rank_, ticket_ + 1); }
  [[nodiscard]] std::uint64_t ticket() const { return ticket_; }
  /// The first barrier that no wait() of this rank has found open.
  [[nodiscard]] std::uint64_t first_not_passed() const { return passed_ + 1; }

  /// Arrives at the next barrier. May wake others, never waits.
  void arrive();

  /// Waits for the others at the barrier last arrived at. `patience` bounds the wait without failing it.
  WaitEnd wait(TimePoint deadline, Duration patience = Duration::max());

  /// The ranks that have not arrived; after a wait that did not end with kOpen.
  [[nodiscard]] std::vector<int> missing() const;
  /// Of those, the ones that are dead / have left.
  [[nodiscard]] std::vector<int> dead();
  [[nodiscard]] std::vector<int> left() const;

  /// Ends waits of this rank, now and from now on. Any thread.
  void abort();
  /// Wakes all who sleep in the group, to look at the segment's state again. Any thread.
  static void wake_everyone(const Segment& segment);

 private:
  [[nodiscard]] bool has_arrived(int rank) const {
    return segment_->post(rank, ticket_).ticket.load(std::memory_order_acquire) >= ticket_;
  }
  [[nodiscard]] bool have_all_arrived() const;
  WaitEnd pass();
  void tell_cpu();
  [[nodiscard]] bool shares_cpu_with(int first_missing) const;
  void leave_peers_cpu();
  [[nodiscard]] bool spin(Duration at_most) const;
  WaitEnd sleep(TimePoint deadline, TimePoint give_up);

  std::shared_ptr<Segment> segment_;
  int rank_;
  int size_;
  bool has_a_cpu_each_;
  Duration spin_time_;
  std::uint64_t ticket_ = 0;
  std::uint64_t passed_ = 0;
  PeerWatch watch_;
  std::atomic<bool> is_aborted_{false};
};

}  // namespace ddprun::runtime::shm

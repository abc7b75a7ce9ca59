#pragma once

#include "worker/runtime/comm/shm/barrier.h"
#include "worker/runtime/comm/shm/collective.h"
#include "worker/runtime/comm/shm/segment.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::runtime::shm {

/// One rank's membership in the ranks that share a segment.
///
/// Collectives run one after the other, in the same order on every rank. Each has a gate, the barrier at
/// which all ranks must come with the same description; a difference is an error on every rank before
/// anything is written. An error ends the group: every rank gets it, or one that quotes it, in this and in
/// all further collectives.
///
/// Slots come in two buffers. What is written into a buffer before one barrier and read after it may be
/// overwritten after the next barrier; collectives call next_buffer() between uses and so never wait for
/// readers. Threads: one at a time, but for abort().
class Group {
 public:
  /// Tells the others that this rank is here, and waits for them: kTimeout names those that did not come.
  static Result<std::unique_ptr<Group>> join(std::shared_ptr<Segment> segment, int rank, Duration timeout);
  /// Says that this rank has left: whoever then waits for it gets an error at once.
  ~Group();

  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // ---- for those who run collectives

  /// Runs one from beginning to end.
  Result<void> run(Collective& collective, Duration timeout);

  /// The same in three steps. start() never waits.
  void start(Collective& collective, Duration timeout);
  /// True when all ranks have come, false when `patience` is over first.
  Result<bool> wait_at_gate(Duration patience);
  Result<void> finish(Collective& collective);

  /// Number of collectives begun, as `ddprun why` counts them: the parts of one are none of their own.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  /// Makes this rank's waits end, now and for good. Any thread.
  void abort() { barrier_.abort(); }
  /// Ends the group for every rank with `error`, unless it has ended already.
  void fail(const Error& error);

  // ---- for collectives

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] Segment& segment() const { return *segment_; }
  [[nodiscard]] std::size_t slot_bytes() const { return segment_->shape().slot_bytes; }
  /// The part of a slot for each rank, when a slot holds one for every rank: whole cache lines.
  [[nodiscard]] std::size_t part_bytes() const {
    return slot_bytes() / static_cast<std::size_t>(size_) / kCacheLine * kCacheLine;
  }
  /// The slot of a rank in the current buffer. Slots of a buffer lie side by side.
  [[nodiscard]] std::byte* slot(int rank) const { return segment_->slot(buffer_, rank); }
  void next_buffer() { buffer_ ^= 1; }
  /// What `rank` posted at the gate; until this rank arrives at the next barrier.
  [[nodiscard]] const Post& posted(int rank) const { return segment_->post(rank, gate_); }
  /// Row of counts to fill in contribute(), and those of the peers, readable like posted().
  [[nodiscard]] std::uint64_t* my_counts() { return segment_->counts(rank_, barrier_.ticket() + 1); }
  [[nodiscard]] const std::uint64_t* counts_of(int rank) const { return segment_->counts(rank, gate_); }
  /// Meets all ranks once more.
  Result<void> barrier();
  /// Runs another collective, gate and all, as a part of the one that runs; with the same timeout.
  Result<void> run_nested(Collective& collective) {
    --sequence_;
    return run(collective, timeout_);
  }
  /// "all-reduce (sum) of float32[64] (operation 12)": the collective that runs.
  [[nodiscard]] std::string operation() const;

 private:
  Group(std::shared_ptr<Segment> segment, int rank);

  Result<void> check_agreement();
  Error explain(WaitEnd end);
  /// Ends the group for every rank with `error`; false if it had ended.
  bool tell(const Error& error);
  Error failure_of_group() const;

  std::shared_ptr<Segment> segment_;
  int rank_;
  int size_;
  Barrier barrier_;
  int buffer_ = 0;
  std::uint64_t gate_ = 0;
  std::uint64_t sequence_ = 0;
  Description current_;
  Duration timeout_{};
  TimePoint deadline_ = TimePoint::max();
  std::optional<Error> end_;  ///< why this rank takes no further part
};

}  // namespace ddprun::runtime::shm

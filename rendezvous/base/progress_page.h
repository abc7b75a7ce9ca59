#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ddprun {

/// A text in words that are read while they may be written; filled up with zeros.
template <std::size_t Words>
using SharedText = std::array<std::atomic<std::uint64_t>, Words>;

/// A collective, or a message, that a rank has begun.
struct alignas(64) CollectiveLine {
  static constexpr std::uint64_t kBeingWritten = ~std::uint64_t{0};  ///< for id

  std::atomic<std::uint64_t> id;         ///< from 1, of all that this rank has begun; 0: there is none
  std::atomic<std::int64_t> sequence;    ///< in its group, from 1
  std::atomic<std::int64_t> entered_ns;  ///< CLOCK_REALTIME, true to a few milliseconds
  std::atomic<std::int64_t> elements;    ///< of this rank's tensor; 0: it has none
  SharedText<2> operation;               ///< "all_reduce"
  std::atomic<std::int16_t> dtype;       ///< of c10::ScalarType
  std::atomic<std::uint16_t> group;      ///< which of ProgressPage::groups
  std::atomic<std::int32_t> peer;        ///< a message's other rank in the group; kAnyPeer, kNoPeer
  std::atomic<std::uint32_t> pending;  ///< 0: it has ended; else a number that the next of this line has not
};
static_assert(sizeof(CollectiveLine) == 64);

/// What a rank tells of itself while it runs: the page of memory that it shares with whoever looks at it, its
/// launcher's `ddprun why` and `ddprun ps --watch` first. Writing needs no system call and no lock.
///
/// It is a memfd of this size that cannot shrink, which the rank has mapped and keeps open: found by its name among the
/// rank's descriptors, for which no debugger's rights are needed.
struct ProgressPage {
  static constexpr const char* kName = "ddprun-progress";
  static constexpr std::uint64_t kMagic = 0x3267'7070'7264'6464;  // another layout has another
  static constexpr std::int64_t kNoStep = -1;
  static constexpr std::int32_t kNoPeer = -1;
  static constexpr std::int32_t kAnyPeer = -2;
  static constexpr std::size_t kGroups = 32;  ///< at a time; of more nothing is told
  static constexpr std::size_t kLines = 64;   ///< the line of id n is n % kLines

  std::atomic<std::uint64_t> magic;  ///< stored last
  std::atomic<std::int64_t> step;
  std::atomic<std::uint64_t> beats;           ///< grows with every step, phase and sign of progress
  std::atomic<std::uint64_t> begun;           ///< collectives and messages
  SharedText<4> phase;                        ///< "evaluates"; empty: not told
  std::array<SharedText<8>, kGroups> groups;  ///< that the rank is in; empty: there is none of that number
  std::array<CollectiveLine, kLines> lines;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // another process reads it

}  // namespace ddprun

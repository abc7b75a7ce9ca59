#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"
#include "worker/runtime/comm/shm/description.h"
#include "worker/runtime/comm/shm/peer_watch.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ddprun::runtime::shm {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr int kMaxRanks = 256;
inline constexpr std::size_t kKiB = std::size_t{1} << 10U;
inline constexpr std::size_t kGiB = std::size_t{1} << 30U;

/// The sizes of a segment; the same for every rank.
struct SegmentShape {
  int size = 1;                           ///< ranks, 1…kMaxRanks
  std::size_t slot_bytes = 256 * kKiB;    ///< per rank and buffer: larger data goes through in chunks
  std::size_t channel_bytes = 64 * kKiB;  ///< per ordered pair of ranks that send to each other
  std::size_t arena_bytes = 16 * kGiB;    ///< per rank, for buckets: address space, memory only when used
};

/// Where a segment is found by the other processes of this host: no name in any file system.
struct SegmentAddress {
  std::string host;       ///< host_key() of the creator
  ProcessIdentity owner;  ///< the creator
  int fd = -1;            ///< number in the creator
  std::uint64_t nonce = 0;

  /// One line, for the store.
  [[nodiscard]] std::string to_text() const;
  static Result<SegmentAddress> parse(const std::string& text);
};

/// What a rank says when it arrives at a barrier: one cache line, which every peer reads.
/// There are two per rank, used in turn: a rank may fill the one for ticket t + 1 while peers still read
/// ticket t's.
struct alignas(kCacheLine) Post {
  static constexpr std::size_t kPayloadBytes = 32;

  std::atomic<std::uint64_t> ticket;  ///< number of the barrier arrived at; stored last
  std::uint64_t key;                  ///< Description::key()
  std::uint64_t count;
  std::uint32_t shape_hash;
  std::uint32_t flags;  ///< the collective's own
  std::array<std::byte, kPayloadBytes> payload;
};
static_assert(sizeof(Post) == kCacheLine);

/// What a rank is, for the others.
struct alignas(kCacheLine) RankState {
  enum : std::uint32_t { kAbsent, kJoined, kLeft };

  std::atomic<std::uint32_t> state;
  std::int32_t pid;
  std::uint64_t start_time;
  /// Where the rank ran when it last arrived at a barrier.
  std::atomic<std::int32_t> cpu;
  /// Bumped by peers that put something into, or took something from, a channel of this rank.
  std::atomic<std::uint32_t> channel_event;
  std::atomic<std::uint32_t> waits_for_channels;
};

/// Why the group ended, as one rank tells it.
struct Failure {
  static constexpr std::size_t kTextBytes = 1000;

  std::int32_t code;
  std::uint64_t barrier;  ///< the first that the rank has not passed; all before it are as they were
  std::array<char, kTextBytes> text;  ///< ends with 0; cut between two characters
};

/// Words that ranks sleep on, apart from the rest so that nobody who spins reads them.
struct alignas(kCacheLine) SleepState {
  std::atomic<std::uint32_t> sleepers;
  std::atomic<std::uint32_t> wake;
};

/// One direction between two ranks: a ring of bytes with one writer and one reader.
struct ChannelHeader {
  alignas(kCacheLine) std::atomic<std::uint64_t> written;
  alignas(kCacheLine) std::atomic<std::uint64_t> taken;
};

/// The memory all ranks of a group map: control words, slots for data on its way, channels, and one arena per
/// rank.
///
/// It is a memfd, opened by the others through /proc/<pid>/fd: it never has a name, is not limited by the
/// size of /dev/shm, and is gone when the last process that mapped it is. Control words and slots are backed
/// with memory at creation, rings and arenas when first used (reserve()), so that no access can end in
/// SIGBUS.
///
/// Threads  everything returned is shared; who may touch what when is barrier.h's and the collectives' contract.
class Segment {
 public:
  /// kOs when the kernel or a limit refuses, with the sizes and the limit.
  static Result<std::shared_ptr<Segment>> create(const SegmentShape& shape);
  /// kUnavailable from another host or pid namespace, or when the creator has ended.
  static Result<std::shared_ptr<Segment>> open(const SegmentAddress& address);

  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  [[nodiscard]] const SegmentShape& shape() const { return shape_; }
  [[nodiscard]] Result<SegmentAddress> address() const;

  [[nodiscard]] SleepState& sleep_state() const { return *at<SleepState>(layout_.sleep); }
  /// Why the group ended; nullptr while it has not.
  [[nodiscard]] const Failure* failure() const {
    const std::uint32_t teller = end_told_by().load(std::memory_order_acquire);
    return teller == 0 ? nullptr : &at<Failure>(layout_.failures)[teller - 1];
  }
  /// Ends the group with what `rank` tells; false if it had ended. Nobody ever sees half of it. One thread of a rank
  /// at a time.
  bool end_group(int rank, const Failure& failure) const;
  [[nodiscard]] RankState& rank_state(int rank) const { return at<RankState>(layout_.ranks)[rank]; }
  [[nodiscard]] Post& post(int rank, std::uint64_t ticket) const {
    return at<Post>(layout_.posts)[2 * static_cast<std::size_t>(rank) + (ticket & 1U)];
  }
  [[nodiscard]] Description& description(int rank, std::uint64_t ticket) const {
    return at<Description>(layout_.descriptions)[2 * static_cast<std::size_t>(rank) + (ticket & 1U)];
  }
  /// A row of 2 × `size` numbers for what differs from peer to peer.
  [[nodiscard]] std::uint64_t* counts(int rank, std::uint64_t ticket) const {
    return at<std::uint64_t>(layout_.counts) +
           (2 * static_cast<std::size_t>(rank) + (ticket & 1U)) * 2 * ranks();
  }
  /// The slots of buffer 0 or 1 lie side by side: slot r + 1 follows slot r.
  [[nodiscard]] std::byte* slot(int buffer, int rank) const {
    return at<std::byte>(layout_.slots) +
           (static_cast<std::size_t>(buffer) * ranks() + static_cast<std::size_t>(rank)) * shape_.slot_bytes;
  }
  [[nodiscard]] ChannelHeader& channel_header(int from, int to) const {
    return at<ChannelHeader>(layout_.channel_headers)[channel_index(from, to)];
  }
  [[nodiscard]] std::byte* channel_ring(int from, int to) const {
    return at<std::byte>(ring_offset(from, to));
  }
  /// Backs the ring with memory; before its first use, by its writer.
  Result<void> reserve_channel(int from, int to);

  [[nodiscard]] std::byte* arena(int rank) const {
    return at<std::byte>(layout_.arenas) + static_cast<std::size_t>(rank) * shape_.arena_bytes;
  }
  /// Backs a part of the rank's arena with memory.
  Result<void> reserve_arena(int rank, std::size_t offset, std::size_t bytes);

 private:
  struct Layout {
    std::size_t sleep, end_told_by, failures, ranks, posts, descriptions, counts, channel_headers, slots,
        rings, arenas, total;
  };

  Segment(const SegmentShape& shape, UniqueFd fd, std::byte* base, std::uint64_t nonce);
  static Layout lay_out(const SegmentShape& shape);
  static Result<std::shared_ptr<Segment>> map(const SegmentShape& shape, UniqueFd fd, std::uint64_t nonce);
  Result<void> back(std::size_t offset, std::size_t bytes);

  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(shape_.size); }
  /// 1 + the rank whose failure ended the group; 0 while none has. All of that failure is written before.
  [[nodiscard]] std::atomic<std::uint32_t>& end_told_by() const {
    return *at<std::atomic<std::uint32_t>>(layout_.end_told_by);
  }
  [[nodiscard]] std::size_t channel_index(int from, int to) const {
    return static_cast<std::size_t>(from) * ranks() + static_cast<std::size_t>(to);
  }
  [[nodiscard]] std::size_t ring_offset(int from, int to) const {
    return layout_.rings + channel_index(from, to) * shape_.channel_bytes;
  }
  template <class T>
  [[nodiscard]] T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

  SegmentShape shape_;
  Layout layout_;
  UniqueFd fd_;
  std::byte* base_;
  std::uint64_t nonce_;
};

}  // namespace ddprun::runtime::shm

#pragma once

#include "worker/runtime/comm/shm/segment.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace ddprun::runtime::shm {

/// Hands out pieces of one rank's arena in the segment: memory in which all-reduce works without copies.
/// Ranks begin at different offsets: their addresses would otherwise be equal in all the bits by which
/// first-level caches tell lines apart, and copies of one bucket would push each other out. First fit,
/// neighbours joined when freed; memory once backed stays with the arena. Threads: any.
class Arena {
 public:
  Arena(std::shared_ptr<Segment> segment, int rank);

  /// A piece of at least `bytes` bytes, aligned to a cache line; nullptr when the arena or the machine's
  /// memory is full.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  /// Takes back what allocate() returned.
  void free(std::byte* piece);
  /// Bytes handed out now.
  [[nodiscard]] std::size_t used() const;

 private:
  [[nodiscard]] bool back_up_to(std::size_t end);

  std::shared_ptr<Segment> segment_;
  int rank_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  ///< offset → bytes
  std::map<std::size_t, std::size_t> used_;  ///< offset → bytes
  std::size_t used_bytes_ = 0;
  std::size_t backed_ = 0;  ///< the arena has memory up to here
};

}  // namespace ddprun::runtime::shm

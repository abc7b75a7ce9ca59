#pragma once

#include "worker/runtime/comm/shm/segment.h"

#include <cstddef>
#include <span>

namespace ddprun::runtime::shm {

/// One direction between two ranks: a ring of bytes with one writer and one reader, each one thread at a
/// time.
class Channel {
 public:
  Channel(const Segment& segment, int from, int to)
      : header_(segment.channel_header(from, to)),
        ring_(segment.channel_ring(from, to)),
        capacity_(segment.shape().channel_bytes) {}

  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] std::size_t readable() const;
  [[nodiscard]] std::size_t writable() const { return capacity_ - readable(); }

  /// Copies in as much of `data` as fits; returns how much.
  std::size_t write(std::span<const std::byte> data);
  /// Copies out as much as there is and `data` holds; returns how much.
  std::size_t read(std::span<std::byte> data);
  /// Throws away at most `bytes`; returns how much.
  std::size_t skip(std::size_t bytes);

 private:
  ChannelHeader& header_;
  std::byte* ring_;
  std::size_t capacity_;
};

}  // namespace ddprun::runtime::shm

#include "worker/runtime/comm/shm/channel.h"

#include <algorithm>
#include <cstring>

namespace ddprun::runtime::shm {

std::size_t Channel::readable() const {
  return header_.written.load(std::memory_order_acquire) - header_.taken.load(std::memory_order_acquire);
}

std::size_t Channel::write(std::span<const std::byte> data) {
  const std::uint64_t written = header_.written.load(std::memory_order_relaxed);
  const std::size_t bytes = std::min(data.size(), writable());
  const std::size_t start = written % capacity_;
  const std::size_t first = std::min(bytes, capacity_ - start);
  if (first > 0) std::memcpy(ring_ + start, data.data(), first);
  if (bytes > first) std::memcpy(ring_, data.data() + first, bytes - first);
  header_.written.store(written + bytes, std::memory_order_release);
  return bytes;
}

std::size_t Channel::read(std::span<std::byte> data) {
  const std::uint64_t taken = header_.taken.load(std::memory_order_relaxed);
  const std::size_t bytes = std::min(data.size(), readable());
  const std::size_t start = taken % capacity_;
  const std::size_t first = std::min(bytes, capacity_ - start);
  if (first > 0) std::memcpy(data.data(), ring_ + start, first);
  if (bytes > first) std::memcpy(data.data() + first, ring_, bytes - first);
  header_.taken.store(taken + bytes, std::memory_order_release);
  return bytes;
}

std::size_t Channel::skip(std::size_t bytes) {
  const std::size_t skipped = std::min(bytes, readable());
  header_.taken.fetch_add(skipped, std::memory_order_release);
  return skipped;
}

}  // namespace ddprun::runtime::shm

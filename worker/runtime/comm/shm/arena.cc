#include "worker/runtime/comm/shm/arena.h"

#include "rendezvous/base/check.h"
#include "worker/runtime/comm/shm/round_up.h"

#include <algorithm>

namespace ddprun::runtime::shm {
namespace {

/// Memory is taken from the kernel in steps of a huge page.
constexpr std::size_t kStep = std::size_t{2} << 20U;

/// Another page and another cache set for every rank.
constexpr std::size_t kStagger = 3 * 4096 + 8 * kCacheLine;

}  // namespace

Arena::Arena(std::shared_ptr<Segment> segment, int rank) : segment_(std::move(segment)), rank_(rank) {
  const std::size_t begin = static_cast<std::size_t>(rank) * kStagger;
  if (const std::size_t bytes = segment_->shape().arena_bytes; bytes > begin) free_[begin] = bytes - begin;
}

std::byte* Arena::allocate(std::size_t bytes) {
  const std::size_t wanted = round_up(std::max<std::size_t>(bytes, 1), kCacheLine);
  const std::lock_guard lock(mutex_);
  const auto fit =
      std::find_if(free_.begin(), free_.end(), [&](const auto& piece) { return piece.second >= wanted; });
  if (fit == free_.end()) return nullptr;
  const auto [offset, available] = *fit;
  if (!back_up_to(offset + wanted)) return nullptr;
  free_.erase(fit);
  if (available > wanted) free_[offset + wanted] = available - wanted;
  used_[offset] = wanted;
  used_bytes_ += wanted;
  return segment_->arena(rank_) + offset;
}

bool Arena::back_up_to(std::size_t end) {
  if (end <= backed_) return true;
  const std::size_t to = std::min(round_up(end, kStep), segment_->shape().arena_bytes);
  if (!segment_->reserve_arena(rank_, backed_, to - backed_)) return false;
  backed_ = to;
  return true;
}

void Arena::free(std::byte* piece) {
  const std::lock_guard lock(mutex_);
  const auto used = used_.find(static_cast<std::size_t>(piece - segment_->arena(rank_)));
  DDPRUN_CHECK(used != used_.end(), "only what was allocated is freed, once");
  auto [offset, bytes] = *used;
  used_.erase(used);
  used_bytes_ -= bytes;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

std::size_t Arena::used() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

}  // namespace ddprun::runtime::shm

#include "worker/runtime/comm/shm/broadcast.h"

#include "worker/runtime/comm/shm/group.h"

#include <algorithm>
#include <cstring>

namespace ddprun::runtime::shm {

void Broadcast::contribute(Group& group, Post& post) {
  if (group.rank() != what_.root || bytes_ == 0) return;
  if (bytes_ <= Post::kPayloadBytes)
    std::memcpy(post.payload.data(), data_, bytes_);
  else
    copy_chunk(group, 0);
}

Result<void> Broadcast::complete(Group& group) {
  const bool is_root = group.rank() == what_.root;
  if (bytes_ <= Post::kPayloadBytes) {
    if (!is_root && bytes_ > 0) std::memcpy(data_, group.posted(what_.root).payload.data(), bytes_);
    return ok();
  }
  for (std::size_t begin = 0; begin < bytes_;) {
    const std::size_t next = begin + group.slot_bytes();
    if (!is_root) copy_chunk(group, begin);
    group.next_buffer();
    if (next < bytes_) {
      if (is_root) copy_chunk(group, next);
      if (auto met = group.barrier(); !met) return met;
    }
    begin = next;
  }
  return ok();
}

void Broadcast::copy_chunk(Group& group, std::size_t begin) const {
  const std::size_t bytes = std::min(bytes_ - begin, group.slot_bytes());
  std::byte* const slot = group.slot(what_.root);
  if (group.rank() == what_.root)
    std::memcpy(slot, data_ + begin, bytes);
  else
    std::memcpy(data_ + begin, slot, bytes);
}

}  // namespace ddprun::runtime::shm

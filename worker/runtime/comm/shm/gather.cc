#include "worker/runtime/comm/shm/gather.h"

#include "worker/runtime/comm/shm/group.h"

#include <algorithm>
#include <cstring>

namespace ddprun::runtime::shm {

void Gather::contribute(Group& group, Post& post) {
  if (bytes_ == 0) return;
  if (bytes_ <= Post::kPayloadBytes)
    std::memcpy(post.payload.data(), in_, bytes_);
  else
    std::memcpy(group.slot(group.rank()), in_, std::min(bytes_, group.slot_bytes()));
}

Result<void> Gather::complete(Group& group) {
  if (bytes_ <= Post::kPayloadBytes) {
    for (std::size_t rank = 0; rank < outs_.size() && bytes_ > 0; ++rank) {
      std::memcpy(outs_[rank], group.posted(static_cast<int>(rank)).payload.data(), bytes_);
    }
    return ok();
  }
  for (std::size_t begin = 0; begin < bytes_; begin += group.slot_bytes()) {
    const std::size_t bytes = std::min(bytes_ - begin, group.slot_bytes());
    if (begin > 0) {
      std::memcpy(group.slot(group.rank()), in_ + begin, bytes);
      if (auto met = group.barrier(); !met) return met;
    }
    for (std::size_t rank = 0; rank < outs_.size(); ++rank) {
      std::memcpy(outs_[rank] + begin, group.slot(static_cast<int>(rank)), bytes);
    }
    group.next_buffer();
  }
  return ok();
}

}  // namespace ddprun::runtime::shm

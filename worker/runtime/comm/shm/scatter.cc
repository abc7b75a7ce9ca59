#include "worker/runtime/comm/shm/scatter.h"

#include "worker/runtime/comm/shm/group.h"

#include <algorithm>
#include <cstring>

namespace ddprun::runtime::shm {

void Scatter::contribute(Group& group, Post&) {
  if (group.rank() == what_.root) copy_in(group, 0);
}

Result<void> Scatter::complete(Group& group) {
  for (std::size_t begin = 0; begin < bytes_; begin += group.slot_bytes()) {
    if (begin > 0) {
      if (group.rank() == what_.root) copy_in(group, begin);
      if (auto met = group.barrier(); !met) return met;
    }
    std::memcpy(out_ + begin, group.slot(group.rank()), std::min(bytes_ - begin, group.slot_bytes()));
    group.next_buffer();
  }
  return ok();
}

void Scatter::copy_in(Group& group, std::size_t begin) const {
  const std::size_t bytes = std::min(bytes_ - begin, group.slot_bytes());
  if (bytes == 0) return;
  for (int rank = 0; rank < group.size(); ++rank) {
    std::memcpy(group.slot(rank), ins_[static_cast<std::size_t>(rank)] + begin, bytes);
  }
}

}  // namespace ddprun::runtime::shm

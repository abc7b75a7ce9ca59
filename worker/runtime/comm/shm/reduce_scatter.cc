#include "worker/runtime/comm/shm/reduce_scatter.h"

#include "worker/runtime/comm/shm/group.h"

#include <algorithm>
#include <cstring>

namespace ddprun::runtime::shm {

ReduceScatter::ReduceScatter(Arguments arguments)
    : ins_(std::move(arguments.ins)),
      out_(arguments.out),
      what_(arguments.what),
      kernels_(arguments.kernels),
      bytes_(what_.count * item_size(what_.dtype)),
      is_one_tensor_(arguments.is_one_tensor) {}

void ReduceScatter::contribute(Group& group, Post&) {
  if (bytes_ > 0) copy_in(group, 0);
}

Result<void> ReduceScatter::complete(Group& group) {
  const auto me = static_cast<std::size_t>(group.rank());
  if (group.size() == 1) {
    if (bytes_ > 0 && out_ != ins_[0]) std::memcpy(out_, ins_[0], bytes_);
    return ok();
  }
  const Folding folding{.kernels = kernels_,
                        .item_bytes = item_size(what_.dtype),
                        .is_average = what_.op == ReduceOp::kAverage,
                        .order = RingOrder(is_one_tensor_ ? bytes_ * ins_.size() : bytes_,
                                           item_size(what_.dtype), group.size())};
  const std::size_t part_begin = is_one_tensor_ ? me * bytes_ : 0;
  const std::size_t chunk = group.part_bytes();
  for (std::size_t begin = 0; begin < bytes_; begin += chunk) {
    if (begin > 0) {
      copy_in(group, begin);
      if (auto met = group.barrier(); !met) return met;
    }
    std::vector<const std::byte*> sources;
    sources.reserve(static_cast<std::size_t>(group.size()));
    for (int rank = 0; rank < group.size(); ++rank) {
      sources.push_back(rank == group.rank() ? ins_[me] + begin : group.slot(rank) + me * chunk);
    }
    std::byte* const target = out_ + begin;
    fold(folding, part_begin + begin, std::min(chunk, bytes_ - begin), sources, {&target, 1});
    group.next_buffer();
  }
  return ok();
}

void ReduceScatter::copy_in(Group& group, std::size_t begin) const {
  const std::size_t chunk = group.part_bytes();
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank()) continue;
    const auto part = static_cast<std::size_t>(rank);
    std::memcpy(group.slot(group.rank()) + part * chunk, ins_[part] + begin, std::min(chunk, bytes_ - begin));
  }
}

}  // namespace ddprun::runtime::shm

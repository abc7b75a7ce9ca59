#include "worker/runtime/comm/shm/all_to_all.h"

#include "worker/runtime/comm/shm/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace ddprun::runtime::shm {
namespace {

/// The longest part between any two ranks, or the first pair that does not agree on one.
Result<std::size_t> longest_part(const Group& group) {
  const auto size = static_cast<std::size_t>(group.size());
  std::size_t longest = 0;
  for (std::size_t from = 0; from < size; ++from) {
    for (std::size_t to = 0; to < size; ++to) {
      const std::size_t sent = group.counts_of(static_cast<int>(from))[to];
      const std::size_t expected = group.counts_of(static_cast<int>(to))[size + from];
      if (sent != expected) {
        return Error(ErrorCode::kConfig,
                     fmt::format("{}: rank {} sends {} bytes to rank {}, which expects {}", group.operation(),
                                 from, sent, to, expected));
      }
      longest = std::max(longest, sent);
    }
  }
  return longest;
}

/// How much of a part is left after `begin`, at most `chunk` bytes. Without any, its memory may be null.
std::size_t left_of(std::size_t bytes, std::size_t begin, std::size_t chunk) {
  return begin < bytes ? std::min(chunk, bytes - begin) : 0;
}

}  // namespace

void AllToAll::contribute(Group& group, Post&) {
  std::uint64_t* const counts = group.my_counts();
  for (std::size_t rank = 0; rank < ins_.size(); ++rank) {
    counts[rank] = ins_[rank].bytes;
    counts[ins_.size() + rank] = outs_[rank].bytes;
  }
  copy_in(group, 0);
}

Result<void> AllToAll::complete(Group& group) {
  const auto longest = longest_part(group);
  if (!longest) return longest.error();
  for (std::size_t begin = 0; begin < *longest; begin += group.part_bytes()) {
    if (begin > 0) {
      copy_in(group, begin);
      if (auto met = group.barrier(); !met) return met;
    }
    copy_out(group, begin);
    group.next_buffer();
  }
  return ok();
}

void AllToAll::copy_in(Group& group, std::size_t begin) const {
  for (std::size_t rank = 0; rank < ins_.size(); ++rank) {
    const std::size_t bytes = left_of(ins_[rank].bytes, begin, group.part_bytes());
    if (bytes > 0)
      std::memcpy(group.slot(group.rank()) + rank * group.part_bytes(), ins_[rank].data + begin, bytes);
  }
}

void AllToAll::copy_out(Group& group, std::size_t begin) const {
  const std::size_t place = static_cast<std::size_t>(group.rank()) * group.part_bytes();
  for (std::size_t rank = 0; rank < outs_.size(); ++rank) {
    const std::size_t bytes = left_of(outs_[rank].bytes, begin, group.part_bytes());
    if (bytes > 0) std::memcpy(outs_[rank].data + begin, group.slot(static_cast<int>(rank)) + place, bytes);
  }
}

}  // namespace ddprun::runtime::shm

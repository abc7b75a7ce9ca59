#include "worker/runtime/comm/shm/all_reduce.h"

#include "worker/runtime/comm/shm/group.h"

#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <cstring>

namespace ddprun::runtime::shm {
namespace {

/// One per rank, without an allocation for the usual numbers of ranks.
template <class T>
using Pointers = boost::container::small_vector<T*, 16>;

/// Up to here, one barrier and every rank doing the whole sum beats two barriers and slices.
constexpr std::size_t kSmallBytes = std::size_t{8} << 10U;

bool is_small(const Group& group, std::size_t bytes) {
  return bytes <= std::min(kSmallBytes, group.slot_bytes());
}

/// Post::flags: the data lies in the rank's arena; the payload holds the offset.
constexpr std::uint32_t kInArena = 1;

struct Slice {
  std::size_t begin, end;
};

/// The part of [begin, end) that `rank` folds: whole cache lines, so that no two ranks write the same one.
Slice slice_of(std::size_t begin, std::size_t end, int rank, int size) {
  const std::size_t lines = (end - begin + kCacheLine - 1) / kCacheLine;
  const auto ranks = static_cast<std::size_t>(size);
  const std::size_t each = (lines + ranks - 1) / ranks * kCacheLine;
  const std::size_t from = std::min(end, begin + each * static_cast<std::size_t>(rank));
  return {.begin = from, .end = std::min(end, from + each)};
}

std::size_t arena_offset(const Group& group, const std::byte* data, std::size_t bytes) {
  const std::byte* const arena = group.segment().arena(group.rank());
  const std::size_t arena_bytes = group.segment().shape().arena_bytes;
  if (data < arena || data + bytes > arena + arena_bytes) return SIZE_MAX;
  return static_cast<std::size_t>(data - arena);
}

}  // namespace

AllReduce::AllReduce(const Arguments& arguments)
    : in_(arguments.in),
      out_(arguments.out),
      what_(arguments.what),
      kernels_(arguments.kernels),
      item_bytes_(item_size(what_.dtype)),
      bytes_(what_.count * item_bytes_) {}

bool AllReduce::wants_result(const Group& group) const {
  return what_.root < 0 || what_.root == group.rank();
}

Folding AllReduce::folding(const Group& group) const {
  return {.kernels = kernels_,
          .item_bytes = item_bytes_,
          .is_average = what_.op == ReduceOp::kAverage,
          .order = RingOrder(bytes_, item_bytes_, group.size())};
}

AllReduce::Range AllReduce::chunk(const Group& group, std::size_t index) const {
  const std::size_t begin = index * group.slot_bytes();
  return {.begin = begin, .end = std::min(bytes_, begin + group.slot_bytes())};
}

void AllReduce::contribute(Group& group, Post& post) {
  if (bytes_ == 0 || group.size() == 1) return;
  if (bytes_ <= Post::kPayloadBytes) {
    std::memcpy(post.payload.data(), in_, bytes_);
  } else if (is_small(group, bytes_)) {
    std::memcpy(group.slot(group.rank()), in_, bytes_);
  } else if (const auto offset = arena_offset(group, in_, bytes_);
             offset != SIZE_MAX && in_ == out_ && what_.root < 0) {
    post.flags = kInArena;
    std::memcpy(post.payload.data(), &offset, sizeof(offset));
  } else {
    copy_in(group, chunk(group, 0));
  }
}

Result<void> AllReduce::complete(Group& group) {
  if (bytes_ == 0) return ok();
  if (group.size() == 1) {
    if (in_ != out_) std::memcpy(out_, in_, bytes_);
    return ok();
  }
  if (is_small(group, bytes_)) {
    complete_small(group, bytes_ <= Post::kPayloadBytes);
    return ok();
  }
  int in_arena = 0;
  for (int rank = 0; rank < group.size(); ++rank)
    in_arena += (group.posted(rank).flags & kInArena) != 0 ? 1 : 0;
  if (in_arena == group.size()) return complete_in_place(group);
  if (in_arena > 0) {
    // Some ranks relied on being read in place; they bring their first chunk now.
    if ((group.posted(group.rank()).flags & kInArena) != 0) copy_in(group, chunk(group, 0));
    if (auto met = group.barrier(); !met) return met;
  }
  return complete_in_chunks(group);
}

void AllReduce::complete_small(Group& group, bool is_inline) const {
  if (wants_result(group)) {
    Pointers<const std::byte> sources;
    for (int rank = 0; rank < group.size(); ++rank) {
      sources.push_back(is_inline ? group.posted(rank).payload.data() : group.slot(rank));
    }
    std::byte* const target = out_;
    fold(folding(group), 0, bytes_, sources, {&target, 1});
  }
  if (!is_inline) group.next_buffer();
}

Result<void> AllReduce::complete_in_place(Group& group) const {
  const Slice slice = slice_of(0, bytes_, group.rank(), group.size());
  Pointers<const std::byte> sources;
  Pointers<std::byte> targets;
  for (int rank = 0; rank < group.size(); ++rank) {
    std::size_t offset = 0;
    std::memcpy(&offset, group.posted(rank).payload.data(), sizeof(offset));
    targets.push_back(group.segment().arena(rank) + offset + slice.begin);
    sources.push_back(targets.back());
  }
  fold(folding(group), slice.begin, slice.end - slice.begin, sources, targets);
  return group.barrier();
}

Result<void> AllReduce::complete_in_chunks(Group& group) const {
  const std::size_t chunks = (bytes_ + group.slot_bytes() - 1) / group.slot_bytes();
  for (std::size_t index = 0; index < chunks; ++index) {
    const Range range = chunk(group, index);
    if (index > 0) {
      copy_in(group, range);
      if (auto met = group.barrier(); !met) return met;
    }
    fold_own_slice(group, range);
    if (auto met = group.barrier(); !met) return met;
    copy_out(group, range);
    group.next_buffer();
  }
  return ok();
}

void AllReduce::copy_in(Group& group, Range range) const {
  std::byte* const slot = group.slot(group.rank());
  const Slice own = slice_of(range.begin, range.end, group.rank(), group.size());
  std::memcpy(slot, in_ + range.begin, own.begin - range.begin);
  std::memcpy(slot + (own.end - range.begin), in_ + own.end, range.end - own.end);
}

void AllReduce::fold_own_slice(Group& group, Range range) const {
  const Slice own = slice_of(range.begin, range.end, group.rank(), group.size());
  Pointers<const std::byte> sources;
  for (int rank = 0; rank < group.size(); ++rank) {
    sources.push_back(rank == group.rank() ? in_ + own.begin : group.slot(rank) + (own.begin - range.begin));
  }
  Pointers<std::byte> targets{group.slot(group.rank()) + (own.begin - range.begin)};
  if (wants_result(group)) targets.push_back(out_ + own.begin);
  fold(folding(group), own.begin, own.end - own.begin, sources, targets);
}

void AllReduce::copy_out(Group& group, Range range) const {
  if (!wants_result(group)) return;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank()) continue;
    const Slice theirs = slice_of(range.begin, range.end, rank, group.size());
    std::memcpy(out_ + theirs.begin, group.slot(rank) + (theirs.begin - range.begin),
                theirs.end - theirs.begin);
  }
}

}  // namespace ddprun::runtime::shm

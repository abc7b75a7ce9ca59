#pragma once

#include "worker/runtime/comm/shm/collective.h"
#include "worker/runtime/comm/shm/fold.h"

#include <cstddef>
#include <vector>

namespace ddprun::runtime::shm {

/// All-reduce, and reduce to one rank: `in` of every rank is folded (fold.h) into `out`, which may be `in`.
///
/// Four ways, by size and place, the same on every rank:
///  - up to Post::kPayloadBytes: the data rides in the line that says "I have come", and every rank folds
///    all of it;
///  - up to kSmallBytes: the same through the slots;
///  - `in` and `out` the same memory in the arena of every rank: each rank folds its slice right there and
///    writes it into every copy; nothing is copied in or out;
///  - else in chunks of a slot: a rank copies in what the others fold, folds its own slice, and copies out
///    theirs.
class AllReduce final : public Collective {
 public:
  struct Arguments {
    const std::byte* in = nullptr;
    std::byte* out = nullptr;  ///< ignored on ranks other than the root, when there is one
    Description what;          ///< kind kAllReduce, or kReduce and the root; dtype, op, shape
    const Kernels* kernels = nullptr;
  };

  explicit AllReduce(const Arguments& arguments);

  [[nodiscard]] Description describe() const override { return what_; }
  void contribute(Group& group, Post& post) override;
  Result<void> complete(Group& group) override;

 private:
  struct Range {
    std::size_t begin, end;
    [[nodiscard]] std::size_t size() const { return end - begin; }
  };

  [[nodiscard]] bool wants_result(const Group& group) const;
  [[nodiscard]] Folding folding(const Group& group) const;
  [[nodiscard]] Range chunk(const Group& group, std::size_t index) const;
  void copy_in(Group& group, Range chunk) const;
  void copy_out(Group& group, Range chunk) const;
  void fold_own_slice(Group& group, Range chunk) const;
  void complete_small(Group& group, bool is_inline) const;
  Result<void> complete_in_place(Group& group) const;
  Result<void> complete_in_chunks(Group& group) const;

  const std::byte* in_;
  std::byte* out_;
  Description what_;
  const Kernels* kernels_;
  std::size_t item_bytes_;
  std::size_t bytes_;
};

}  // namespace ddprun::runtime::shm

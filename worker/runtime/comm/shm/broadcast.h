#pragma once

#include "worker/runtime/comm/shm/collective.h"

#include <cstddef>

namespace ddprun::runtime::shm {

/// Copies the root's data to every rank, in chunks: while the others copy one out, the root copies the next
/// one in.
class Broadcast final : public Collective {
 public:
  /// `data` holds `bytes` bytes: the source on the root, the target elsewhere.
  Broadcast(std::byte* data, std::size_t bytes, const Description& what)
      : data_(data), bytes_(bytes), what_(what) {}

  [[nodiscard]] Description describe() const override { return what_; }
  void contribute(Group& group, Post& post) override;
  Result<void> complete(Group& group) override;

 private:
  void copy_chunk(Group& group, std::size_t begin) const;

  std::byte* data_;
  std::size_t bytes_;
  Description what_;
};

}  // namespace ddprun::runtime::shm

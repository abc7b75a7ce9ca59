#pragma once

#include "worker/runtime/comm/shm/collective.h"

#include <cstddef>
#include <vector>

namespace ddprun::runtime::shm {

/// Gives every rank its own part of what the root has.
class Scatter final : public Collective {
 public:
  /// Every part has `bytes` bytes. `ins[r]` is rank r's part; used on the root only.
  Scatter(std::vector<const std::byte*> ins, std::byte* out, std::size_t bytes, const Description& what)
      : ins_(std::move(ins)), out_(out), bytes_(bytes), what_(what) {}

  [[nodiscard]] Description describe() const override { return what_; }
  void contribute(Group& group, Post& post) override;
  Result<void> complete(Group& group) override;

 private:
  void copy_in(Group& group, std::size_t begin) const;

  std::vector<const std::byte*> ins_;
  std::byte* out_;
  std::size_t bytes_;
  Description what_;
};

}  // namespace ddprun::runtime::shm

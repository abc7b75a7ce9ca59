#pragma once

#include "worker/runtime/comm/shm/collective.h"

#include <cstddef>
#include <vector>

namespace ddprun::runtime::shm {

/// All-gather, and gather to one rank: every rank's input reaches a place of its own on the ranks that want
/// it.
class Gather final : public Collective {
 public:
  /// `in` holds `bytes` bytes. `outs[r]` is where rank r's input goes; empty on ranks that want nothing.
  Gather(const std::byte* in, std::size_t bytes, std::vector<std::byte*> outs, const Description& what)
      : in_(in), bytes_(bytes), outs_(std::move(outs)), what_(what) {}

  [[nodiscard]] Description describe() const override { return what_; }
  void contribute(Group& group, Post& post) override;
  Result<void> complete(Group& group) override;

 private:
  const std::byte* in_;
  std::size_t bytes_;
  std::vector<std::byte*> outs_;
  Description what_;
};

}  // namespace ddprun::runtime::shm

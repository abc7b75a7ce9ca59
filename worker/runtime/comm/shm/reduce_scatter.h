#pragma once

#include "worker/runtime/comm/shm/collective.h"
#include "worker/runtime/comm/shm/fold.h"

#include <cstddef>
#include <vector>

namespace ddprun::runtime::shm {

/// Every rank has one part for each rank; each rank gets the sum of the parts meant for it. Equal to the last
/// bit to all-reduce of the parts one after the other.
class ReduceScatter final : public Collective {
 public:
  struct Arguments {
    std::vector<const std::byte*> ins;  ///< one part per rank
    std::byte* out = nullptr;           ///< may be this rank's own part, and no other
    Description what;                   ///< dtype, op and shape of one part
    const Kernels* kernels = nullptr;
  };

  explicit ReduceScatter(Arguments arguments);

  [[nodiscard]] Description describe() const override { return what_; }
  void contribute(Group& group, Post& post) override;
  Result<void> complete(Group& group) override;

 private:
  void copy_in(Group& group, std::size_t begin) const;

  std::vector<const std::byte*> ins_;
  std::byte* out_;
  Description what_;
  const Kernels* kernels_;
  std::size_t bytes_;
};

}  // namespace ddprun::runtime::shm

#pragma once

#include "worker/runtime/comm/shm/collective.h"
#include "worker/runtime/comm/shm/fold.h"

#include <cstddef>
#include <vector>

namespace ddprun::runtime::shm {

/// Every rank has one part for each rank; each rank gets the sum of the parts meant for it. Equal to the last
/// bit to gloo's: an all-reduce of the parts in a row, as one tensor, or of each alone.
class ReduceScatter final : public Collective {
 public:
  struct Arguments {
    std::vector<const std::byte*> ins;  ///< one part per rank
    std::byte* out = nullptr;           ///< may be this rank's own part, and no other
    Description what;                   ///< dtype, op and shape of one part
    const Kernels* kernels = nullptr;
    bool is_one_tensor = true;  ///< the parts are the pieces of one
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
  bool is_one_tensor_;
};

}  // namespace ddprun::runtime::shm

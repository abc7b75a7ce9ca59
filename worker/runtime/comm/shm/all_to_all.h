#pragma once

#include "worker/runtime/comm/shm/collective.h"

#include <cstddef>
#include <vector>

namespace ddprun::runtime::shm {

/// Every rank has a part for each rank, of any size, and gets one from each.
class AllToAll final : public Collective {
 public:
  /// Memory for or from one rank.
  struct Part {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };

  /// What rank r sends to rank q must be as long as what q expects from r; kConfig names the first pair for
  /// which it is not. No output may overlap an input.
  AllToAll(std::vector<Part> ins, std::vector<Part> outs, const Description& what)
      : ins_(std::move(ins)), outs_(std::move(outs)), what_(what) {}

  [[nodiscard]] Description describe() const override { return what_; }
  void contribute(Group& group, Post& post) override;
  Result<void> complete(Group& group) override;

 private:
  void copy_in(Group& group, std::size_t begin) const;
  void copy_out(Group& group, std::size_t begin) const;

  std::vector<Part> ins_;
  std::vector<Part> outs_;
  Description what_;
};

}  // namespace ddprun::runtime::shm

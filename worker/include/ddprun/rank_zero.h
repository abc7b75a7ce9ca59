#pragma once

#include <ddprun/group.h>

#include <iostream>

namespace ddprun {

/// std::cout on rank 0 of a group, nothing elsewhere.
///
///     rank_zero_out(context) << "epoch " << epoch << "\n";
///
class RankZeroOut {
 public:
  explicit RankZeroOut(bool is_rank_zero) : is_rank_zero_(is_rank_zero) {}
  template <class T>
  const RankZeroOut& operator<<(const T& value) const {
    if (is_rank_zero_) std::cout << value;
    return *this;
  }

 private:
  bool is_rank_zero_;
};

inline RankZeroOut rank_zero_out(const Group& group) { return RankZeroOut(group.rank() == 0); }

}  // namespace ddprun
